"""The states of one element's chain, as a side of a trial needs them.

A round needs the states at some places of an interval of steps, and the next round at places of a part of it. The first
round takes one native pass over the chain, and keeps the states at `KEPT` evenly spread places. Each later round
continues from the kept state before each place. So a whole trial computes the steps of one pass, and for each later
state a 4,096th part of a pass.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable, Sequence

from repops.host.chains import Chain

from ..commit.tensor import Array
from ..element import Case, rule_of
from ..element.native import native_chain
from ..errors import Unavailable

KEPT = 4096
"""Number of states that a pass keeps: 0.8 MB for the longest states."""
SLICE = 1 << 22
"""Steps computed between two calls of ``stop``: a tenth of a second for the slowest steps."""


class ChainStates:
    """Computes states and keeps some. It calls ``stop`` between slices, and stops if that returns True."""

    def __init__(self, stop: Callable[[], bool] = bool) -> None:
        self.stop = stop
        self.steps = 0
        """Number of steps computed so far."""
        self._of: object = None
        self._kept: dict[int, bytes] = {}
        self._places: list[int] = []

    def states(
        self, case: Case, inputs: Sequence[Array], roots: Sequence[bytes], at: Sequence[int]
    ) -> list[bytes]:
        """Return the states of the case's chain after ``at`` steps, ascending. ``roots``: data roots of the inputs.

        Raises Unavailable if told to stop; the states kept until then remain.
        """
        if self._of != (case, tuple(roots)):
            self._of, self._kept, self._places = (case, tuple(roots)), {0: rule_of(case).begin(case)}, [0]
        chain = native_chain(case, inputs)
        return [self._state(chain, place) for place in at]

    def rest(self) -> None:
        """Raise Unavailable if told to stop. Called between two slices of work."""
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
