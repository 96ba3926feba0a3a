"""Chains of the Python twin, compared with the contracts in few requests."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from repops.tensors import Array

from referee_py.element import Case, Entry, rule_of
from referee_py.program.modes import REPOPS_F32
from tests.referee_py.element.logged import entries
from tests.referee_py.element.operands import cases_of, reader

from .chain import Given, Rules, decode
from .twin import Piece, cut, finished, whole

WHOLE = 400  # steps; of a longer chain the contract computes only pieces
PIECE = 40


class Checks:
    """Chains to be compared, in few requests."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.steps = 0
        self._steps: list[tuple[Case, Piece]] = []
        self._ends: list[tuple[Case, Piece]] = []
        self._elements: list[tuple[Case, bytes, list[Entry]]] = []
        self.followed = 0
        """Number of elements that an entry gave another value."""

    def ends(self, case: Case, chain: Piece) -> None:
        """Compare a whole chain's length, first state and element."""
        self._ends.append((case, chain))

    def elements(self, case: Case, chain: Piece, entries: list[Entry]) -> None:
        """Compare the element of a whole chain under each of these entries."""
        self._elements.append((case, chain.states[-1], entries))

    def piece(self, case: Case, steps: Piece) -> None:
        self._steps.append((case, steps))
        self.steps += len(steps.opened)

    def done(self) -> None:
        """Make the comparisons; fail for the first difference."""
        calls = [
            self.rules.steps_call(Given.of(case), steps.start, steps.states, steps.opened)
            for case, steps in self._steps
        ]
        for (case, steps), found in zip(self._steps, self.rules.calls(calls), strict=True):
            wrong, got = decode(["uint256", "bytes"], found)
            if wrong != len(steps.opened):
                want, before = steps.states[wrong + 1], steps.states[wrong]
                pytest.fail(
                    f"{case}: step {steps.start + wrong} of {before.hex()} and {steps.opened[wrong]} is "
                    f"{got.hex()}, should be {want.hex()}"
                )
        calls = [self.rules.ends_call(Given.of(case), chain.states[-1]) for case, chain in self._ends]
        for (case, chain), found in zip(self._ends, self.rules.calls(calls), strict=True):
            ends = decode(["uint64", "bytes", "uint64"], found)
            first, element = chain.states[0], finished(case, chain)
            assert ends == (len(chain.opened), first, element), case
        self._done_elements()

    def _done_elements(self) -> None:
        calls = [
            self.rules.elements_call(Given.of(case), last, [(e.kind, e.written) for e in said])
            for case, last, said in self._elements
        ]
        for (case, last, said), found in zip(self._elements, self.rules.calls(calls), strict=True):
            (got,) = decode(["uint64[]"], found)
            want = [rule_of(case).finish(case, last, entry) for entry in said]
            assert list(got) == want, (case, last.hex(), said)
            self.followed += sum(bits != want[0] for bits in want)


def evenly(rng: np.random.Generator, length: int) -> list[int]:
    """Return the starts of pieces of a chain: both ends, around the first chunk's end, and two at random."""
    anywhere = rng.integers(0, length - PIECE, 2).tolist()
    return sorted({0, length - PIECE, min(500, length - PIECE), *anywhere})


def add_call(
    checks: Checks,
    rng: np.random.Generator,
    name: str,
    inputs: list[Array],
    attrs: dict,
    mode: int = REPOPS_F32.byte,
) -> int:
    """Add up to three elements of each output, under every kind of entry unless the mode is repops-f32. Return their
    number."""
    seen = set[tuple[int, int]]()
    for case in cases_of(name, inputs, attrs, (0.0, 1.0, rng.random())):
        if (case.output, case.element) in seen:
            continue
        seen.add((case.output, case.element))
        case = replace(case, mode=mode)
        chain = whole(case, reader(inputs))
        checks.ends(case, chain)
        if mode != REPOPS_F32.byte:
            checks.elements(case, chain, entries(case, finished(case, chain), rng))
        length = len(chain.opened)
        pieces = cut(chain, PIECE, evenly(rng, length)) if length > WHOLE else [chain]
        for steps in pieces:
            checks.piece(case, steps)
    return len(seen)
