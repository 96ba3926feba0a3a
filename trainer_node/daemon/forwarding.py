"""Sends what the account does not need to another one, so that a key that signs by itself holds little.

The contracts pay credits to the account that earned them; then a plain transfer moves them on. It takes only what is
above ``keep_eth`` after everything that jobs may still take (`funds`), and never while that is not known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ..chain import Call, Receipt, Snapshot
from ..stake.gas_patience import Market
from .due import Due

TRANSFER_GAS = 21_000
WORTH = 100
"""A transfer is made once it is worth this many times its gas."""
AGAIN_S = 3600
"""Seconds until a transfer that was refused is tried again."""


@dataclass
class Forwarder:
    """Sends to the account ``to``; ``floor``: wei that stay. ``started``: the block at which this process began."""

    to: str
    floor: int
    started: int
    market: Callable[[int], Market]
    _not_before: int = field(default=0, init=False)
    _mined: int = field(default=0, init=False)
    """The block that has the last transfer."""

    def due(self, snapshot: Snapshot, spare: int, *, known: bool) -> list[Due]:
        """Return the transfer that is due. ``spare``: wei that no job may need. ``known``: all jobs of ours have been
        read in this round, and no transaction of ours is open.

        SAFETY: after a start, a snapshot of a block before it may not show a stake of an earlier process. A transfer
        that a reorganisation takes back waits in the pools again: a second one would take what jobs may need.
        """
        shown = snapshot.block.number >= max(self.started, self._mined)
        if not known or not shown or snapshot.now < self._not_before:
            return []
        amount = spare - self.floor
        if amount < WORTH * TRANSFER_GAS * max(1, self.market(snapshot.block.base_fee).fee):
            return []

        def sent(receipt: Receipt | None) -> None:
            if receipt is None:
                self._not_before = snapshot.now + AGAIN_S
            else:
                self._mined = receipt.block

        about = {"to": self.to, "wei": amount}
        return [Due(Call("forward", self.to, b"", amount), "money.forwarded", about, then=sent, exposes=True)]
