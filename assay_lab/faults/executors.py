"""Whole runs that lie."""

from __future__ import annotations

from collections.abc import Callable

from referee_py.errors import InvalidInput
from referee_py.execute import (
    Capture,
    Chain,
    Executor,
    Interpreter,
    NodeHook,
    NodeValues,
    State,
    StepTrace,
    executor_for,
)
from referee_py.rounding.backend import Rounded

from ..names import Fault
from .kinds import Target
from .logs import AppliesForged, WrongLog, forged_log, rounded
from .nodes import PoisonData, StaleWeights, WrongInput, WrongOutput, WrongStructure


def executor_of(fault: Fault, target: Target) -> Executor | None:
    """The executor with this lie; None for an honest one. Raises InvalidInput if the program cannot have it."""
    if fault is Fault.NONE:
        return None
    if fault is Fault.SKIP_STEPS:
        return _SkipSteps(target)
    if fault is Fault.FORGED_LOG:
        return _Forger(target)
    return _Liar(fault, target)


def values_of(fault: Fault, target: Target, state: State, node: int) -> NodeValues:
    """The tensors of a node in the step after ``state`` as the liar says they are; for an honest one as they are."""
    capture = Capture(node)
    watched(fault, target, state, capture)
    return capture.found[node]


def watched(fault: Fault, target: Target, state: State, reader: NodeHook) -> None:
    """Show a reader the tensors of the step after ``state`` as the liar says they are."""
    hook = Chain(hook_of(fault, target), reader) if fault in _HOOKS else reader
    Interpreter(target.program, target.constants, target.backend, hook).step(state, False)


class _Liar:
    """Honest and fast, but for the step of the lie, and for what is committed to."""

    def __init__(self, fault: Fault, target: Target) -> None:
        self._step = target.step
        self._honest = executor_for(target.program, target.constants, target.backend)
        hook = hook_of(fault, target)
        self._lying = Interpreter(target.program, target.constants, target.backend, hook)

    def step(self, state: State, commit: bool) -> tuple[State, StepTrace | None]:
        lies = commit or state.step + 1 == self._step
        return (self._lying if lies else self._honest).step(state, commit)


def hook_of(fault: Fault, target: Target) -> NodeHook:
    """The hook with this lie at single nodes."""
    return _HOOKS[fault](target)


class _Forger(_Liar):
    """Writes an entry that no rounding of the exact result gives into the log of a step, and goes by it.

    NOTE: a challenger does not write the log, so for it this lie is a wrong output.
    """

    def __init__(self, target: Target) -> None:
        super().__init__(Fault.FORGED_LOG, target)
        self._target = target

    def step(self, state: State, commit: bool) -> tuple[State, StepTrace | None]:
        backend = rounded(self._target)
        if state.step + 1 == self._step and backend.log_source.get(self._step) is None:
            backend.log_source.put(self._step, forged_log(self._target, state, backend))
        return super().step(state, commit)


class _SkipSteps:
    """From its step on nothing is computed any more: the last real step is presented again and again, log and all."""

    def __init__(self, target: Target) -> None:
        if target.step < 2:
            raise InvalidInput(
                f"steps cannot be skipped from step {target.step}; the first real one is needed"
            )
        self._step = target.step
        self._backend = target.backend
        self._honest = executor_for(target.program, target.constants, target.backend)
        self._initial = State.of(0, target.initial)
        self._last: StepTrace | None = None

    def step(self, state: State, commit: bool) -> tuple[State, StepTrace | None]:
        if state.step + 1 < self._step:
            return self._honest.step(state, commit)
        after = State(state.step + 1, state.values)
        if isinstance(self._backend, Rounded) and self._backend.log_source.get(after.step) is None:
            log = self._backend.log_source.get(self._step - 1)
            assert log is not None, "the last real step has written it"
            self._backend.log_source.put(after.step, log)
        return after, StepTrace(after.step, self._last_real().records) if commit else None

    def _last_real(self) -> StepTrace:
        if self._last is None:
            state = self._initial
            while state.step < self._step - 2:
                state, _ = self._honest.step(state, False)
            _, self._last = self._honest.step(state, True)
        assert self._last is not None
        return self._last


_HOOKS: dict[Fault, Callable[[Target], NodeHook]] = {
    Fault.POISON_DATA: PoisonData,
    Fault.WRONG_OP_OUTPUT: WrongOutput,
    Fault.WRONG_STRUCTURE: WrongStructure,
    Fault.WRONG_INPUT: WrongInput,
    Fault.STALE_WEIGHTS: StaleWeights,
    Fault.FORGED_LOG: AppliesForged,
    Fault.WRONG_LOG: WrongLog,
    # NOTE: a party that withholds has something to hide; `assay_lab.daemons.SilentParticipant` keeps it silent.
    Fault.WITHHOLD: WrongOutput,
}
