"""Moves in trials, worked out in threads beside the node's loop: states of a long chain and hashes of large tensors may
take a minute, and meanwhile there are clocks that run in matches and in other trials.

A draft belongs to a hearing and to the state of its trial. It is asked for in every round of the loop until it is
done; one for a state that the trial is no longer in is told to stop, and what it has computed is of use to the next.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from dataclasses import dataclass, field

from referee_py.trial import Move

LANES = 4
"""Drafts at the same time; others wait for one of these, nobody else does."""

Stop = Callable[[], bool]


@dataclass
class _Draft:
    of: object
    future: Future[list[Move]]
    stop: threading.Event = field(default_factory=threading.Event)


class Drafts:
    """INVARIANT: a hearing has one draft at a time, so what it computes with needs no lock."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop
        self._drafts: dict[int, _Draft] = {}
        self._lanes = ThreadPoolExecutor(LANES, thread_name_prefix="trial")

    def moves(
        self, hearing: int, of: object, work: Callable[[Stop], Sequence[Move]], patience_s: float
    ) -> list[Move] | None:
        """What ``work`` gives for the state ``of`` of a hearing's trial, once it is there; None until then.

        It runs in a thread, and asks whether to stop. Waits for it for at most so many seconds. Raises what it raises.
        """
        draft = self._drafts.get(hearing)
        if draft is not None and (draft.of != of or draft.stop.is_set()):
            draft.stop.set()
            if not draft.future.done():
                return None
            draft = None
        if draft is None:
            draft = self._drafts[hearing] = self._begin(of, work)
        wait_for([draft.future], timeout=patience_s)
        if not draft.future.done():
            return None
        del self._drafts[hearing]
        return draft.future.result()

    def busy(self, hearing: int) -> bool:
        """Whether a draft of a hearing is being worked at, or waits for a lane."""
        draft = self._drafts.get(hearing)
        return draft is not None and not draft.future.done()

    def forget(self, hearing: int) -> None:
        """The hearing is over."""
        draft = self._drafts.pop(hearing, None)
        if draft is not None:
            draft.stop.set()
            draft.future.cancel()

    def _begin(self, of: object, work: Callable[[Stop], Sequence[Move]]) -> _Draft:
        told = threading.Event()

        def stop() -> bool:
            return told.is_set() or self._stop.is_set()

        return _Draft(of, self._lanes.submit(lambda: list(work(stop))), told)
