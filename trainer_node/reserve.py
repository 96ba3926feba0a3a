"""What jobs may still take of an account, so that it is not staked on others."""

from __future__ import annotations

from collections.abc import Callable


class Reserve:
    """Wei by number of a job. ``head``: the number of the newest block; ``pending``: whether anything that we have sent
    is not mined yet.

    SAFETY: jobs are read some blocks late, and a block from before our stake knows nothing of it. So what is kept when
    a stake is sent is not let go of before a block is read that must show it.
    """

    def __init__(self, head: Callable[[], int], pending: Callable[[], bool]) -> None:
        self._head = head
        self._pending = pending
        self._kept: dict[int, int] = {}
        self._sent: set[int] = set()
        self._from: dict[int, int] = {}

    def staking(self, job: int, wei: int) -> None:
        """A stake is about to be sent; the job may take so much with it and after it."""
        self._kept[job] = max(self._kept.get(job, 0), wei)
        self._sent.add(job)
        self._from.pop(job, None)

    def seen(self, job: int, wei: int, block: int) -> None:
        """What the job may still take, as a block shows it."""
        if wei < self._kept.get(job, 0):
            if job in self._sent and not self._pending():
                self._from[job] = self._head()
                self._sent.discard(job)
            if job in self._sent or block < self._from.get(job, 0):
                return
        self._from.pop(job, None)
        self._kept[job] = wei
        if not wei:
            del self._kept[job]

    def kept(self, job: int) -> int:
        """For that job."""
        return self._kept.get(job, 0)

    def for_others(self, job: int = 0) -> int:
        """For all jobs but that one."""
        return sum(wei for number, wei in self._kept.items() if number != job)
