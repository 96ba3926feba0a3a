"""A dispute of each case, from the run roots to the page about its number; and a job without one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from assay_explorer.rendering import NotThere
from assay_lab.faults import EXPECTED, Fault
from referee_py.program.modes import Rounding
from referee_py.walk.reason import Reason
from tests.conftest import Anvil
from tests.e2e.arena import Arena
from trainer_node.client.dispute_words import CASES
from trainer_node.local.bundle import Bundle

from .conftest import play
from .test_pages import Reader

FAULTS = [fault for fault in Fault if fault is not Fault.NONE]


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_every_case_is_told(fault: Fault, anvil: Anvil, tmp_path: Path, small_bundle: Bundle) -> None:
    of_logs = fault in (Fault.WRONG_LOG, Fault.FORGED_LOG)
    bundle = small_bundle.with_mode(Rounding().mode) if of_logs else small_bundle
    trainers = [fault] if of_logs else [Fault.NONE, fault]
    judges: Any = {"verifiers": 0, "threshold": 0} if of_logs else {}
    with Arena(anvil, tmp_path, bundle, trainers=trainers, **judges) as arena:
        played = play(arena, bundle, tmp_path)
        pages, number, match = played.pages(), arena.job_id, hex(played.match)
        while pages.fetching(number, match):
            pass
        reason = EXPECTED[fault]
        dispute = Reader(pages.dispute(number, match)).text
        assert f"Decision · {CASES[reason][0]}" in dispute
        ((_, losers),) = played.outcome.matches
        assert len(losers) == 1
        assert dispute.count("won" if reason is Reason.TIMEOUT else "was right") == 1
        assert CASES[reason][1] in dispute
        assert pages.check(number, match)[0][1] is True
        element = Reader(pages.element(number, match)).text
        if reason in (Reason.INPUT_NODE, Reason.INPUT_CHECKPOINT, Reason.INPUT_CONSTANT, Reason.INPUT_STEP):
            # NOTE: hashes alone decide, so no side has to serve these tensors; then the page names what is missing.
            assert "This is an input." in element or "could not be fetched" in element, element
        if fault is Fault.FORGED_LOG:
            assert "The entry of the rounding log for this element" in element
        if reason is Reason.OPERATOR:
            assert "right" in element
            assert "wrong" in element
            assert re.search(
                r"\S+ ≠ \S+ (It is the first of [\d,]+ numbers that differ. )?Trainer", dispute
            ), dispute
        assert pages.operator(number, match, None, "", "")
        assert pages.proof(number, match)


@pytest.mark.slow
def test_a_job_without_a_dispute(anvil: Anvil, tmp_path: Path, small_bundle: Bundle) -> None:
    with Arena(anvil, tmp_path, small_bundle, trainers=[Fault.NONE, Fault.NONE]) as arena:
        played = play(arena, small_bundle, tmp_path)
        pages = played.pages()
        page = Reader(pages.job(arena.job_id)).text
        assert "Nobody has disputed a result of this job." in page
        assert "claimed by trainer 1 and trainer 2" in page
        assert "checked: several parties have the same result (2)" in page
        with pytest.raises(NotThere, match="no dispute"):
            pages.first_match(arena.job_id)
