"""A local chain with all contracts, its Python twin, and the costs of transactions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from eth_utils.address import to_checksum_address

from referee_py.gas_schedule import SCHEDULES
from referee_py.program.playable import MAX_GAS, transaction_gas
from tests.model.chain_model import ChainModel
from tests.model.registry import Registry
from tests.referee_py.game.chain import COMMIT_AGE, Chain, Contract, Transaction
from tests.support.counts import counts_of

MIN_STAKE, LEAVE_DELAY = 100, 15
RESERVE = 80
"""Seconds that the honest party keeps for the moves that it may still have to make."""


class Patience:
    """The times of the honest party's moves, which are as late as possible."""

    def __init__(self) -> None:
        self._reserve = RESERVE

    def when(self, now: int, deadline: int, *, over: bool) -> int:
        """Return the last second if the move ends it, else an instant with a second for each possible later move."""
        self._reserve = max(self._reserve - 1, 1)
        return max(now + 1, deadline if over else deadline - self._reserve)


@dataclass
class Bill:
    """Costs of transactions: by contract and functions, the most bytes, and the most gas by schedule."""

    bytes: dict[str, int] = field(default_factory=dict)
    gas: dict[str, dict[str, int]] = field(default_factory=dict)
    solver_seconds: float = 0.0
    transactions: int = 0

    def add(self, name: str, size: int, gas: dict[str, int]) -> None:
        self.bytes[name] = max(self.bytes.get(name, 0), size)
        most = self.gas.setdefault(name, dict.fromkeys(gas, 0))
        most.update({schedule: max(most[schedule], units) for schedule, units in gas.items()})
        self.transactions += 1


class Table:
    """A chain with all contracts, and the model of it."""

    def __init__(self, url: str) -> None:
        self.chain = Chain(url, MIN_STAKE, LEAVE_DELAY)
        addresses = (
            to_checksum_address(c.address) for c in (self.chain.jobs, self.chain.referee, self.chain.panel)
        )
        self.model = ChainModel(31337, *addresses, Registry(1, LEAVE_DELAY), MIN_STAKE, COMMIT_AGE)
        self.bill = Bill()
        self.fees: dict[str, int] = {}
        """Payments of everybody for gas."""

    def send(
        self,
        name: str,
        transaction: Transaction,
        play: Callable[[int], object],
        at: int | None = None,
        most_gas: int = MAX_GAS,
    ) -> None:
        """Send in a block of its own at `at`, or next if none is given. Chain and model must accept it.

        Its gas is at most `most_gas` under every schedule: as the chain has measured it, or from that and its counts.
        """
        at = self.chain.now + 1 if at is None else at
        assert at > self.chain.now, f"{name} at {at}, and it is {self.chain.now}"
        play(at)
        (accepted,) = self.chain.mine([transaction], at)
        assert accepted, f"{name} is refused at {at}: {self.chain.refusals([transaction], at)}"
        receipt = self.chain.receipts[transaction.hash]
        used, counts = int(receipt["gasUsed"], 16), counts_of(self.chain.request, transaction.hash)
        gas = {schedule.name: schedule.gas(used, counts) for schedule in SCHEDULES}
        assert max(gas.values()) <= most_gas, f"{name} takes {gas} gas, and should take {most_gas} at most"
        paid = used * int(receipt["effectiveGasPrice"], 16)
        self.fees[transaction.sender] = self.fees.get(transaction.sender, 0) + paid
        self.bill.add(name, len(transaction.data), gas)


def most_gas(made: Sequence[tuple[str, bytes]], inputs: int = 0) -> int:
    """Return the bound of `playable` on the gas of these calls, about a node of `inputs` inputs."""
    return transaction_gas([(name, len(data)) for name, data in made], inputs)


def whole(contract: Contract, made: Sequence[tuple[str, bytes]]) -> bytes:
    """Join calls to one."""
    return made[0][1] if len(made) == 1 else contract.calldata("multicall", [data for _, data in made])
