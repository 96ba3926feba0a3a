"""The pending block: what waits in the pools, of which nobody knows whether it is ever mined.

Our own transactions wait there, and what is sent after them is tried on top of them. But so do those of strangers. One
that its author takes back before each block, or whose code does nothing in a block that is mined, would refuse all that
conflicts with it for as long as somebody likes, for next to nothing. So a refusal by the pending block counts as long
as a transaction of ours waits that did so when it first refused; then the mined state decides.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Collection
from typing import TypeVar

import structlog

from ..errors import Reverted
from .outbox import Call

PENDING, LATEST = "pending", "latest"
_KEPT = 1024
"""Calls that were refused, of which is kept what waited then."""

_log = structlog.get_logger(__name__)
T = TypeVar("T")


class Pending:
    """Asks on top of our own transactions. ``waiting`` gives the ids of those whose numbers are not used yet. Safe for
    several threads."""

    def __init__(self, waiting: Callable[[], Collection[int]]) -> None:
        self._waiting = waiting
        self._waited: dict[tuple[str | None, bytes], frozenset[int]] = {}
        """By call: our transactions that waited when it was first refused."""
        self._lock = threading.Lock()

    def asked(self, call: Call, ask: Callable[[str], T]) -> T:
        """Return what ``ask`` says of a call at the pending block, or at the latest, where the pending one refuses it
        and that is none of our doing. Raises Reverted if neither takes it."""
        try:
            found = ask(PENDING)
        except Reverted as error:
            if self._ours_wait(call):
                raise
            try:
                found = ask(LATEST)
            except Reverted:
                # NOTE: it is refused by what is mined, whoever waits, and by the same as before, as a rule.
                self._forget(call)
                raise error from None
            # SAFETY: what waited when it first refused stays known. Whoever asks for a price first, and sends then,
            # would begin once more in between, and wait for what has been sent meanwhile, again and again.
            _log.info("act.contested", act=call.action, reason=str(error))
            return found
        self._forget(call)
        return found

    def _forget(self, call: Call) -> None:
        with self._lock:
            self._waited.pop((call.to, call.data), None)

    def _ours_wait(self, call: Call) -> bool:
        waiting = frozenset(self._waiting())
        with self._lock:
            key = call.to, call.data
            first = self._waited.setdefault(key, waiting)
            for old in list(itertools.islice(self._waited, max(0, len(self._waited) - _KEPT))):
                del self._waited[old]
            return not first.isdisjoint(waiting)
