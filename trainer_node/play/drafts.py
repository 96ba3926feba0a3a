"""Computes moves in threads outside the daemon's loop. The interval that a match goes into, the states of a long chain
in a trial and the hashes of large tensors may take minutes, and meanwhile clocks run in other disputes, training ends
in other jobs, and roots are to be revealed.

A draft belongs to one dispute and to one state of it. The loop asks for it in every round until it is done. A draft for
a state that the dispute has left is asked to stop; the next draft can use what it has computed.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from dataclasses import dataclass, field
from typing import Generic, TypeVar

PATIENCE_S = 1.0
"""Seconds that a round of the node's loop waits for moves and right records, over all disputes; what takes longer is
sent later."""

K = TypeVar("K", bound=Hashable)
P = TypeVar("P")
Stop = Callable[[], bool]


@dataclass
class _Draft(Generic[P]):
    of: object
    future: Future[list[P]]
    stop: threading.Event = field(default_factory=threading.Event)


class Drafts(Generic[K, P]):
    """Planned moves of disputes, computed by ``lanes`` threads until ``stop`` is set. For the loop's thread alone.

    INVARIANT: a dispute has one draft at a time, so the objects that it computes with need no lock.
    """

    def __init__(self, stop: threading.Event, lanes: int, name: str) -> None:
        self._stop = stop
        self._drafts: dict[K, _Draft[P]] = {}
        self._lanes = ThreadPoolExecutor(lanes, thread_name_prefix=name)

    def moves(
        self, dispute: K, of: object, work: Callable[[Stop], Sequence[P]], patience_s: float
    ) -> list[P] | None:
        """Return what ``work`` gives for the state ``of`` of a dispute; None until that is there.

        ``work`` runs in a thread, and asks whether to stop. Waits ``patience_s`` at most; raises what ``work`` raises.
        """
        draft = self._drafts.get(dispute)
        if draft is not None and (draft.of != of or draft.stop.is_set()):
            draft.stop.set()
            if not draft.future.cancel() and not draft.future.done():
                return None
            draft = None
        if draft is None:
            draft = self._drafts[dispute] = self._begin(of, work)
        wait_for([draft.future], timeout=patience_s)
        if not draft.future.done():
            return None
        del self._drafts[dispute]
        return draft.future.result()

    def busy(self, dispute: K) -> bool:
        """Return whether a draft of a dispute is being computed, or waits for a lane."""
        draft = self._drafts.get(dispute)
        return draft is not None and not draft.future.done()

    def known(self) -> list[K]:
        """Return the disputes that have a draft."""
        return list(self._drafts)

    def forget(self, dispute: K) -> None:
        """Drop the draft of a dispute that is over."""
        draft = self._drafts.pop(dispute, None)
        if draft is not None:
            draft.stop.set()
            draft.future.cancel()

    def _begin(self, of: object, work: Callable[[Stop], Sequence[P]]) -> _Draft[P]:
        told = threading.Event()

        def stop() -> bool:
            return told.is_set() or self._stop.is_set()

        return _Draft(of, self._lanes.submit(lambda: list(work(stop))), told)


class RoundPatience:
    """The ``seconds`` that a round of the loop waits for drafts, over all of them."""

    def __init__(self, seconds: float = PATIENCE_S) -> None:
        self._seconds = seconds
        self._round: tuple[object, float] = None, 0.0
        """The state at which this round looks, and the seconds left of its patience."""

    @contextlib.contextmanager
    def of(self, look: object) -> Iterator[float]:
        """Yield the seconds that the round that looks at ``look`` may still wait; what the block takes is taken from
        them."""
        of, left = self._round
        left = left if of is look else self._seconds
        began = time.monotonic()
        yield left
        self._round = look, max(left - (time.monotonic() - began), 0.0)
