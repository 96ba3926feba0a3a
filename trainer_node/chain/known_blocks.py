"""Endpoints that show the chain that we know, and those that do not.

Most endpoints together have shown us a block, and we have acted on it. An endpoint that has another block in its place
is a stranger: it shows another chain. Neither how quickly it answers nor how slow the others are makes it an
alternative to them. A stranger comes back as soon as it shows a block that we read, and all are forgiven if nobody has
the known block any more: then it is the chain that has changed.

Most need not answer in one look. A block that fewer have shown is offered to the others as they answer, one after the
other; once most have shown it, it is known. What is known is kept in the database, so that a daemon that starts again
in the middle of a match knows its chain.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

import structlog

from ..errors import DiskFailed
from ..storage.database import Database
from .block import Block
from .endpoint import Endpoint
from .endpoints import Endpoints

KEPT = "known block"
"""The name of the known block in the database."""
KEEP_S = 60.0
"""Seconds after which a newer known block is written to the database."""

_log = structlog.get_logger(__name__)


class Shown(NamedTuple):
    """A block, who has shown it, and who another one in its place."""

    block: Block
    same: frozenset[Endpoint]
    other: frozenset[Endpoint]


class Known:
    """The newest block that most endpoints have shown, and who contradicts it. With one endpoint it knows nothing."""

    def __init__(self, endpoints: Endpoints, read: Callable[[int], Block]) -> None:
        """``read`` returns a block by its number, from the endpoint that the thread asks."""
        self._endpoints, self._read = endpoints, read
        self.block: Block | None = None
        self.strangers: frozenset[Endpoint] = frozenset()
        self._offered: Shown | None = None
        """A block that fewer than most have shown."""
        self._database: Database | None = None
        self._kept_at = float("-inf")

    def keep_in(self, database: Database) -> None:
        """Begin with the known block of a database, and keep newer ones there.

        NOTE: one that the chain has replaced meanwhile is forgotten as any other, once no endpoint has it.
        """
        self._database, kept = database, database.get(KEPT)
        if kept is not None and self._endpoints.several and self.block is None:
            number, digest, timestamp, base_fee = kept
            self.block = Block(number, bytes.fromhex(digest), timestamp, base_fee)
            _log.info("rpc.known", block=number)

    def most(self, some: Collection[Endpoint]) -> bool:
        """Return whether these are more than half of all endpoints: nothing that was known speaks against them."""
        return 2 * len(some) > len(self._endpoints.every)

    def sort(self, votes: Mapping[Endpoint, Block]) -> frozenset[Endpoint]:
        """Ask these endpoints, by what they have shown now, for the known block. Returns those that contradict it and
        did not before."""
        known = self.block
        if known is None:
            return frozenset()
        found = self._shown(known, votes)
        other = frozenset(endpoint for endpoint, block in found.items() if block != known)
        if len(other) == len(self._endpoints.every):
            # NOTE: a reorganisation beyond what counted as final. Nothing is known until most agree again.
            self.block, self.strangers = None, frozenset()
            return frozenset()
        new = other - self.strangers
        self.strangers = (self.strangers - found.keys()) | other
        return new

    def learn(self, shown: Shown, votes: Mapping[Endpoint, Block]) -> None:
        """Take in who has shown a block that was read; ``votes`` is what all have shown.

        SAFETY: what fewer than most have shown is not known. Or whoever answers alone once, as the others are slow,
        would make them strangers to their own chain.
        """
        if not self._endpoints.several:
            return
        if self.most(shown.same):
            self._take(shown)
        else:
            self._offer(shown, votes)
        self.strangers -= shown.same

    # ------------------------------------------------------------------ inside

    def _shown(self, block: Block, votes: Mapping[Endpoint, Block]) -> dict[Endpoint, Block]:
        """Return what endpoints have in this block's place: by their votes, or asked for it."""
        found = {endpoint: vote for endpoint, vote in votes.items() if vote.number == block.number}
        if asked := [endpoint for endpoint in votes if endpoint not in found]:
            # SAFETY: whoever answers first must not keep those from being distinguished that are slow.
            answers = self._endpoints.each(lambda _: self._read(block.number), asked, hurries=lambda _: False)
            found |= {endpoint: shown for endpoint, shown in answers.items() if isinstance(shown, Block)}
        return found

    def _take(self, shown: Shown) -> None:
        """Know a block."""
        self.block, self.strangers = shown.block, self.strangers | shown.other
        self._offered = None
        now = self._endpoints.clock()
        if self._database is not None and now - self._kept_at >= KEEP_S:
            self._kept_at = now
            with contextlib.suppress(DiskFailed):
                block = shown.block
                self._database.put(KEPT, [block.number, block.hash.hex(), block.timestamp, block.base_fee])

    def _offer(self, shown: Shown, votes: Mapping[Endpoint, Block]) -> None:
        """Offer a block to those that have not said whether they have it, once each, until most have shown it.

        INVARIANT: whoever is counted has shown this very block, by its hash; so most have, whenever it was.
        """
        offered, every = self._offered, frozenset(self._endpoints.every)
        if offered is None or not self.most(every - offered.other):
            self._offered = shown
            return
        asked = {e: vote for e, vote in votes.items() if e not in offered.same | offered.other}
        found = self._shown(offered.block, asked)
        same = offered.same | {endpoint for endpoint, block in found.items() if block == offered.block}
        other = offered.other | {endpoint for endpoint, block in found.items() if block != offered.block}
        self._offered = Shown(offered.block, same, other)
        if self.most(same) and (self.block is None or offered.block.number > self.block.number):
            self._take(self._offered)
        elif self.most(same) or not self.most(every - other):
            self._offered = shown
