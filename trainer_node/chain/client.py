"""Chooses the block at which the chain is read: the newest that counts, the newest, or one by its number.

snapshot = client.snapshot()    latest - confirmations, pinned by number, remembered by hash
"""

from __future__ import annotations

from ..errors import RpcUnavailable
from .connection import Connection
from .snapshot import Snapshot


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
        """Return the state at the newest block, which may still be replaced."""
        return Snapshot(self, self.block())

    def at(self, number: int) -> Snapshot:
        """Return the state at a block by number."""
        return Snapshot(self, self.block(number))
