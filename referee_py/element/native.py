"""An element's chain, computed natively (repops.host.chains) where the kernels have it, else by its rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from repops.host.chains import Chain, Sums
from repops.tensors import Array, canonical

from . import chains
from .case import Case
from .modes import OF_MODES


class Walk(Protocol):
    """The walk of a chain on its operands."""

    length: int
    """Number of steps."""
    state_bytes: int
    """Size of a state."""

    def advance(self, state: bytes, start: int, stop: int) -> bytes:
        """Return the state before step ``stop``, given the state before step ``start``."""
        ...


class _ByRule:
    """The walk of a chain by its rule: about 10^5 steps a second."""

    def __init__(self, rule: chains.Chain, case: Case, inputs: Sequence[Array]) -> None:
        self._rule, self._case = rule, case
        self._flat = [canonical(array).reshape(-1) for array in inputs]
        self.length, self.state_bytes = rule.length(case), len(rule.begin(case))

    def advance(self, state: bytes, start: int, stop: int) -> bytes:
        for t in range(start, stop):
            state = self._rule.step(self._case, t, state, self._read)
        return state

    def _read(self, place: int, element: int) -> int:
        return int.from_bytes(self._flat[place][element].tobytes(), "little")


def native_chain(case: Case, inputs: Sequence[Array]) -> Walk:
    """Return the chain of an element on these operands. Raises OpError as `Chain`, UnknownVersion for an unknown mode.

    NOTE: the chain reads every NaN as the canonical one.
    """
    plain = [np.asarray(np.require(array, requirements=["C", "A"])) for array in inputs]
    of_mode = OF_MODES.of(case.mode)
    own = of_mode.rule(case)
    if own is not None and of_mode.sums is None:
        return _ByRule(own, case, plain)
    sums = Sums.ORDERED if of_mode.sums is None else of_mode.sums
    return Chain(case.name, plain, case.attrs, case.element, output=case.output, sums=sums)
