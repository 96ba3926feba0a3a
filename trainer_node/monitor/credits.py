"""Money that accounts have not withdrawn: the credits of the deployment's escrows, from their events.

Only accounts with a credit are remembered, and only up to a block that is `DEPTH` below the head; the newest blocks are
read again in every round, so that a reorganisation changes nothing that is kept. Before a credit is shown, the contract
is asked (`credit`): an endpoint that lacks events can hide money for a while, and never invents any.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from web3.contract import Contract

from referee_py.params import BURNED

from ..chain import Snapshot
from ..chain.client import ChainClient
from ..chain.events import Event, Query, read_events

DEPTH = 128
MAX_EVENTS = 1_000_000
MAX_TOLD = 500
"""Accounts that a round asks the contracts about, those with most first."""


@dataclass(frozen=True, slots=True)
class Owed:
    """``wei`` that ``account`` can withdraw from ``escrow``; ``block``: that of the last credit."""

    escrow: str
    account: str
    wei: int
    block: int


@dataclass
class _Book:
    """Credits of one escrow at a block: wei and block of the last credit, by account."""

    through: int
    hash: bytes = b""
    found: dict[str, tuple[int, int]] = field(default_factory=dict)

    def take(self, event: Event) -> None:
        account = str(event.args["account"])
        if account.lower() == BURNED.lower():
            return
        if event.name == "Withdrawn":
            self.found.pop(account, None)  # NOTE: a withdrawal takes all of a credit
            return
        wei, _ = self.found.get(account, (0, 0))
        self.found[account] = wei + int(event.args["amount"]), event.block


class Credits:
    """The credits of one deployment, read forwards."""

    def __init__(self, client: ChainClient) -> None:
        self._client = client
        self._books: dict[str, _Book] = {}

    def owed(self, snapshot: Snapshot) -> list[Owed]:
        """Return who can withdraw what at the snapshot's block. Raises RpcUnavailable and RpcCorrupt."""
        found = []
        contracts = snapshot.contracts
        names = dict(zip(contracts.escrows, ("Jobs", "Panel", "DataAvailability", "Watch"), strict=True))
        for contract, name in names.items():
            for account, (wei, block) in self._read(contract, name, snapshot).items():
                found.append((wei, block, account, contract, name))
        found.sort(key=lambda row: row[0], reverse=True)
        told = []
        for _, block, account, contract, name in found[:MAX_TOLD]:
            wei = snapshot.credit_at(contract, account)
            if wei:
                told.append(Owed(name, account, wei, block))
        return told

    def _read(self, contract: Contract, name: str, snapshot: Snapshot) -> dict[str, tuple[int, int]]:
        client, last = self._client, snapshot.block.number
        book = self._books.get(name)
        if book is not None and (
            book.through > last or (book.hash and client.block(book.through).hash != book.hash)
        ):
            book = None  # a reorganisation deeper than DEPTH, or another chain
        book = book or _Book(client.deployment.block - 1)
        query = Query(contract, (), ("Credited", "Withdrawn"))
        deep = max(last - DEPTH, book.through)
        kept = _Book(deep, found=dict(book.found))
        newest = list(read_events(client.web3, query, book.through + 1, last, client.log_range, MAX_EVENTS))
        for event in newest:
            if event.block <= deep:
                kept.take(event)
        if deep > book.through:
            kept.hash = client.block(deep).hash
            self._books[name] = kept
        now = _Book(last, found=dict(kept.found))
        for event in newest:
            if event.block > deep:
                now.take(event)
        return now.found
