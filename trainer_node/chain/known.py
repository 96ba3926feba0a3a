"""Which endpoints show the chain that we know.

Most endpoints together have shown us a block, and we have acted on it. An endpoint that has another block in its place
is a stranger: it shows another chain. Neither how quickly it answers nor how slow the others are makes it an
alternative to them. A stranger comes back as soon as it shows a block that we read, and all are forgiven if nobody has
the known block any more: then it is the chain that has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from .block import Block
from .endpoint import Endpoint
from .endpoints import Endpoints


class Known:
    """The newest block that most endpoints have shown, and who contradicts it. With one endpoint it knows nothing."""

    def __init__(self, endpoints: Endpoints, read: Callable[[int], Block]) -> None:
        """``read`` returns a block by its number, from the endpoint that the thread asks."""
        self._endpoints, self._read = endpoints, read
        self.block: Block | None = None
        self.strangers: frozenset[Endpoint] = frozenset()

    def most(self, some: Collection[Endpoint]) -> bool:
        """Return whether these are more than half of all endpoints: nothing that was known speaks against them."""
        return 2 * len(some) > len(self._endpoints.every)

    def sort(self, votes: Mapping[Endpoint, Block]) -> frozenset[Endpoint]:
        """Ask these endpoints, by what they have shown now, for the known block. Returns those that contradict it and
        did not before."""
        known = self.block
        if known is None:
            return frozenset()
        found = {endpoint: vote for endpoint, vote in votes.items() if vote == known}
        if asked := [endpoint for endpoint in votes if endpoint not in found]:
            # SAFETY: who answers first must not keep those from being told apart that are slow.
            answers = self._endpoints.each(
                lambda _: self._read(known.number), asked, settled=lambda _: False
            )
            found |= {endpoint: block for endpoint, block in answers.items() if isinstance(block, Block)}
        other = frozenset(endpoint for endpoint, block in found.items() if block != known)
        if len(other) == len(self._endpoints.every):
            # NOTE: a reorganisation beyond what counted as final. Nothing is known until most agree again.
            self.block, self.strangers = None, frozenset()
            return frozenset()
        new = other - self.strangers
        self.strangers = (self.strangers - found.keys()) | other
        return new

    def learn(self, block: Block, same: Collection[Endpoint], other: Collection[Endpoint]) -> None:
        """Take in which endpoints have shown a block that was read, and which another one in its place.

        SAFETY: what fewer than most have shown is not known. Otherwise who answers alone once, as the others are slow,
        would make them strangers to their own chain.
        """
        if self.most(same) and self._endpoints.several:
            self.block, self.strangers = block, self.strangers | frozenset(other)
        self.strangers -= frozenset(same)
