"""Which endpoints show the chain that we know.

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

import structlog

from ..db import Database
from ..errors import DiskFailed
from .block import Block
from .endpoint import Endpoint
from .endpoints import Endpoints

KEPT = "known block"
"""The name of the known block in the database."""
KEEP_S = 60.0
"""Seconds after which a newer known block is written to the database."""

_log = structlog.get_logger(__name__)


class Known:
    """The newest block that most endpoints have shown, and who contradicts it. With one endpoint it knows nothing."""

    def __init__(self, endpoints: Endpoints, read: Callable[[int], Block]) -> None:
        """``read`` returns a block by its number, from the endpoint that the thread asks."""
        self._endpoints, self._read = endpoints, read
        self.block: Block | None = None
        self.strangers: frozenset[Endpoint] = frozenset()
        self._offered: Block | None = None
        """A block that fewer than most have shown."""
        self._for: frozenset[Endpoint] = frozenset()
        self._against: frozenset[Endpoint] = frozenset()
        """Who has shown it, and who another one in its place."""
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

    def learn(
        self,
        block: Block,
        same: Collection[Endpoint],
        other: Collection[Endpoint],
        votes: Mapping[Endpoint, Block],
    ) -> None:
        """Take in which endpoints have shown a block that was read, and which another one in its place; ``votes`` is
        what all have shown.

        SAFETY: what fewer than most have shown is not known. Otherwise who answers alone once, as the others are slow,
        would make them strangers to their own chain.
        """
        if not self._endpoints.several:
            return
        if self.most(same):
            self._take(block, other)
        else:
            self._offer(block, same, other, votes)
        self.strangers -= frozenset(same)

    # ------------------------------------------------------------------ inside

    def _shown(self, block: Block, votes: Mapping[Endpoint, Block]) -> dict[Endpoint, Block]:
        """Return what endpoints have in this block's place: by their votes, or asked for it."""
        found = {endpoint: vote for endpoint, vote in votes.items() if vote.number == block.number}
        if asked := [endpoint for endpoint in votes if endpoint not in found]:
            # SAFETY: who answers first must not keep those from being told apart that are slow.
            answers = self._endpoints.each(lambda _: self._read(block.number), asked, hurries=lambda _: False)
            found |= {endpoint: shown for endpoint, shown in answers.items() if isinstance(shown, Block)}
        return found

    def _take(self, block: Block, other: Collection[Endpoint]) -> None:
        """Know a block."""
        self.block, self.strangers = block, self.strangers | frozenset(other)
        self._offered = None
        now = self._endpoints.clock()
        if self._database is not None and now - self._kept_at >= KEEP_S:
            self._kept_at = now
            with contextlib.suppress(DiskFailed):
                self._database.put(KEPT, [block.number, block.hash.hex(), block.timestamp, block.base_fee])

    def _offer(
        self,
        block: Block,
        same: Collection[Endpoint],
        other: Collection[Endpoint],
        votes: Mapping[Endpoint, Block],
    ) -> None:
        """Offer a block to those that have not said whether they have it, once each, until most have shown it.

        INVARIANT: whoever is counted has shown this very block, by its hash; so most have, whenever it was.
        """
        offered, every = self._offered, frozenset(self._endpoints.every)
        if offered is None or not self.most(every - self._against):
            self._offered, self._for, self._against = block, frozenset(same), frozenset(other)
            return
        asked = {e: vote for e, vote in votes.items() if e not in self._for | self._against}
        found = self._shown(offered, asked)
        self._for |= {endpoint for endpoint, shown in found.items() if shown == offered}
        self._against |= {endpoint for endpoint, shown in found.items() if shown != offered}
        if self.most(self._for) and (self.block is None or offered.number > self.block.number):
            self._take(offered, self._against)
        elif self.most(self._for) or not self.most(every - self._against):
            self._offered, self._for, self._against = block, frozenset(same), frozenset(other)
