"""Artifacts of others' servers, fetched in the background: a page waits a moment for them, and is shown without.

SAFETY: servers are named by strangers. The fetcher bounds bytes and time and checks every hash; a server that stalls
holds up a thread of this pool, and no page.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from typing import Any, Generic, TypeVar

from referee_py.errors import AssayError

WAIT_S = 0.4
"""Seconds that a page waits for something that is being fetched."""
AGAIN_S = 20.0
"""Seconds after which a failure is tried again."""
MAX_KEPT = 64
LANES = 6

T = TypeVar("T")


@dataclass(frozen=True)
class Got(Generic[T]):
    """A value, the reason why there is none, or neither while it is being fetched."""

    value: T | None = None
    reason: str = ""

    @property
    def pending(self) -> bool:
        return self.value is None and not self.reason


class Shelf:
    """Keeps what was made last, and makes it in threads. Safe for several threads."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(LANES, thread_name_prefix="artifacts")
        self._made: OrderedDict[Hashable, tuple[float, Future[Any]]] = OrderedDict()
        self._lock = Lock()

    def get(
        self, key: Hashable, make: Callable[[], T], wait_s: float = WAIT_S, fresh_s: float | None = None
    ) -> Got[T]:
        """Return what ``make`` gives, if it is made within ``wait_s``. ``fresh_s``: make it again when it is older."""
        with self._lock:
            began, future = self._made.get(key, (0.0, None))
            age = time.monotonic() - began
            failed = future is not None and future.done() and future.exception() is not None
            stale = future is not None and future.done() and fresh_s is not None and age > fresh_s
            if future is None or stale or (failed and age > AGAIN_S):
                future = self._threads.submit(make)
                self._made[key] = time.monotonic(), future
            self._made.move_to_end(key)
            while len(self._made) > MAX_KEPT:
                self._made.popitem(last=False)
        try:
            return Got(future.result(timeout=wait_s))
        except TimeoutError:
            return Got()
        except AssayError as error:
            return Got(reason=str(error))
        except Exception as error:  # NOTE: a page must be shown whatever strangers serve
            return Got(reason=f"{type(error).__name__}: {error}")

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
