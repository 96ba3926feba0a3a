"""Report of a node's disk: a problem while room is short, and metrics."""

from __future__ import annotations

from ..observe.metrics import Metrics
from ..observe.problems import Problems
from .database import Database
from .disk import Ballast
from .store import Store

DISK = "disk"
"""Topic of the disk's problems."""


class DiskReport:
    """Report of one data directory. For one thread."""

    def __init__(self, store: Store, database: Database, metrics: Metrics, problems: Problems) -> None:
        self._store, self._database = store, database
        self._metrics, self._problems = metrics, problems
        self._served = self._received = 0

    def tell(self, free: int, low: Ballast | None, quota: int | None) -> None:
        """Tell what is wrong, or that nothing is any more. ``free``: bytes; ``low``: the ballast, where less than it is
        free; ``quota``: the limit of the store, where it takes more."""
        if low is not None:
            self._problems[DISK] = (
                f"{free} bytes are free on the disk of {self._store.root}, "
                f"{2 * low.size} are wanted for moves: make room"
            )
        elif quota is not None:
            self._problems[DISK] = (
                f"the store takes {self._store.usage.total} bytes, limits.store_bytes is {quota}"
            )
        elif DISK in self._problems:
            self._problems.clear(DISK)
            self._problems.clear_part(DISK)

    def show(self, free: int) -> None:
        """Set the metrics. ``free``: bytes."""
        metrics, used = self._metrics, self._store.usage
        metrics.set("disk_free_bytes", free)
        metrics.set("database_bytes", self._database.size)
        metrics.add("fetched_bytes", by=used.received - self._received)
        metrics.add("served_bytes", by=used.sent - self._served)
        self._received, self._served = used.received, used.sent
        for kind, size in list(used.bytes.items()):
            metrics.set("store_bytes", size, kind)
            metrics.set("store_files", used.files.get(kind, 0), kind)
