"""The balances at the end, and whether they are just."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from hexbytes import HexBytes
from rich.table import Table
from web3 import Web3
from web3.types import TxData

from referee_py.walk.reason import Reason
from referee_py.walk.sides import sides
from trainer_node.chain import ChainClient, JobPhase, recorded, transactions_of
from trainer_node.chain.fees import ETHER
from trainer_node.chain.retrace import retrace
from trainer_node.client.dispute_words import CASES
from trainer_node.ids import short

from .roles import SAMPLE, SAMPLERS, Role, expected


@dataclass(frozen=True, slots=True)
class Account:
    """An account between two blocks. Wei, as in `wealth`; ``gas`` is its cost of transactions."""

    before: int
    after: int
    gas: int

    @property
    def profit(self) -> int:
        """Wei won or lost, gas aside."""
        return self.after + self.gas - self.before


def wealth(client: ChainClient, addresses: Mapping[str, str]) -> dict[str, int]:
    """Return balance, credits and a verifier's bond of each account now."""
    snapshot = client.snapshot()
    number = snapshot.block.number
    return {
        name: client.web3.eth.get_balance(Web3.to_checksum_address(address), number)
        + sum(wei for _, wei in snapshot.credits(address))
        + snapshot.registered(address).bond
        for name, address in addresses.items()
    }


def gas_paid(client: ChainClient, addresses: Mapping[str, str], first: int) -> dict[str, int]:
    """Return the wei that each account paid for its transactions from block ``first`` on."""
    paid = dict.fromkeys(addresses, 0)
    names = {address.lower(): name for name, address in addresses.items()}
    for number in range(first, client.block().number + 1):
        block = client.web3.eth.get_block(number, full_transactions=True)
        for transaction in cast(Sequence[TxData], block["transactions"]):
            name = names.get(str(transaction["from"]).lower())
            if name is not None:
                receipt = client.web3.eth.get_transaction_receipt(transaction["hash"])
                paid[name] += receipt["gasUsed"] * receipt["effectiveGasPrice"]
    return paid


def check_outcome(
    client: ChainClient, addresses: Mapping[str, str], before: Mapping[str, int], first: int
) -> dict[str, Account]:
    """Return every account since block ``first``, when it had ``before``."""
    after, paid = wealth(client, addresses), gas_paid(client, addresses, first)
    return {name: Account(before[name], after[name], paid[name]) for name in addresses}


def table(accounts: Mapping[str, Account]) -> Table:
    """Return a table for people."""
    rows = Table(
        "", "before", "after", "paid for gas", "won or lost, gas aside", box=None, header_style="dim"
    )
    for name, account in accounts.items():
        style = "green" if account.profit > 0 else "red" if account.profit < 0 else ""
        amounts = (account.before, account.after, account.gas)
        rows.add_row(
            name, *(f"{wei / ETHER:.6f}" for wei in amounts), f"{account.profit / ETHER:+.6f}", style=style
        )
    return rows


@dataclass(frozen=True, slots=True)
class Dispute:
    """A match that is over: its reason, its place, and its cost to both sides and the verifiers together."""

    reason: Reason
    step: int
    operator: int | None
    transactions: int
    gas: int


def disputes(client: ChainClient, job_id: int) -> list[Dispute]:
    """Return the matches of a job, in order of opening."""
    snapshot = client.snapshot()
    job = snapshot.job(job_id)
    found = []
    for match_id in snapshot.matches_of(job_id):
        state = snapshot.match(job, match_id).state
        hashes = transactions_of(snapshot, job, match_id)
        receipts = [client.web3.eth.get_transaction_receipt(HexBytes(tx_hash)) for tx_hash in hashes]
        operator = state.index if state.in_step_tree(job.program) and state.height == 0 else None
        gas = sum(receipt["gasUsed"] for receipt in receipts)
        found.append(Dispute(state.reason, state.end, operator, len(receipts), gas))
    return found


def verdicts(
    client: ChainClient,
    job_id: int,
    parts: list[Role],
    addresses: Mapping[str, str],
    honest_root: bytes,
    accounts: Mapping[str, Account],
    false_verifiers: Sequence[str] = (),
    late: Sequence[str] = (),
) -> list[tuple[str, bool]]:
    """Return every statement that must be true now, and whether it is. ``late``: samplers that did not come to the end
    of what they drew."""
    snapshot = client.snapshot()
    job = snapshot.job(job_id)
    liars = [part for part in parts if not part.honest]
    # NOTE: samplers know what is wrong; whoever finds it computes what is right as well, where there is time for that.
    sampled = any(part.check != "all" for part in parts)
    if sampled and liars and job.phase is JobPhase.ACCEPTED and not snapshot.matches_of(job_id):
        if late:
            return [(f"{', '.join(late)} had the time to check what they drew", False)]
        missed = (1 - SAMPLE) ** SAMPLERS
        return [(f"nobody has drawn the wrong interval: this happens with a chance of {missed:.1%}", True)]
    unclaimed = sampled and job.phase is JobPhase.UNCLAIMED
    found = [
        ("the wrong root is not accepted, and the job has no result", True)
        if unclaimed
        else (
            f"the accepted root {short(job.accepted_root)} is the one that honest training gives",
            job.phase is JobPhase.ACCEPTED and job.accepted_root == honest_root,
        )
    ]
    for part in liars:
        claim = job.claim_of(addresses[part.name])
        found.append((f"the {part.name} has lost its stake", claim is not None and claim.lost))
    if liars:
        # NOTE: a liar may win prizes from other liars before it loses, so it may lose less than its stake, or nothing.
        lost = -sum(accounts[part.name].profit for part in liars)
        found.append(
            (
                "the liars together have lost more than half of their stakes"
                if len(liars) > 1
                else "it has lost more than half of its stake, prizes counted",
                2 * lost > len(liars) * job.stake,
            )
        )
    if false_verifiers:
        words = f"{' and '.join(false_verifiers)} have lost their bonds"
        found.append((words, all(snapshot.registered(addresses[name]).bond == 0 for name in false_verifiers)))
    others = {"client", *false_verifiers, *(part.name for part in liars)}
    honest = [name for name in accounts if name not in others]
    found.append(
        (
            f"{', '.join(honest)} end with at least what they had, gas aside",
            all(accounts[name].profit >= 0 for name in honest),
        )
    )
    if unclaimed:
        found.append(("the client has its reward back", accounts["client"].profit == 0))
    else:
        found.append(
            ("the client has paid the reward and nothing else", accounts["client"].profit == -job.reward)
        )
    matches = [snapshot.match(job, match_id) for match_id in snapshot.matches_of(job_id)]
    reasons = [match.state.reason for match in matches]
    may = expected(parts)
    wanted = "; ".join(": ".join(CASES[reason]) for reason in sorted(may)) or "nothing: there is no dispute"
    found.append((f"what decided is {wanted}", _decided(reasons, may, len(liars))))
    same = all(retrace(snapshot, job, match.id) == recorded(snapshot, job, match.id) for match in matches)
    found.append(("the rules in Python, given the same moves, decide the same", same))
    losers = {match.terms.players[side].lower() for match in matches for side in sides(match.state.losers)}
    found.append(("only liars have lost a match", len(losers) == len(liars)))
    return found


def _decided(reasons: list[Reason], may: set[Reason], liars: int) -> bool:
    return len(reasons) >= liars and set(reasons) <= may
