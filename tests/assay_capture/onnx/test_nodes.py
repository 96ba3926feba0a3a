"""ONNX's own node tests: right, refused by name, or skipped for a reason; in the numbers of the ledger."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from .node_suite import DEAR, FILES, by_program, cases, every, outcome

LEDGER = {"right": 1144, "refused": 412, "skipped": 328}
"""What comes of all cases of onnx 1.23; more right ones are welcome, and belong here."""
OF_PROGRAMS = {"right": 1100, "refused": 448, "skipped": 336}
"""The same of the cases as captured programs: fewer operators have a lowering, and data must be finite."""
REMEDIED = 0.97
"""Least share of refusals that name an operator and a remedy."""


@pytest.mark.parametrize("file", sorted({*FILES} - {*DEAR})[::8])
def test_cases_of_a_file_are_right_or_refused(file: str, tmp_path: Path) -> None:
    for case in [*cases(file).values()][:8]:
        found = outcome(case, tmp_path)
        assert found.kind != "wrong", found.reason


@pytest.mark.parametrize("file", sorted({*FILES} - {*DEAR})[3::16])
def test_a_case_of_a_file_is_right_or_refused_as_a_program(file: str, tmp_path: Path) -> None:
    for case in [*cases(file).values()][:2]:
        found = outcome(case, tmp_path, by_program)
        assert found.kind != "wrong", found.reason
        if found.kind == "refused":
            assert found.remedied, found.reason


@pytest.mark.slow
def test_all_cases_are_as_in_the_ledger(tmp_path: Path) -> None:
    found = [outcome(case, tmp_path) for case in every().values()]
    assert [f"{case.name}: {case.reason}" for case in found if case.kind == "wrong"] == []
    assert Counter(case.kind for case in found) == LEDGER
    refused = [case for case in found if case.kind == "refused"]
    assert sum(case.remedied for case in refused) >= REMEDIED * len(refused)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_no_case_is_wrong_as_a_program(tmp_path: Path) -> None:
    found = [outcome(case, tmp_path, by_program) for case in every().values()]
    assert [f"{case.name}: {case.reason}" for case in found if case.kind == "wrong"] == []
    assert Counter(case.kind for case in found) == OF_PROGRAMS
    refused = [case for case in found if case.kind == "refused"]
    assert sum(case.remedied for case in refused) >= REMEDIED * len(refused)
