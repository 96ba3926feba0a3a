"""Facts about jobs that all parties share: phases, rules, prices, commitments (docs/protocol.md, section 6)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from .commit import Tag, digest
from .params import FLAT

EMPTY_COMMITMENT = bytes(32)


class JobPhase(IntEnum):
    """The phase of a job. NONE means that there is no job."""

    NONE = 0
    TRAINING = 1
    REVEAL = 2
    CHALLENGE = 3
    CLOSING = 4
    ACCEPTED = 5
    UNCLAIMED = 6
    VOID = 7

    @property
    def ended(self) -> bool:
        return self >= JobPhase.ACCEPTED


@dataclass(frozen=True, slots=True)
class Rules:
    """Rules for judging the operators of a job's matches. Periods and the clock are seconds; the clock is each side's.

    The job's verifiers judge first; the Court hears appeals. Without verifiers or a verdict the Court alone judges."""

    threshold: int
    """Number of votes that make a verdict. Zero if the job names no verifiers."""
    verdict_period: int
    appeal_period: int
    clock: int

    @property
    def has_verifiers(self) -> bool:
        """True if the job names verifiers, which judge before the Court."""
        return self.threshold > 0


def fee_at(base_fee: int, low: int, high: int) -> int:
    """Return the job's gas price, in wei for a unit of gas: twice the block's base fee, within the job's bounds."""
    return max(low, min(2 * base_fee, high))


def claim_price(stake: int, founded: int, followers: int | None) -> int:
    """Return the stake of a challenger's claim, in wei (docs/protocol.md, section 6). ``stake``: that of a slot now;
    ``founded``: number of roots that challengers were the first to claim; ``followers``: number of challengers that
    have claimed this root after it was founded, None if nobody has claimed it."""
    # SAFETY: claims of other roots make this one no dearer: their stakes come back if theirs is accepted.
    return stake * (FLAT + founded) // FLAT if followers is None else stake << (followers + 1)


def refutation_price(stake: int, count: int) -> int:
    """Return the stake of a refutation, in wei. ``stake``: that of a slot now; ``count``: its refutations so far."""
    return stake << count


def commitment(
    chain_id: int, jobs: str, job_id: int, sender: str, root: bytes, last: bytes, logs: bytes, salt: bytes
) -> bytes:
    """Return the hash of a commitment to a claim. It binds chain, contract, job and sender, so nobody can copy it."""
    where = (chain_id.to_bytes(32, "big"), _address(jobs), job_id.to_bytes(32, "big"), _address(sender))
    return digest(Tag.COMMITMENT, *where, root, last, logs, salt)


def _address(address: str) -> bytes:
    return bytes.fromhex(address.removeprefix("0x"))
