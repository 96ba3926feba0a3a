"""Chooses the block at which the chain is read: the newest that counts, the newest, or one by its number.

snapshot = client.snapshot()    latest - confirmations, pinned by number, remembered by hash
client.newest(read)             what most endpoints show at their newest blocks
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ..errors import RpcUnavailable
from .connection import Connection
from .majority import agreed
from .snapshot import Snapshot

T = TypeVar("T")


class ChainClient(Connection):
    """Reads one deployment, at the blocks that are asked for."""

    def snapshot(self) -> Snapshot:
        """Return the state at the newest block that counts (:mod:`trainer_node.chain.agreement`)."""
        look = self.agreement.look()
        if look.block.number < self.deployment.block:
            raise RpcUnavailable(
                f"the deployment is in block {self.deployment.block}; the newest block that counts is "
                f"{look.block.number} (finality, confirmations)"
            )
        return Snapshot(self, look.block, look.doubt)

    def at_head(self) -> Snapshot:
        """Return the state at the newest block, which may still be replaced, as one endpoint shows it."""
        return Snapshot(self, self.block())

    def newest(self, read: Callable[[Snapshot], T], *, alone: bool = False) -> T:
        """Return what most endpoints give, each at its newest block; on a tie, what the serving one gives. ``alone``:
        one decides where the others refuse, as many do if they are asked for logs; else RpcRefused is raised.

        SAFETY: nobody confirms what is read there, and by what such a block shows an act is not done: one endpoint
        could hide for ever that it is due. Raises RpcUnavailable and RpcCorrupt.
        """
        return agreed(self.endpoints, lambda: read(self.at_head()), alone=alone)

    def at(self, number: int) -> Snapshot:
        """Return the state at a block by number."""
        return Snapshot(self, self.block(number))
