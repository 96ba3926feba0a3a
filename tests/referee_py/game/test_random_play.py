"""Python and the contracts play the same random games and must agree after every move."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from referee_py.game import refusals
from referee_py.panel import refusals as panel_refusals
from referee_py.walk.reason import Reason
from referee_py.walk.refusals import Refusal
from tests.model.timekeeper import Timekeeper

from . import chain as local
from .random_game import LEAVE_DELAY, MIN_STAKE
from .random_play import Cohort, Tally


def _names(module: ModuleType, but: set[str]) -> set[str]:
    """Return the refusals of a module except ``but``: those are rare, and each has a test of its own."""
    found = (kind for kind in vars(module).values() if isinstance(kind, type))
    return {kind.__name__ for kind in found if issubclass(kind, Refusal) and kind is not Refusal} - but


EVERY_GUARD_OF_A_MATCH = _names(
    refusals,
    {"UnknownOperand", "ForwardReference", "StructureTooLong", "IndexOutOfTree"},
)
EVERY_GUARD_OF_A_HEARING = _names(panel_refusals, {"AlreadyHeard"})

COHORT = 50
# Games on one chain. anvil copies its whole state for each block, so a long chain is slow.
CHAIN = 100
ROUNDS = 160
PAUSE_BUDGET = 80


def _play(
    start_anvil: Callable[..., Any],
    games: int,
    seed: str,
    missing: Callable[[Tally], set[str]] = lambda _: set(),
    chains: int = 3,
) -> Tally:
    """Play ``games`` games, and at most ``chains`` more chains of them while ``missing`` finds something."""
    if not local.available():
        pytest.fail("the contracts are not compiled; run `make setup`")
    began = time.monotonic()
    tally = Tally()
    for first in range(0, games + chains * CHAIN, CHAIN):
        if first >= games and not missing(tally):
            break
        anvil = start_anvil(*local.ANVIL_OPTIONS)
        clocks = Timekeeper(PAUSE_BUDGET)
        chain = local.Chain(anvil.url, MIN_STAKE, LEAVE_DELAY, PAUSE_BUDGET)
        for number in range(first, first + CHAIN, COHORT):
            Cohort(chain, clocks, (seed, number), COHORT, tally, ROUNDS).play()
        os.kill(anvil.pid, signal.SIGTERM)
    print(f"\n{tally.games} games, {tally.moves} moves, {time.monotonic() - began:.0f} s")
    print(f"accepted {dict(tally.accepted)}\nrefused {dict(tally.refused)}")
    print(f"matches {dict(tally.reasons)}\njobs {dict(tally.endings)}")
    print(f"clocks {dict(tally.clocks)}")
    print(f"hearings {dict(tally.hearings)}\ntrials {dict(tally.trials)}")
    return tally


def _missing(tally: Tally) -> set[str]:
    """Return the endings that play has not reached. It tests something only if it reaches all of them."""
    kinds = {kind for kind, phase, *_ in tally.hearings if phase == "DONE"}
    wanted = {
        "a verdict": "verifiers" in kinds,
        "a trial": "court" in kinds,
        "a bond that is lost": any(lost for *_, lost in tally.hearings),
        "two pauses": tally.clocks["pause"] >= 2,
        "a pause that ends early": tally.clocks["resume"] >= 1,
    }
    moves = {
        "dataAvailability.request",
        "dataAvailability.close",
        "dataAvailability.provideDigests",
        "dataAvailability.provideBlocks",
    }
    moves |= {"dataAvailability.provideRecord", "dataAvailability.provideLeaf", "jobs.collect"}
    moves |= {"jobs.refute", "panel.appeal", "panel.stand", "panel.escalate", "court.judge", "court.timeout"}
    reasons = {"OPERATOR", "TIMEOUT", "STRUCTURE"} - set(tally.reasons)
    return {what for what, seen in wanted.items() if not seen} | reasons | (moves - set(tally.accepted))


@pytest.mark.timeout(600)
def test_random_play_expect_contract_and_python_agree(start_anvil: Callable[..., Any]) -> None:
    # NOTE: time is a real chain's, so a seed does not give the same games twice, and rare events may not occur.
    tally = _play(start_anvil, CHAIN, "short", _missing)
    assert _missing(tally) == set()


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_long_random_play_expect_every_guard_and_ending_reached(start_anvil: Callable[..., Any]) -> None:
    guards = EVERY_GUARD_OF_A_MATCH | EVERY_GUARD_OF_A_HEARING
    tally = _play(start_anvil, 1000, "long", lambda tally: guards - set(tally.refused), chains=20)
    assert {reason.name for reason in Reason} <= set(tally.reasons) | {"NONE"}
    assert {"ACCEPTED", "UNCLAIMED", "VOID"} <= set(tally.endings)
    assert set(tally.refused) >= guards
    assert set(tally.clocks) >= {"NotGuardian", "AlreadyPaused", "NotPaused", "BudgetSpent"}


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", [f"campaign {k}" for k in range(4)])
def test_random_play_campaign_expect_contract_and_python_agree(
    start_anvil: Callable[..., Any], seed: str
) -> None:
    _play(start_anvil, 2000, seed)
