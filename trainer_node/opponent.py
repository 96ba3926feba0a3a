"""What an opponent serves, asked for in bounded time.

SAFETY: whoever stalls must not cost us our clock. One round asks an opponent's servers for `patience_s` altogether,
then does without (he has to reveal on-chain); servers that wasted our time are left alone for a while, longer each
time.
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

from .fetch import Fetcher
from .store import Store

PATIENCE_S = 5.0
OPPONENT_TIMEOUT_S = 3.0
MAX_URIS = 4
"""Of a group's servers; its spokesman's comes first."""
BAN_S = 5.0
MAX_BAN_S = 900.0
_MAX_REMEMBERED = 4096

T = TypeVar("T")
Servers = tuple[str, ...]


class Opponents:
    """All opponents of a node. Downloads run in threads of their own, so that nothing in them can hold the caller."""

    def __init__(
        self,
        fetcher: Fetcher,
        *,
        patience_s: float = PATIENCE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fetcher = fetcher
        self._patience_s = patience_s
        self._clock = clock
        self._banned: dict[Servers, tuple[int, float]] = {}  # how often in a row, and until when
        self._threads = ThreadPoolExecutor(8, thread_name_prefix="opponent")

    @classmethod
    def of(cls, store: Store, stop: threading.Event) -> Opponents:
        """What a node asks with. NOTE: whoever does not serve must not cost us our clock: he has to reveal on-chain."""
        return cls(Fetcher(store, timeout_s=OPPONENT_TIMEOUT_S, attempts=1, budget_s=PATIENCE_S, stop=stop))

    def ask(self, uris: Sequence[str]) -> Conversation:
        """A round's conversation with the servers of one opponent."""
        return Conversation(self, tuple(dict.fromkeys(uris))[:MAX_URIS])

    def close(self) -> None:
        """Forget what is still asked for."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def banned(self, servers: Servers) -> bool:
        """Whether these servers have wasted our time lately."""
        return self._clock() < self._banned.get(servers, (0, 0.0))[1]

    # ------------------------------------------------------------------ inside

    def _ban(self, servers: Servers) -> None:
        if len(self._banned) >= _MAX_REMEMBERED:
            self._banned.clear()
        times = self._banned.get(servers, (0, 0.0))[0]
        self._banned[servers] = times + 1, self._clock() + min(BAN_S * 2.0**times, MAX_BAN_S)


class Conversation:
    """Questions to one opponent; None is the answer to whatever is not served in time. Checked bytes only."""

    def __init__(self, opponents: Opponents, servers: Servers) -> None:
        self._opponents = opponents
        self._servers = servers
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
        if self._left <= 0 or opponents.banned(servers):
            return None
        began = opponents._clock()
        future = opponents._threads.submit(question)
        try:
            answer = future.result(timeout=self._left)
        except (AssayError, TimeoutError):
            future.cancel()
            # NOTE: a quick no is no harm; one that took half of our patience is a waste of time.
            if opponents._clock() - began > opponents._patience_s / 2:
                opponents._ban(servers)
            return None
        finally:
            self._left -= opponents._clock() - began
        opponents._banned.pop(servers, None)
        return answer
