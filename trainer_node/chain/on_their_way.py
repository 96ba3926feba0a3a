"""Transactions of ours that a look at the chain may not show yet."""

from __future__ import annotations

from collections.abc import Callable, Collection


class OnTheirWay:
    """Transactions about each job, from when they are sent until a block is read that must show them. ``pending``
    returns the numbers of our transactions that may still be mined. For the loop's thread alone.

    SAFETY: what is sent later for other reasons is not waited for, or strangers, who ask for answers again and again,
    would decide how long a job waits. So only what was on its way at the first look after it was sent counts.
    """

    def __init__(self, pending: Callable[[], Collection[int]]) -> None:
        self._pending = pending
        self._waits: dict[int, set[int] | None] = {}
        """By job: the transactions that it waits for; None until it is looked at."""
        self._from: dict[int, int] = {}
        """By job: the first block that must show them."""

    def sent(self, job: int) -> None:
        """Note that something is about to be sent, or was by an earlier process."""
        self._waits[job] = None
        self._from.pop(job, None)

    def mined(self, job: int, block: int) -> None:
        """Note the block that has what was sent."""
        self._waits.pop(job, None)
        self._from[job] = block

    def shows(self, job: int, block: int, head: Callable[[], int]) -> bool:
        """Return whether a block must show all that was sent about a job, as far as it is noted. ``head`` returns the
        number of the newest block."""
        if job in self._waits:
            pending = set(self._pending())
            waits = self._waits[job]
            left = pending if waits is None else waits & pending
            if left:
                self._waits[job] = left
                return False
            self._from[job] = head()
            del self._waits[job]
        if block < self._from.get(job, 0):
            return False
        self._from.pop(job, None)
        return True
