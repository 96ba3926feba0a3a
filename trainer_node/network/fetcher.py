"""Fetches artifacts by hash from several servers, any of which may fail (`download`).

SAFETY: what a server costs without delivering has a budget (`peer_costs`), and so has the time of each work: servers
that deliver right, but more slowly than the work needs, count as those that do not deliver.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import math
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import structlog

from referee_py.commit import HASH_BYTES
from referee_py.errors import InvalidInput, Unavailable

from ..errors import Corrupt
from ..storage.artifacts import MAX_RECORD_BYTES, Kind, Name
from ..storage.store import Store
from .budget import Budget
from .download import Bounds, Call, Downloads, connect
from .peer_costs import Peers
from .uri import MAX_URI_BYTES

HEDGE_S = 2.0
"""Seconds that one server may take before the next one is asked too."""
MAX_RACE = 8
"""Largest number of servers that are asked for one artifact at the same time."""
PARALLEL = 32
"""Number of artifacts that are asked for side by side: an answer that comes late holds up no other."""
_GLANCE_S = 0.2
"""Seconds between two checks of a running download against its budget and ``stop``."""

_log = structlog.get_logger(__name__)


class Fetcher:
    """Gets artifacts into a store from a list of base URIs.

    If a server has not delivered after ``HEDGE_S`` seconds, the next one is asked too, and the first right answer wins.
    So a row of stalling servers cannot hide one that serves.

    ``timeout_s`` bounds each wait for bytes; ``min_rate`` (bytes per second) bounds each download: after ``n`` bytes at
    most ``timeout_s + n / min_rate`` seconds may have passed. ``budget_s`` bounds a whole call, and ``stop`` ends it.
    ``peers`` counts what servers cost, in seconds of ``clock``, for the fetchers that `for_job` returns. Those that
    `within` returns fetch for one work, which has a budget of seconds in all its calls together.
    All methods raise

    - ``Unavailable`` if no server has it in time, or if the time of the work is over;
    - ``Corrupt`` (an Unavailable too) if some server answered with other bytes and none with the right ones;
    - ``InvalidInput`` for an invalid name. An invalid URI counts as a server that does not answer.
    """

    def __init__(
        self,
        store: Store,
        *,
        timeout_s: float = 10.0,
        min_rate: float = 64 * 1024,
        attempts: int = 3,
        backoff_s: float = 0.2,
        budget_s: float = math.inf,
        stop: threading.Event | None = None,
        peers: Peers | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.store = store
        self._clock = clock
        self.peers = peers
        self._job: int | None = None
        self._budgets: tuple[Budget, ...] = ()
        self._bounds = Bounds(timeout_s, min_rate, attempts, backoff_s)
        self._budget_s = budget_s
        self._stop = stop or threading.Event()

    def for_job(self, job: int, *, store: Store | None = None) -> Fetcher:
        """Return a fetcher that counts what servers cost against their budgets in a job. The job holds what is fetched.

        ``store``: another view of the store.
        """
        other = copy.copy(self)
        other._job = job
        other.store = self.store.held_by(job) if store is None else store
        return other

    def stopped_by(self, stop: threading.Event) -> Fetcher:
        """Return a fetcher whose downloads end when ``stop`` is set, as when a turn in a lane is over (`lanes`)."""
        other = copy.copy(self)
        other._stop = stop
        return other

    def within(self, budget: Budget) -> Fetcher:
        """Return a fetcher of one work, which waits no longer than ``budget`` and the budgets of this one.

        Once one is over, whatever is not in the store is Unavailable, and the servers are blamed for the seconds that
        they took, right answers included, if the budget blames anybody.
        """
        other = copy.copy(self)
        other._budgets = (*self._budgets, budget)
        return other

    def fetch(self, name: Name, uris: Sequence[str], *, max_bytes: int | None = None) -> None:
        """Bring the artifact, of at most ``max_bytes``, into the store. Returns at once if it is there."""
        if not self.store.has(name):
            _run(self._within_budget([name], uris, max_bytes))

    def fetch_all(
        self,
        names: Sequence[Name],
        uris: Sequence[str],
        *,
        max_bytes: int | None = None,
    ) -> None:
        """Bring all of them into the store, `PARALLEL` at a time. Raises the first error after all have ended."""
        missing = [name for name in dict.fromkeys(names) if not self.store.has(name)]
        if missing:
            _run(self._within_budget(missing, uris, max_bytes))

    # ------------------------------------------------------------------ inside

    def _limit(self, name: Name, max_bytes: int | None) -> int:
        limit = min(max_bytes or self.store.max_bytes, self.store.max_bytes)
        if name.kind is Kind.RECORD:
            limit = min(limit, MAX_RECORD_BYTES)
        if name.kind is Kind.TREE and name.count is not None:
            limit = min(limit, name.count * HASH_BYTES)
        return limit

    async def _within_budget(self, names: Sequence[Name], uris: Sequence[str], max_bytes: int | None) -> None:
        """Fetch until all is here, a budget is spent, or ``stop`` is set."""
        call = Call(len(names))
        with contextlib.ExitStack() as stack:
            for budget in self._budgets:
                self._end_of(budget, call)
                stack.enter_context(budget.waiting())
            task = asyncio.ensure_future(self._fetch_all(call, names, uris, max_bytes))
            deadline = asyncio.get_running_loop().time() + self._budget_s
            while not (await asyncio.wait({task}, timeout=_GLANCE_S))[0]:
                over = next((budget for budget in self._budgets if budget.over), None)
                late = asyncio.get_running_loop().time() >= deadline
                if not (over or late or self._stop.is_set()):
                    continue
                call.late = late or (over is not None and over.blames)
                call.cut = not call.late
                task.cancel()
                await asyncio.wait({task})
                if over is not None:
                    self._end_of(over, call)
                limit = f"in the {self._budget_s:.0f} s of limits.fetch_budget_s"
                why = limit if late else "before it was told to stop"
                raise Unavailable(f"{call.came} {why}, {call.arrived} bytes in all; it is tried again")
            task.result()

    def _end_of(self, budget: Budget, call: Call) -> None:
        """Raise Unavailable if a work's time is over; its servers have cost the seconds that it took."""
        if not budget.over:
            return
        if budget.blames and self.peers is not None and self._job is not None:
            for host, seconds in budget.blamed().items():
                self.peers.failed(self._job, host, 0, seconds)
        raise Unavailable(f"{budget.reason}; {call.came} in the last request")

    async def _fetch_all(
        self, call: Call, names: Sequence[Name], uris: Sequence[str], max_bytes: int | None
    ) -> None:
        # SAFETY: a package may name a million artifacts, so there is nothing for each of them, nor for its failure.
        left, failed = iter(names), list[Exception]()
        async with connect(self._bounds) as client:
            downloads = Downloads(
                client, call, self.store, self._bounds, self._job, self.peers, self._budgets, self._clock
            )

            async def some() -> None:
                for name in left:
                    try:
                        await self._fetch(downloads, name, uris, self._limit(name, max_bytes))
                        call.done += 1
                    except Exception as error:
                        del failed[1:]
                        failed.append(error)

            await asyncio.gather(*(some() for _ in range(min(PARALLEL, len(names)))))
        if failed:
            raise failed[0]
        sizes = [path.stat().st_size for name in names if (path := self.store.find(name)) is not None]
        _log.info("artifacts.fetched", count=len(sizes), bytes=sum(sizes))

    async def _fetch(self, downloads: Downloads, name: Name, uris: Sequence[str], limit: int) -> None:
        waiting = list(dict.fromkeys(uris))
        asked: dict[asyncio.Task[None], str] = {}
        reasons: list[str] = []
        corrupt = False
        try:
            while waiting or asked:
                if waiting and len(asked) < MAX_RACE:
                    uri = waiting.pop(0)
                    asked[asyncio.ensure_future(downloads.fetch(uri, name, limit))] = uri
                patience = HEDGE_S if waiting and len(asked) < MAX_RACE else None
                done, _ = await asyncio.wait(asked, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    uri = asked.pop(task)
                    try:
                        task.result()
                        return
                    except Corrupt as error:
                        corrupt = True
                        reasons.append(f"{uri}: {error}")
                        _log.warning("artifact.corrupt", artifact=str(name), uri=uri, reason=str(error))
                    except (Unavailable, InvalidInput) as error:
                        reasons.append(f"{uri[:MAX_URI_BYTES]}: {error}")
        finally:
            for task in asked:
                task.cancel()
            await asyncio.gather(*asked, return_exceptions=True)
        found = "; ".join(reasons) if reasons else "no server is known"
        raise (Corrupt if corrupt else Unavailable)(f"{name} could not be fetched ({found})")


def _run(work: Coroutine[Any, Any, None]) -> None:
    """Run to the end, from a thread with or without a running event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(work)
        return
    failure: list[BaseException] = []

    def target() -> None:
        try:
            asyncio.run(work)
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=target, name="fetch")
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
