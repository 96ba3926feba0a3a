"""A step that Ctrl-C or a lack of memory breaks off: the next attempt gives the interpreter's bits, or an error that
an offered state is gone. A state that was not offered is unchanged."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import referee_py
from referee_py.compiled import Cpu
from referee_py.errors import InvalidInput
from referee_py.execute import Executor, FastExecutor, State
from referee_py.program import Program

from .test_ownership import CPU, DELAY, EXECUTORS, FIBONACCI, SWAP, first, numbers

PACKAGE = Path(referee_py.__file__).parent
WHERE = {
    str(PACKAGE / name)
    for name in ("execute/fast.py", "execute/lease.py", "compiled/step.py", "compiled/rounded.py")
}
"""Files that decide who owns and who writes a state's memory."""
MADE = {"swap": SWAP, "delay": DELAY, "fibonacci": FIBONACCI}
PLAN = (False, False, True, False, False)
"""True for each step that is committed."""


class Interrupt:
    """Ctrl-C at the line of `WHERE` that runs as number `at`, counted from 1."""

    def __init__(self, at: int) -> None:
        self.left = at

    def during(self, executor: Executor, state: State, commit: bool) -> State | None:
        """Return the state after the step, or None if it was broken off."""
        before = sys.gettrace()
        sys.settrace(self._trace)
        try:
            return executor.step(state, commit)[0]
        except KeyboardInterrupt:
            return None
        finally:
            sys.settrace(before)

    def _trace(self, frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename not in WHERE:
            return None
        self.left -= event == "line"
        if event == "line" and not self.left:
            raise KeyboardInterrupt
        return self._trace


def right(made: Program) -> list[list[float]]:
    executor, state = EXECUTORS["interpreter"](made), first(made)
    found = [numbers(state)]
    for commit in PLAN:
        state, _ = executor.step(state, commit)
        found.append(numbers(state))
    return found


@pytest.mark.parametrize("offered", [True, False])
@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
@pytest.mark.parametrize("name", ["fast", "fast, on tensors", "rounded"])
def test_interrupted_at_any_line(name: str, made: Program, offered: bool) -> None:
    want, broken, gone = right(made), 0, 0
    for at in range(1, 10_000, 2):
        executor, state, held = EXECUTORS[name](made), first(made), []
        interrupt = Interrupt(at)
        for commit in PLAN:
            held.append(state)
            if offered:
                state.offer()
            after = interrupt.during(executor, state, commit)
            if after is None:
                broken += 1
                try:
                    after, _ = executor.step(state, commit)
                except InvalidInput:
                    assert offered
                    gone += 1
                    break
            state = after
            assert numbers(state) == want[state.step], at
            for kept in held:
                if not offered:
                    assert numbers(kept) == want[kept.step], at
        if interrupt.left > 0:
            break
    assert interrupt.left > 0, "every line had its turn"
    assert broken > 20
    assert (gone > 0) == offered


class Short(Cpu):
    """A machine without memory for one buffer."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.left = at

    def new(self, spec: Any) -> Any:
        self.left -= 1
        if not self.left:
            raise MemoryError("no memory for a buffer")
        return super().new(spec)


@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
def test_no_memory_for_a_buffer(made: Program) -> None:
    """The attack: the slots had memory, the values set aside had none; the next step then did nothing at all."""
    want, failed = right(made), 0
    for at in range(1, 20):
        executor, state = FastExecutor(made, (), CPU, machine=Short(at)), first(made)
        for _ in PLAN:
            try:
                after, _ = executor.step(state, False)
            except MemoryError:
                failed += 1
                after, _ = executor.step(state, False)
            assert numbers(after) == want[after.step], at
            assert numbers(state) == want[state.step]
            state = after
    assert failed > 5


def test_a_prelude_that_failed_is_done_again() -> None:
    """Values that are computed once, before the first step, exist before any step runs."""
    from ..compiled.random_program import RandomProgram
    from ..compiled.schedules import Truth

    failed = 0
    for seed in range(40):
        made = RandomProgram(seed, 12)
        with np.errstate(all="ignore"):
            truth = Truth(made, CPU)
            executor = FastExecutor(made.program, made.constants, CPU, machine=Short(1 + seed % 8))
            state = State.of(0, made.initial)
            for _ in range(3):
                try:
                    after, _ = executor.step(state, False)
                except MemoryError:
                    failed += 1
                    after, _ = executor.step(state, False)
                assert truth.is_state(after.step, after.arrays), seed
                state = after
    assert failed > 10
