"""Every rule of repops-f32 gives the states, and the elements, of the Python twin."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from repops.calls import random_call
from repops.opset import OPS
from repops.tensors import Array

from referee_py.element import Case, evaluate
from tests.conftest import Anvil
from tests.referee_py.element.operands import cases_of, reader

from .chain import ANVIL_OPTIONS, Given, Rules, decode
from .twin import Piece, cut, whole

CODE_SIZE_LIMIT = 24_576  # EIP-170
WHOLE = 400  # steps; of a longer chain only pieces are computed by the contract
PIECE = 40

quick_and_slow = pytest.mark.parametrize(
    "count", [pytest.param(40, id="quick"), pytest.param(1_000, id="slow", marks=pytest.mark.slow)]
)
every_operator = pytest.mark.parametrize("name", [op.name for op in OPS])


@pytest.fixture
def rules(start_anvil: Callable[..., Anvil]) -> Rules:
    return Rules(start_anvil(*ANVIL_OPTIONS).url)


class Checks:
    """Chains to be compared, in few requests."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.steps = 0
        self._steps: list[tuple[Case, Piece]] = []
        self._ends: list[tuple[Case, Piece, int]] = []

    def ends(self, case: Case, chain: Piece, element: int) -> None:
        """Of a whole chain: its length, first state, and the element."""
        self._ends.append((case, chain, element))

    def piece(self, case: Case, steps: Piece) -> None:
        self._steps.append((case, steps))
        self.steps += len(steps.opened)

    def done(self) -> None:
        """Fails for the first difference."""
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
        calls = [self.rules.ends_call(Given.of(case), chain.states[-1]) for case, chain, _ in self._ends]
        for (case, chain, element), found in zip(self._ends, self.rules.calls(calls), strict=True):
            ends = decode(["uint64", "uint16", "bytes", "uint64"], found)
            assert ends == (len(chain.opened), len(chain.states[0]), chain.states[0], element), case


def evenly(rng: np.random.Generator, length: int) -> list[int]:
    """Where pieces of a chain begin: at both ends, around the first chunk's end, and anywhere."""
    anywhere = rng.integers(0, length - PIECE, 2).tolist()
    return sorted({0, length - PIECE, min(500, length - PIECE), *anywhere})


def add_call(checks: Checks, rng: np.random.Generator, name: str, inputs: list[Array], attrs: dict) -> int:
    """Three elements of each output, if there are so many. Gives how many there are."""
    seen = set[tuple[int, int]]()
    for case in cases_of(name, inputs, attrs, (0.0, 1.0, rng.random())):
        if (case.output, case.element) in seen:
            continue
        seen.add((case.output, case.element))
        chain = whole(case, reader(inputs))
        checks.ends(case, chain, evaluate(case, reader(inputs)))
        length = len(chain.opened)
        pieces = cut(chain, PIECE, evenly(rng, length)) if length > WHOLE else [chain]
        for steps in pieces:
            checks.piece(case, steps)
    return len(seen)


@quick_and_slow
@every_operator
def test_every_step_is_the_twin_s(name: str, count: int, rules: Rules) -> None:
    checks = Checks(rules)
    rng = np.random.default_rng([count, *name.encode()])
    calls = number = 0
    while calls < count:
        scale = "usual" if number % 20 == 7 else "tiny"
        inputs, attrs = random_call(name, f"rule/{count}/{number}", scale)
        calls += add_call(checks, rng, name, inputs, attrs) > 0
        number += 1
    checks.done()
