"""The dearest move of each kind in a trial, each in a transaction of its own: the least stake is derived from them.

ATTACK: the dearest operator that the limits allow. If a move about it were longer than public nodes relay, or dearer
than a block permits, the honest side could not send it.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from repops.opset import MAX_STEPS

from referee_py.commit.tensor import Array
from referee_py.element import rule_of
from referee_py.element.native import native_chain
from referee_py.gas_schedule import SCHEDULES, Counts
from referee_py.program.modes import EXACT, REPOPS_F32
from referee_py.rounding import Rounding
from referee_py.rounding.blocks import BLOCK
from referee_py.trial import Stage, TrialState, places
from scripts.gas_schedules import transactions
from tests.referee_py.element.operands import cases_of
from tests.referee_py.rounding.logs import log_of
from tests.referee_py.trial.parties import Setting, one_ulp, outputs_of
from trainer_node.stake.min_stake import CHAIN_ROUNDS, TRIAL

from .stand import Stand

MAX_BYTES, MAX_GAS = 100_000, 12_000_000
"""Limits below those of public nodes, which refuse transactions over 131,072 bytes, and of EIP-7825, 16,777,216 gas."""
SPARE = 1.15
"""Maximum ratio of the table to the measured gas: contracts change by a few units of gas."""


def counts_of_slots(move: str) -> Counts:
    """Return what a move of a whole job was counted to leave behind."""
    (found,) = [counts for name, (counts, _) in transactions().items() if name[3:] == move]
    return found


def negative(rows: int, terms: int, columns: int) -> list[Array]:
    """Return the operands of a product without a positive term: few bytes of a sum below zero are zero."""
    rng = np.random.default_rng(4)
    a, b = (
        np.abs(rng.standard_normal(shape)).astype(np.float32) for shape in ((rows, terms), (terms, columns))
    )
    return [a, -b]


def joined() -> Setting:
    """Return a dispute of 255 inputs of rank 8, whose types each move repeats; an element of the last input, and a log
    with the longest possible block for it: every entry is a written value."""
    rng, mode = np.random.default_rng(3), Rounding(32).mode
    inputs = [rng.standard_normal((2,) * 7 + (3,)).astype(np.float32) for _ in range(255)]
    (truth,) = outputs_of("cat", inputs, {"dim": 7}, mode)
    element = 126 * 765 + 764
    first = element // BLOCK * BLOCK
    log = log_of(truth.size, {}, dict.fromkeys(range(first, first + BLOCK), 1.0))
    made = Setting.lied("cat", inputs, {"dim": 7}, ([truth], [one_ulp(truth, element)]), 0, 0, mode, log)
    assert len(made.sides[0].block(0, element).entries) == 6 * BLOCK
    return made


def logged() -> Setting:
    """Return a dispute about a chain of 4,096 steps with states of 200 bytes; every entry of its log is written."""
    mode = Rounding(32).mode
    inputs = negative(40, 4096, 60)
    (bare,) = outputs_of("mm", inputs, {}, mode)
    log = log_of(bare.size, {}, {place: float(value) for place, value in enumerate(bare.ravel())})
    (truth,) = outputs_of("mm", inputs, {}, mode, log)
    return Setting.lied("mm", inputs, {}, ([truth], [one_ulp(truth, 500)]), 0, 2900, mode, log)


@pytest.mark.timeout(300)
def test_the_table_is_what_the_dearest_moves_cost(stand: Stand) -> None:
    dearest, most = dict[str, int](), dict[str, Counts]()
    for setting in (joined(), logged()):
        played = stand.play(setting, served=False, one_by_one=True)
        assert (played.losers, played.late) == (2, False)
        for name, gas, counts in zip(played.names, played.gas, played.counts, strict=True):
            dearest[name] = max(dearest.get(name, 0), gas)
            most[name] = most.get(name, Counts()).most(counts)
            for schedule in SCHEDULES:
                assert schedule.gas(gas, counts) <= MAX_GAS, (schedule.name, name, gas, counts)
    print(dearest, most)
    assert max(counts.calldata for counts in most.values()) <= MAX_BYTES
    assert set(dearest) == set(TRIAL)
    # NOTE: here the trial reports to a test's contract; what a panel writes then is counted by Slots.t.sol.
    ending = counts_of_slots("judge: the verdict is overruled, the match ends")
    most["judge"] = most["judge"].most(replace(ending, calldata=0))
    for name, gas in dearest.items():
        table, counts = TRIAL[name], most[name]
        assert gas <= table.gas <= SPARE * gas, (name, gas)
        assert counts.calldata <= table.counts.calldata <= SPARE * counts.calldata, (name, counts)
        assert replace(table.counts, calldata=0) == replace(counts, calldata=0), (name, counts)


@pytest.mark.parametrize("mode", [REPOPS_F32.byte, EXACT.byte])
def test_no_other_chain_is_dearer_in_all_its_rounds(mode: int, stand: Stand) -> None:
    """Shorter states fill a post with more bytes that are not zero, but need fewer rounds."""
    terms = 65_536
    inputs = negative(1, terms, 1)
    (found,) = cases_of("mm", inputs, {}, (0.0,))
    case = replace(found, mode=mode)
    last = native_chain(case, inputs).advance(rule_of(case).begin(case), 0, terms)
    truth = np.array([[rule_of(case).finish(case, last)]], np.uint32).view(np.float32)
    setting = Setting.lied("mm", inputs, {}, ([truth], [one_ulp(truth, 0)]), 0, terms // 2, mode)
    played = stand.play(setting, served=True, one_by_one=True)
    left, rounds = MAX_STEPS, 0
    while left > 1:
        state = TrialState(("", ""), Stage.POST, 0, (0, 0), 0, state_bytes=len(last), hi=left, steps=left)
        left, rounds = max(b - a for a, b in pairwise([0, *places(state)])), rounds + 1
    for move in ("post", "answer"):
        dearest = max(gas for name, gas in zip(played.names, played.gas, strict=True) if name == move)
        print(move, rounds, dearest)
        assert rounds * dearest <= CHAIN_ROUNDS * TRIAL[move].gas
