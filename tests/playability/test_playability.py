"""An honest party can always conclude, for every operator and mode, at and around every limit (`make playability`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from .search import NAMES, check, search


def test_a_sample_of_cases_and_jobs(start_anvil: Callable[..., Any]) -> None:
    report = search(start_anvil, cases=3, plays=0, share=6)
    check(report)
    assert sum(report.played.values()) >= 10
    assert sum(report.tally.taken.values()) > 400


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_playability_search(start_anvil: Callable[..., Any]) -> None:
    report = search(start_anvil, cases=62, plays=6)
    print("\n" + report.show())
    check(report)
    assert sum(report.tally.cases.values()) >= 20_000
    assert sum(report.played.values()) >= 300
    assert {name for name, _ in report.played} == set(NAMES)
