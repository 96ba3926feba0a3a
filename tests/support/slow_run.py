"""A run whose steps are counted, and each of which may take what a test says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from referee_py.execute import Executor, NodeHook, NodeValues, State, StepTrace, executor_for
from trainer_node.run.replay import Replay

Tick = Callable[[str], None]
"""Called after each step: of a run ("run"), of an operator ("operator"), or shown for answers ("shown")."""


class _Ticking:
    def __init__(self, inner: Executor, tick: Tick) -> None:
        self._inner, self._tick = inner, tick

    def step(self, state: State, commit: bool) -> tuple[State, StepTrace | None]:
        found = self._inner.step(state, commit)
        self._tick("run")
        return found


def ticking(tick: Tick) -> type[Replay]:
    """Return an honest run that calls ``tick`` for each step that it computes, training included."""

    class TickingReplay(Replay):
        def _executor(self) -> Executor:
            package: Any = self._package
            return _Ticking(executor_for(package.program, package.constants, self._backend), tick)

        def _values(self, state: State, node: int) -> NodeValues:
            found = super()._values(state, node)
            tick("operator")
            return found

        def _watched(self, before: State, hook: NodeHook) -> StepTrace:
            found = super()._watched(before, hook)
            tick("shown")
            return found

    return TickingReplay
