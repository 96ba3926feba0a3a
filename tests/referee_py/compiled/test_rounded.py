"""Compiled steps in the mode rounded-f64: with one party's logs, the interpreter and the compiled step have one state,
whichever of them wrote the logs, and whatever library the other one has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import pytest

from referee_py.commit.tensor import Array
from referee_py.compiled.rounded import RoundedCpu
from referee_py.execute import FastExecutor, Interpreter, State
from referee_py.program import Program
from referee_py.rounding.backend import Rounded
from referee_py.rounding.book import LogBook, MemoryBook
from referee_py.rounding.mode import Bounds, Form, Rounding
from referee_py.rounding.step_log import NodeLog, StepLog
from tests.trainer_node import near
from trainer_node.rounded.variations import VARIATIONS, evaluator_of

from .random_program import RandomProgram

STEPS = 3


class Lent:
    """Another's book: to be read only."""

    def __init__(self, book: LogBook) -> None:
        self._book = book

    def get(self, step: int) -> StepLog | None:
        found = self._book.get(step)
        assert found is not None
        return found

    def put(self, step: int, log: StepLog) -> None:
        raise AssertionError(f"step {step}: a follower has written a log of {len(log.nodes)} nodes")


class Parties(Protocol):
    """A program and its data."""

    @property
    def program(self) -> Program: ...
    @property
    def constants(self) -> Sequence[Array]: ...
    @property
    def initial(self) -> Sequence[Array]: ...


def _run(made: Parties, backend: Rounded, compiled: bool) -> list[bytes]:
    executor = (
        FastExecutor(made.program, made.constants, backend, machine=RoundedCpu(backend))
        if compiled
        else Interpreter(made.program, made.constants, backend)
    )
    state, hashes = State.of(0, made.initial), []
    for _ in range(STEPS):
        state, _ = executor.step(state, False)
        hashes.append(b"".join(state.slot_hashes()))
    return hashes


def _all_agree(
    made: Parties, rounding: Rounding, names: Sequence[str], compiled: bool
) -> list[dict[int, NodeLog]]:
    """The logs of a run with the first library, once the others have followed them, compiled and interpreted."""
    book = MemoryBook()
    want = _run(made, Rounded(rounding, book, evaluator_of(names[0])), compiled)
    for other, name in zip((True, False), names[1:], strict=True):
        assert _run(made, Rounded(rounding, Lent(book), evaluator_of(name)), other) == want, (
            f"compiled: {other}"
        )
    logs = [book.get(step) for step in range(1, STEPS + 1)]
    return [dict(log.nodes) for log in logs if log is not None]


@pytest.mark.parametrize("part", range(4))
def test_random_programs(part: int) -> None:
    names = sorted(VARIATIONS) * 2
    for seed in range(part, 60, 4):
        made = RandomProgram(seed, 8 + seed % 60)
        rounding = Rounding(32, Bounds(seed % 2), Form(seed // 2 % 2))
        first = seed % len(VARIATIONS)
        _all_agree(made, rounding, names[first : first + 3], compiled=seed % 3 == 0)


@pytest.mark.parametrize("form", Form)
@pytest.mark.parametrize("bounds", Bounds)
@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "interpreted"])
def test_sums_near_ties(compiled: bool, bounds: Bounds, form: Form) -> None:
    """NOTE: random programs this small have hardly a result near a midpoint: nothing for a sparse log to say."""
    logs = _all_agree(near.package(), Rounding(32, bounds, form), ["torch", "numpy", "halves"], compiled)
    assert all(log[near.TIES].elements == near.WIDTH for log in logs)
    assert len(logs) == STEPS
