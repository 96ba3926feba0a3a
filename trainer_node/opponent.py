"""Requests to an opponent's servers, in bounded time.

SAFETY: a stalling opponent must not cost us our clock. One round asks its servers for at most `patience_s`, then goes
on without them (the opponent has to reveal on-chain). Servers that waste our time are banned, longer each time. Right
answers that come late waste it, too: all rounds of a match together have a budget.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from referee_py.commit import Record, Tag, Tree
from referee_py.commit.tensor import Array
from referee_py.errors import AssayError

from .budget import Budget
from .fetch import Fetcher
from .store import Store
from .waits import OPPONENT_S

OPPONENT_TIMEOUT_S = 3.0
MAX_URIS = 4
"""Limit on the servers of a group that are asked, the spokesman's first."""
BAN_S = 5.0
MAX_BAN_S = 900.0
_MAX_REMEMBERED = 4096

T = TypeVar("T")
Servers = tuple[str, ...]


class Opponents:
    """All opponents of a node. Downloads run in separate threads, so that none can block the caller."""

    def __init__(
        self,
        fetcher: Fetcher,
        *,
        patience_s: float = OPPONENT_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fetcher = fetcher
        self._patience_s = patience_s
        self._clock = clock
        self._banned: dict[Servers, tuple[int, float]] = {}  # bans in a row, and the end of the last
        self._threads = ThreadPoolExecutor(8, thread_name_prefix="opponent")

    @classmethod
    def of(cls, store: Store, stop: threading.Event) -> Opponents:
        """Create a node's opponents. NOTE: downloads are tried once: an opponent that serves nothing has to reveal."""
        return cls(Fetcher(store, timeout_s=OPPONENT_TIMEOUT_S, attempts=1, budget_s=OPPONENT_S, stop=stop))

    def ask(self, uris: Sequence[str], within: Budget | None = None) -> Conversation:
        """Start a round's conversation with the servers of one opponent; ``within`` the budget of a match."""
        return Conversation(self, tuple(dict.fromkeys(uris))[:MAX_URIS], within)

    def close(self) -> None:
        """Drop the requests that have not begun."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def banned(self, servers: Servers) -> bool:
        """Return whether these servers are banned now."""
        return self._clock() < self._banned.get(servers, (0, 0.0))[1]

    # ------------------------------------------------------------------ inside

    def _ban(self, servers: Servers) -> None:
        if len(self._banned) >= _MAX_REMEMBERED:
            self._banned.clear()
        times = self._banned.get(servers, (0, 0.0))[0]
        self._banned[servers] = times + 1, self._clock() + min(BAN_S * 2.0**times, MAX_BAN_S)


class Conversation:
    """Questions to one opponent. Each answer consists of checked bytes; it is None if not served in time."""

    def __init__(self, opponents: Opponents, servers: Servers, within: Budget | None) -> None:
        self._opponents = opponents
        self._servers = servers
        self._within = within or Budget(math.inf, "an opponent")
        self._left = opponents._patience_s

    def tree(self, tag: Tag, root: bytes, leaves: int) -> Tree | None:
        fetcher, servers = self._opponents._fetcher, self._servers
        return self._ask(lambda: fetcher.tree(tag, root, leaves, servers))

    def record(self, record_hash: bytes) -> Record | None:
        fetcher, servers = self._opponents._fetcher, self._servers
        return self._ask(lambda: fetcher.record(record_hash, servers))

    def tensor(self, tensor: bytes, max_bytes: int) -> Array | None:
        fetcher, servers = self._opponents._fetcher, self._servers
        return self._ask(lambda: fetcher.tensor(tensor, servers, max_bytes=max_bytes))

    def _ask(self, question: Callable[[], T]) -> T | None:
        opponents, servers = self._opponents, self._servers
        left = min(self._left, self._within.left)
        if left <= 0 or opponents.banned(servers):
            return None
        began = opponents._clock()
        future = opponents._threads.submit(question)
        try:
            with self._within.waiting():
                answer = future.result(timeout=left)
        except (AssayError, TimeoutError):
            future.cancel()
            # NOTE: a quick refusal does no harm; one that took half of our patience wasted our time.
            if opponents._clock() - began > opponents._patience_s / 2:
                opponents._ban(servers)
            return None
        finally:
            self._left -= opponents._clock() - began
        opponents._banned.pop(servers, None)
        return answer
