"""Requests to an opponent's servers, in bounded time.

SAFETY: an opponent's pace must not cost us our clock. One round asks its servers for at most `patience_s`, then acts
without them (the opponent has to reveal on-chain). Servers that waste our time are banned, longer each time; slow and
right answers are such a waste, too. All opponents together make us wait for `TREES` of the time, so that many matches
take no more of a clock than one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from referee_py.commit import Record, Tag, Tree
from referee_py.commit.tensor import Array
from referee_py.errors import AssayError

from ..limits.waits import OPPONENT_S, TREES
from ..storage.store import Store
from .fetcher import Fetcher
from .sources import Served

OPPONENT_TIMEOUT_S = 3.0
MAX_URIS = 4
"""Limit on the servers of a group that are asked, the spokesman's first."""
BAN_S = 5.0
MAX_BAN_S = 900.0
BURST = 4
"""Patiences of a round that may be spent at once, if nothing was waited for before."""
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
        self._lock = threading.Lock()
        self._left_s, self._counted = BURST * patience_s, clock()
        """Seconds that may be waited, and when they were counted."""
        self._threads = ThreadPoolExecutor(8, thread_name_prefix="opponent")

    @classmethod
    def of(cls, store: Store, stop: threading.Event) -> Opponents:
        """Create a node's opponents. NOTE: downloads are tried once: an opponent that serves nothing has to reveal."""
        return cls(Fetcher(store, timeout_s=OPPONENT_TIMEOUT_S, attempts=1, budget_s=OPPONENT_S, stop=stop))

    def ask(self, uris: Sequence[str]) -> Conversation:
        """Start a round's conversation with the servers of one opponent."""
        return Conversation(self, tuple(dict.fromkeys(uris))[:MAX_URIS])

    def close(self) -> None:
        """Drop the requests that have not begun."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def banned(self, servers: Servers) -> bool:
        """Return whether these servers are banned now."""
        return self._clock() < self._banned.get(servers, (0, 0.0))[1]

    def left_s(self, spent: float = 0.0) -> float:
        """Return the seconds that may be waited for answers now, after ``spent`` were."""
        with self._lock:
            now = self._clock()
            earned = float(TREES) * max(0.0, now - self._counted)
            self._left_s = min(BURST * self._patience_s, self._left_s + earned) - spent
            self._counted = now
            return self._left_s

    # ------------------------------------------------------------------ inside

    def _ban(self, servers: Servers) -> None:
        if len(self._banned) >= _MAX_REMEMBERED:
            self._banned.clear()
        times = self._banned.get(servers, (0, 0.0))[0]
        self._banned[servers] = times + 1, self._clock() + min(BAN_S * 2.0**times, MAX_BAN_S)


class Conversation:
    """Questions to one opponent. Each answer consists of checked bytes; it is None if not served in time."""

    def __init__(self, opponents: Opponents, servers: Servers) -> None:
        self._opponents = opponents
        self._servers = servers
        self._source = Served(opponents._fetcher, servers)
        self._left = opponents._patience_s

    def tree(self, tag: Tag, root: bytes, leaves: int) -> Tree | None:
        return self._ask(lambda: self._source.tree(tag, root, leaves))

    def record(self, record_hash: bytes) -> Record | None:
        return self._ask(lambda: self._source.record(record_hash))

    def tensor(self, tensor: bytes, max_bytes: int) -> Array | None:
        return self._ask(lambda: self._source.tensor(tensor, max_bytes))

    def _ask(self, question: Callable[[], T]) -> T | None:
        opponents, servers = self._opponents, self._servers
        patience = min(self._left, opponents.left_s())
        if patience <= 0 or opponents.banned(servers):
            return None
        began = opponents._clock()
        future = opponents._threads.submit(question)
        try:
            answer = future.result(timeout=patience)
        except (AssayError, TimeoutError):
            future.cancel()
            # NOTE: a quick refusal does no harm; one that took half of our patience wasted our time.
            if opponents._clock() - began > opponents._patience_s / 2:
                opponents._ban(servers)
            return None
        finally:
            took = opponents._clock() - began
            self._left -= took
            opponents.left_s(spent=took)
        if self._left < opponents._patience_s / 2:
            opponents._ban(servers)
        else:
            opponents._banned.pop(servers, None)
        return answer
