"""The ether that jobs may still take from an account, so that it is not staked on other jobs."""

from __future__ import annotations

from collections.abc import Callable, Collection

from ..chain.on_their_way import OnTheirWay


class Reserve:
    """Wei that each job may still take, by job number. ``head`` returns the number of the newest block, ``pending`` the
    numbers of our transactions that may still be mined. ``stakes`` is told of each job in which a stake is about to be
    sent.

    SAFETY: jobs are read some blocks late, and a block older than our stake does not show it. So the amount kept when
    a stake is sent is not released until a block is read that must show the stake.
    """

    def __init__(
        self,
        head: Callable[[], int],
        pending: Callable[[], Collection[int]],
        stakes: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._head, self._told = head, stakes
        self._kept: dict[int, int] = {}
        self._stakes = OnTheirWay(pending)

    def staking(self, job: int, wei: int) -> None:
        """Note that a stake is about to be sent; ``wei`` includes it and all that the job may take later."""
        self._kept[job] = max(self._kept.get(job, 0), wei)
        self._stakes.sent(job)
        self._told(job)

    def seen(self, job: int, wei: int, block: int, believed: Callable[[], bool] = lambda: True) -> None:
        """Note the amount that the job may still take according to a block. ``believed`` is asked where that is less
        than before; if it returns False, all stays."""
        less = wei < self._kept.get(job, 0)
        if less and not (self._stakes.shows(job, block, self._head) and believed()):
            return
        self._kept[job] = wei
        if not wei:
            del self._kept[job]

    def kept(self, job: int) -> int:
        """Return the wei kept for that job."""
        return self._kept.get(job, 0)

    def jobs(self) -> set[int]:
        """Return the jobs that may still take something."""
        return set(self._kept)

    def for_others(self, job: int = 0) -> int:
        """Return the wei kept for all jobs but that one."""
        return sum(wei for number, wei in self._kept.items() if number != job)
