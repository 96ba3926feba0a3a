"""Computes moves of trials in threads outside the daemon's loop. The states of a long chain and the hashes of large
tensors may take a minute, and meanwhile clocks run in matches and in other trials.

A draft belongs to a hearing and to one state of its trial. The loop asks for it in every round until it is done. A
draft for a state that the trial has left is asked to stop; the next draft can use what it has computed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from dataclasses import dataclass, field

from referee_py.trial.solver import Planned

from ..stake.admission import DRAFT_LANES

Stop = Callable[[], bool]


@dataclass
class _Draft:
    of: object
    future: Future[list[Planned]]
    stop: threading.Event = field(default_factory=threading.Event)


class Drafts:
    """INVARIANT: a hearing has one draft at a time, so the objects that it computes with need no lock."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop
        self._drafts: dict[int, _Draft] = {}
        self._lanes = ThreadPoolExecutor(DRAFT_LANES, thread_name_prefix="trial")

    def moves(
        self, hearing: int, of: object, work: Callable[[Stop], Sequence[Planned]], patience_s: float
    ) -> list[Planned] | None:
        """Return what ``work`` gives for the state ``of`` of a hearing's trial; None until that is there.

        ``work`` runs in a thread, and asks whether to stop. Waits ``patience_s`` at most; raises what ``work`` raises.
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
        """Return whether a draft of a hearing is being computed, or waits for a lane."""
        draft = self._drafts.get(hearing)
        return draft is not None and not draft.future.done()

    def forget(self, hearing: int) -> None:
        """Drop the draft of a hearing that is over."""
        draft = self._drafts.pop(hearing, None)
        if draft is not None:
            draft.stop.set()
            draft.future.cancel()

    def _begin(self, of: object, work: Callable[[Stop], Sequence[Planned]]) -> _Draft:
        told = threading.Event()

        def stop() -> bool:
            return told.is_set() or self._stop.is_set()

        return _Draft(of, self._lanes.submit(lambda: list(work(stop))), told)
