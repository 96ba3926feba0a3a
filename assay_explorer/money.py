"""Payments of every party of a job, in and out, from post to payment: read from transactions and events, in wei.

    paid in     values of transactions to our contracts that have an event of the job, and bonds of its verifiers lost
    got         what the contracts credited in such transactions
    between     what the contracts hold; what is burned they credit to nobody's account, `params.BURNED`

NOTE: gas is apart: `fee` is what a party paid for these transactions.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from referee_py.params import BURNED
from trainer_node.chain import JobView
from trainer_node.client.parties import Parties

from .chain import Look

WORDS = {
    "Posted": "posts the job",
    "Joined": "takes a slot",
    "Resigned": "gives the slot back",
    "Committed": "commits",
    "ChallengeCommitted": "commits to a challenge",
    "Claimed": "claims",
    "Refuted": "refutes",
    "Resolved": "a match ends",
    "Accepted": "the job is accepted",
    "Unclaimed": "the job ends without a result",
    "Voided": "the job is void",
    "Collected": "collects",
    "Appealed": "appeals",
    "Slashed": "loses a bond",
    "Requested": "requests data",
}


@dataclass(frozen=True)
class Entry:
    """A change. ``paid`` and ``got`` are wei."""

    block: int
    instant: int
    tx_hash: bytes
    who: str
    why: str
    paid: int
    got: int


@dataclass
class Account:
    """A party's part. ``bond``: wei of a verifier's bond that was taken."""

    address: str
    name: str
    paid: int = 0
    got: int = 0
    fee: int = 0
    bond: int = 0

    @property
    def profit(self) -> int:
        """Wei won or lost, gas aside."""
        return self.got - self.paid - self.bond


@dataclass
class Flow:
    """All changes in order, and the sum of each party."""

    entries: list[Entry] = field(default_factory=list)
    accounts: list[Account] = field(default_factory=list)

    @property
    def paid(self) -> int:
        return sum(account.paid + account.bond for account in self.accounts)

    @property
    def got(self) -> int:
        return sum(account.got for account in self.accounts)

    @property
    def between(self) -> int:
        return self.paid - self.got


def flow(look: Look, job: JobView, parties: Parties) -> Flow:
    """Return the money of a job up to the look's block. Raises RpcUnavailable or RpcCorrupt."""
    events = list(look.snapshot.job_events(job.id))
    for match_id in look.matches(job):
        events += look.snapshot.events(match_id)
        hearing = look.snapshot.hearing(job, match_id)
        if hearing is not None:
            events += look.snapshot.hearing_events(hearing.id)
            for number in range(1, hearing.state.trials + 1):
                events += look.snapshot.trial_events(hearing.trial(number))
    ours = {event.tx_hash for event in events}
    accounts: dict[str, Account] = {}

    def account(address: str) -> Account:
        return accounts.setdefault(
            address.lower(), Account(address, "burned" if address == BURNED else parties.name(address))
        )

    for party in parties:
        account(party.address)
    found = Flow()
    told: dict[bytes, list[tuple[str, str, int]]] = {}
    names: dict[bytes, list[str]] = {}
    for _, event in look.index.events_in(look.client, [event.block for event in events]):
        if event.tx_hash not in ours:
            continue
        names.setdefault(event.tx_hash, []).append(event.name)
        if event.name == "Credited":
            told.setdefault(event.tx_hash, []).append(
                ("got", str(event.args["account"]), int(event.args["amount"]))
            )
        elif event.name == "Slashed":
            told.setdefault(event.tx_hash, []).append(
                ("bond", str(event.args["verifier"]), int(event.args["bond"]))
            )
    order = sorted({(event.block, event.index): event.tx_hash for event in events}.items())
    for tx_hash in dict.fromkeys(tx for _, tx in order):
        sent = look.sent(tx_hash)
        why = ", ".join(dict.fromkeys(WORDS[name] for name in names[tx_hash] if name in WORDS))
        payer = account(sent.sender)
        payer.fee += sent.fee
        at = (sent.block, sent.instant, tx_hash)
        if sent.value:
            payer.paid += sent.value
            found.entries.append(Entry(*at, payer.name, why, sent.value, 0))
        for kind, who, amount in told.get(tx_hash, []):
            whose = account(who)
            if kind == "got" and amount:
                whose.got += amount
                found.entries.append(Entry(*at, whose.name, why, 0, amount))
            elif kind == "bond":
                whose.bond += amount
                found.entries.append(Entry(*at, whose.name, "loses its bond", amount, 0))
    found.accounts = list(accounts.values())
    return found
