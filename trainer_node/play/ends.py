"""Ends of what holds a stake of ours, other terms of a job at which we work, and stakes of ours that are not shown any
more: believed once enough endpoints confirm the look that says so."""

from __future__ import annotations

import time
from collections.abc import Callable

import structlog

from ..chain import Snapshot
from ..errors import NotAsked, RpcCorrupt, RpcUnavailable

CONFIRM_S = 60.0
"""Seconds after which endpoints that did not confirm an end are asked again."""

_log = structlog.get_logger(__name__)


class Confirmer:
    """Asks other endpoints to confirm a look that says that something of ours is over. Nobody waits for that, and a
    round is short while a clock of ours runs: they are asked in a hurry, and `CONFIRM_S` after a refusal again."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._again_at = clock, float("-inf")

    def refusal(self, snapshot: Snapshot) -> str | None:
        """Return None if the look is confirmed, else the reason; no words where it is not asked for again yet."""
        if self._clock() < self._again_at:
            return ""
        try:
            snapshot.confirm(hurried=True)
        except NotAsked:
            # SAFETY: whoever has others' answers confirmed first in each minute would keep ends from being asked for.
            return ""
        except (RpcUnavailable, RpcCorrupt) as error:
            self._again_at = self._clock() + CONFIRM_S
            return str(error)
        return None


class Ends:
    """SAFETY: whoever serves could say once that a job is over, and a stake would be left, with its room, its turns and
    its clock. NOTE: with one endpoint there is nobody to ask, and what it says is so."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._confirmer = Confirmer(clock)
        self._believed: set[int] = set()

    def believed(self, snapshot: Snapshot, job: int) -> bool:
        """Return whether a job has ended, as the snapshot says. It is asked for once, until the job is back."""
        if job in self._believed:
            return True
        refusal = self._confirmer.refusal(snapshot)
        if refusal is None:
            self._believed.add(job)
        elif refusal:
            _log.warning("job.end_not_confirmed", job=job, reason=refusal)
        return refusal is None

    def back(self, job: int) -> None:
        """Note that a job continues, or that nothing of it is kept any more."""
        self._believed.discard(job)


class Changes:
    """Changes of a job from one look to the next. ``event``: how the log calls what nobody confirms.

    SAFETY: a job's terms never change on one chain. So a look that shows others is of another chain, or false; and
    what was computed and found by the terms that were known would be dropped, again and again. And whoever serves could
    hide a stake of ours once: its ether, its room and its memory would go to strangers' jobs in the same round."""

    def __init__(self, event: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._confirmer, self._event = Confirmer(clock), event

    def believed(self, snapshot: Snapshot, job: int) -> bool:
        """Return whether a job is as the snapshot says."""
        refusal = self._confirmer.refusal(snapshot)
        if refusal:
            _log.warning(self._event, job=job, reason=refusal)
        return refusal is None
