"""Challengers that check a part win disputes about it, and lose nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay_lab.faults import Fault
from referee_py.walk.reason import Reason
from tests.conftest import Anvil
from trainer_node.bundle import Bundle
from trainer_node.chain import JobPhase

from .arena import STAKE, Arena
from .test_disputes import honest_root


@pytest.mark.parametrize("verifiers", [2, 0], ids=["verdict", "court"])
def test_a_sampler_refutes_the_only_claim(
    anvil: Anvil, tmp_path: Path, bundle: Bundle, verifiers: int
) -> None:
    with Arena(
        anvil,
        tmp_path,
        bundle,
        trainers=[Fault.WRONG_OP_OUTPUT],
        check="sample:1",
        verifiers=verifiers,
        threshold=min(1, verifiers),
    ) as arena:
        outcome = arena.play()
        assert outcome.job.phase is JobPhase.UNCLAIMED
        assert outcome.job.reopened > 0
        assert outcome.matches == [(Reason.OPERATOR, {arena.address("trainer-0")})]
        assert outcome.profit["trainer-0"] == -STAKE
        assert outcome.profit["challenger"] == STAKE // 2 - (STAKE // 10 if verifiers else 0)


def test_a_sampler_has_nothing_against_an_honest_run(anvil: Anvil, tmp_path: Path, bundle: Bundle) -> None:
    with Arena(anvil, tmp_path, bundle, trainers=[Fault.NONE], check="sample:0.5") as arena:
        outcome = arena.play()
        assert outcome.job.accepted_root == honest_root(bundle)
        assert outcome.matches == []
        assert outcome.profit["challenger"] == 0
