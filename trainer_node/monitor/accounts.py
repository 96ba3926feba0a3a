"""Accounts whose owner the monitor works for, and whether the contracts hold what they owe.

    poor          a named account has less ether than its owner wants it to have
    unanswered    it owes a move in a match or a trial, and has not made it
    insolvent     a contract has less ether than is owed from it, as far as this round has read

SAFETY: what is owed is a lower bound, read at one block: credits that the contract confirms; of the jobs that were read
the stakes that stand, the stakes of open slots, rewards, deposits of open requests and bonds of appeals; and the bonds
of their verifiers. So jobs that were not read never raise an alarm.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from eth_utils.address import is_address, to_checksum_address

from referee_py.errors import InvalidInput
from referee_py.game.state import Phase
from referee_py.walk import clock
from referee_py.walk.sides import sides

from ..chain import JobView, Snapshot
from ..chain.rpc import guarded
from .alerts import Alert, Kind, Level, Rules, is_near
from .credits import Owed
from .reading import Reading

WHOLE = 0
"""The number under which alerts of no single job are kept."""


@dataclass(frozen=True)
class Named:
    """By address, with its checksum: the least wei that it should have."""

    least: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, given: Iterable[tuple[str, int]]) -> Named:
        """Return the accounts. Raises InvalidInput for what is no address."""
        least = {}
        for address, wei in given:
            if not is_address(address):
                raise InvalidInput(f"{address[:80]!r} is not an address; write --account 0x...=0.5")
            least[str(to_checksum_address(address))] = wei
        return cls(least)

    def poor(self, snapshot: Snapshot) -> Iterator[Alert]:
        """Yield an alert for each account with less than it should have. Raises RpcUnavailable and RpcCorrupt."""
        for address, least in self.least.items():
            if (wei := balance(snapshot, address)) < least:
                text = f"{address} has {wei} wei, and should have {least}"
                yield Alert(_id(WHOLE, Kind.POOR, address), Kind.POOR, Level.WARNING, WHOLE, text)

    def unanswered(self, reading: Reading, rules: Rules) -> Iterator[Alert]:
        """Yield an alert for each move that a named account owes for longer than the grace, or not much longer."""
        job, period, now = reading.job, reading.job.rules.clock, reading.now
        for match in reading.matches:
            told = [(match.info.id, match.info.state, match.info.terms.players)]
            if match.info.state.phase not in (Phase.WALK, Phase.REFINE, Phase.OPEN):
                told.clear()
            if match.trial is not None:
                told.append((match.trial.id, match.trial.state, match.trial.state.players))  # type: ignore[arg-type]
            for number, state, players in told:
                for side in sides(clock.owing(state)):
                    address, end = str(to_checksum_address(players[side])), clock.deadline(state, side)
                    near = is_near(end - now, period, rules)
                    if address in self.least and (near or now - state.tick >= rules.grace_s):
                        text = f"{address} owes a move since {state.tick}, and has {end - now} s left of {period}"
                        level = Level.CRITICAL if near else Level.WARNING
                        key = _id(job.id, Kind.UNANSWERED, f"{number:#x}", side)
                        yield Alert(key, Kind.UNANSWERED, level, job.id, text, end)


def insolvent(snapshot: Snapshot, owed: Iterable[Owed], readings: Sequence[Reading]) -> Iterator[Alert]:
    """Yield an alert for each contract that has less than it owes. Raises RpcUnavailable and RpcCorrupt."""
    sums = Counter[str]()
    for one in owed:
        sums[one.escrow] += one.wei
    bonds = dict[str, int]()
    for reading in readings:
        sums["Jobs"] += in_escrow(reading.job)
        sums["DataAvailability"] += sum(request.deposit for request in reading.requests)
        sums["Panel"] += sum(
            m.hearing.state.bond for m in reading.matches if m.hearing and not m.hearing.over
        )
        bonds |= {address: verifier.bond for address, verifier in reading.verifiers.items()}
    sums["VerifierRegistry"] += sum(bonds.values())
    addresses: Mapping[str, str] = snapshot.contracts.deployment.addresses
    for name, wei in sums.items():
        held = balance(snapshot, addresses[name])
        if held < wei:
            text = f"{name} holds {held} wei and owes {wei} at least: somebody will not be paid"
            yield Alert(_id(WHOLE, Kind.INSOLVENT, name), Kind.INSOLVENT, Level.CRITICAL, WHOLE, text)


def balance(snapshot: Snapshot, address: str) -> int:
    """Return the wei of an account or a contract at the snapshot's block. Raises RpcUnavailable and RpcCorrupt."""
    with guarded("balance"):
        return int(snapshot.web3.eth.get_balance(to_checksum_address(address), snapshot.block.number))


def in_escrow(job: JobView) -> int:
    """Return the wei that a job has in escrow at least: after its end, without shares of the reward."""
    stakes = sum(claim.stake for claim in job.claims if not claim.lost and not claim.collected)
    if job.phase.ended:
        return stakes
    return stakes + job.reward + sum(slot.stake for slot in job.trainers if not slot.revealed)


def _id(job: int, kind: Kind, *parts: object) -> str:
    return ":".join(map(str, (job, kind, *parts)))
