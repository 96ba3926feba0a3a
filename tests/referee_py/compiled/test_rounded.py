"""Compiled steps in the mode rounded-f64: with one party's logs, the interpreter and the compiled step have one state,
whichever of them wrote the logs, and whatever library the other one has.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from referee_py.commit.tensor import Array
from referee_py.compiled.rounded import RoundedCpu
from referee_py.execute import FastExecutor, Interpreter, State
from referee_py.program import Program
from referee_py.rounding.backend import Rounded
from referee_py.rounding.book import LogBook, MemoryBook
from referee_py.rounding.mode import Bounds, Form, Rounding
from referee_py.rounding.step_log import StepLog
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


def _run(
    program: Program, constants: Sequence[Array], initial: Sequence[Array], backend: Rounded, compiled: bool
) -> list[bytes]:
    executor = (
        FastExecutor(program, constants, backend, machine=RoundedCpu(backend))
        if compiled
        else Interpreter(program, constants, backend)
    )
    state, hashes = State.of(0, initial), []
    for _ in range(STEPS):
        state, _ = executor.step(state, False)
        hashes.append(b"".join(state.slot_hashes()))
    return hashes


@pytest.mark.parametrize("part", range(4))
def test_random_programs(part: int) -> None:
    names = sorted(VARIATIONS)
    logged = 0
    for seed in range(part, 60, 4):
        made = RandomProgram(seed, 8 + seed % 60)
        rounding = Rounding(32, Bounds(seed % 2), Form(seed // 2 % 2))
        book, wide = MemoryBook(), evaluator_of(names[seed % len(names)])
        parties = made.program, made.constants, made.initial
        want = _run(*parties, Rounded(rounding, book, wide), seed % 3 == 0)
        for compiled in (True, False):
            other = Rounded(rounding, Lent(book), evaluator_of(names[(seed + 1 + compiled) % len(names)]))
            assert _run(*parties, other, compiled) == want, f"seed {seed}, compiled: {compiled}"
        for step in range(1, STEPS + 1):
            log = book.get(step)
            assert log is not None
            logged += len(log.nodes)
    assert logged, "no program had a result near a midpoint"
