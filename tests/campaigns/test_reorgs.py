"""The chain takes back its last blocks in every phase of a job, 1 to 12 of them; the outcome stays the same."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from assay_lab.faults import EXPECTED, Fault
from tests.conftest import Anvil
from tests.e2e.test_disputes import expect_justice
from trainer_node.local.bundle import Bundle

from .games import game

DEPTHS = range(1, 13)


def play(anvil: Anvil, folder: Path, bundle: Bundle, fault: Fault, depth: int) -> set[str]:
    """Take back so many blocks when the job first comes to a phase; return the phases."""
    with game(anvil, folder, bundle, [anvil.url], fault) as played:
        played.rpc("anvil_mine", hex(max(DEPTHS) + 1))  # no reorganisation takes back the posting
        seen = set[str]()

        def between() -> None:
            here = played.phase()
            if here not in seen:
                seen.add(here)
                played.rpc("anvil_reorg", depth, [])

        played.between = between
        outcome = played.play()
        expect_justice(played, outcome, bundle)
        assert outcome.matches == [(EXPECTED[fault], {played.address("trainer-1")})]
        assert not played.members[0].node.problems.topics()
    return seen


def walked(seen: set[str]) -> set[str]:
    """Return the job's phases among those that a game has come to."""
    return {here.partition(" ")[0] for here in seen}


@pytest.mark.parametrize("depth", [12])
def test_the_outcome_survives_reorganisations(
    module_anvil: Anvil, tmp_path: Path, bundle: Bundle, depth: int
) -> None:
    seen = play(module_anvil, tmp_path / "game", bundle, Fault.POISON_DATA, depth)
    assert walked(seen) >= {"TRAINING", "CHALLENGE"}


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("fault", [Fault.POISON_DATA, Fault.WRONG_OP_OUTPUT])
def test_campaign(module_anvil: Anvil, tmp_path: Path, bundle: Bundle, fault: Fault) -> None:
    """Each depth, in every phase of a job, a match and, for a wrong operator, a hearing and a trial."""
    failed, phases = list[str](), set[str]()
    for depth in DEPTHS:
        try:
            seen = play(module_anvil, tmp_path / str(depth), bundle, fault, depth)
        except AssertionError as error:
            failed.append(f"depth {depth}: {str(error)[:500]}")
        else:
            phases |= seen
            print(f"{fault}, depth {depth}: {len(seen)} reorganisations", file=sys.__stderr__, flush=True)
    assert not failed, "\n".join(failed)
    assert walked(phases) >= {"TRAINING", "CHALLENGE", "ACCEPTED"}
    if fault is Fault.WRONG_OP_OUTPUT:
        assert any("HEARING" in here for here in phases)
