"""The states of one element's chain, as a side of a trial needs them.

A round asks for states at some places of an interval of steps, the next one at places of a part of it. The first
answer takes one pass over the chain, natively, in which the states at `KEPT` places are kept, evenly spread; every
later one goes on from the kept state before each place. So a whole trial takes the steps of one pass, and a 4,096th
part of it for each state that is said later.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable, Sequence

import numpy as np
from repops.chains import Chain

from ..commit.tensor import Array
from ..element import Case, rule_of
from ..errors import Unavailable
from ..program import MODE_REPOPS_F32

KEPT = 4096
"""States of a pass: 0.8 MB where they are longest."""
SLICE = 1 << 22
"""Steps that are computed without asking whether to stop: a tenth of a second where they are slowest."""


class Walk:
    """Computes states, and keeps some. ``stop`` is asked again and again."""

    def __init__(self, stop: Callable[[], bool] = bool) -> None:
        self.stop = stop
        self.steps = 0
        """That were computed in all."""
        self._of: object = None
        self._kept: dict[int, bytes] = {}
        self._places: list[int] = []

    def states(
        self, case: Case, inputs: Sequence[Array], roots: Sequence[bytes], at: Sequence[int]
    ) -> list[bytes]:
        """After so many steps of the case's chain, ascending; ``roots`` are those over the inputs' data.

        Raises Unavailable if told to stop; what was computed until then is kept.
        """
        if self._of != (case, tuple(roots)):
            self._of, self._kept, self._places = (case, tuple(roots)), {0: rule_of(case).begin(case)}, [0]
        exact = case.mode != MODE_REPOPS_F32
        # NOTE: a NaN is read as the canonical one, whatever it is.
        operands = [np.asarray(np.require(array, requirements=["C", "A"])) for array in inputs]
        chain = Chain(case.name, operands, case.attrs, case.element, output=case.output, exact=exact)
        return [self._state(chain, place) for place in at]

    def rest(self) -> None:
        """Between two pieces of work. Raises Unavailable if told to stop."""
        if self.stop():
            raise Unavailable("told to stop in a trial; what was computed is kept while the process lasts")

    def _state(self, chain: Chain, place: int) -> bytes:
        spread = -(-chain.length // KEPT)
        done = self._places[bisect_right(self._places, place) - 1]
        state = self._kept[done]
        while done < place:
            self.rest()
            after = min(place, (done // spread + 1) * spread, done + SLICE)
            state = chain.advance(state, done, after)
            self.steps += after - done
            done = after
            if done == place or done % spread == 0:
                self._kept[done] = state
                insort(self._places, done)
        return state
