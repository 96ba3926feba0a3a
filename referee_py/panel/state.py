"""A hearing and its moves, as values (contracts/interfaces/IPanel.sol; docs/adjudication.md, section 6).

```
verifiers       Voting ── threshold ──> Ruled ── nobody appeals: proceed ──> Done
                  └── escalate ──> Trial <── appeal ──┘
                                     └──> Done, or ── verdict overruled ──> Defence <── stand ──> Stand ──> Done
no verifiers    Trial ──> Done                              └── proceed ──> Done
```
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from enum import IntEnum
from typing import ClassVar

from eth_abi.abi import encode
from eth_utils.crypto import keccak

from ..commit import HASH_BYTES, Record
from ..trial import Dispute, TrialTerms, dispute_hash, dispute_wire
from ..trial.calldata import record_wire

ZERO = bytes(HASH_BYTES)
NO_ADDRESS = "0x" + "00" * 20
NOBODY = 0

_SUBMISSION = "(uint256,address,uint256,uint64,uint32,address[2],bytes32[2],bytes32)"


@dataclass(frozen=True, slots=True)
class Rules:
    """How the operators of a job's matches are judged: by a verdict of the job's verifiers, from which the Court hears
    appeals, and by the Court alone where they reach none or the job names none. Periods and the clock are seconds.
    """

    threshold: int
    """How many of the verifiers make a verdict. Zero if the job names none."""
    verdict_period: int
    appeal_period: int
    clock: int

    @property
    def has_verifiers(self) -> bool:
        """Whether verifiers come before the Court."""
        return self.threshold > 0


class HearingPhase(IntEnum):
    """Where a hearing stands. The zero phase is no hearing."""

    NONE = 0
    VOTING = 1
    RULED = 2
    TRIAL = 3
    DEFENCE = 4
    STAND = 5
    DONE = 6


@dataclass(frozen=True, slots=True)
class Submission:
    """The operator that a match has come down to."""

    match_id: int
    jobs: str
    job_id: int
    step: int
    node: int
    players: tuple[str, str]
    """The spokesmen."""
    records: tuple[bytes, bytes]
    """The hashes of their records."""
    dispute: bytes
    """`dispute_hash` of the dispute."""

    def hash(self) -> bytes:
        """`file` of the contract's hearing."""
        return keccak(encode([_SUBMISSION], [self.wire()]))

    def wire(self) -> tuple[object, ...]:
        """As the ABI coder takes it."""
        return tuple(list(v) if isinstance(v, tuple) else v for v in _values(self))

    def unlike(self, record: bytes) -> int:
        """The sides that have another record than this one, as a bit mask: whom a verdict calls wrong."""
        return sum(1 << side for side in (0, 1) if self.records[side] != record)


@dataclass(frozen=True, slots=True)
class HearingTerms:
    """What does not change during a hearing."""

    hearing_id: int
    """See `hearing_id`."""
    submission: Submission
    dispute: Dispute
    rules: Rules
    stake: int
    """What an appeal costs now: what a slot of the job takes."""
    verifiers: tuple[str, ...]
    """The job's."""
    chain_id: int
    panel: str
    """The contract's address."""


@dataclass(frozen=True, slots=True)
class HearingState:
    """The state of a hearing: `Hearing` of the contract without what the terms have, and its votes."""

    phase: HearingPhase
    until: int = 0
    """Voting, Ruled, Defence: the first instant at which it is over."""
    trials: int = 0
    """How many there have been. In Trial and Stand the last one runs."""
    side: int = 0
    """Defence, Stand: the accuser, whom the verdict called wrong and the court did not."""
    losers: int = NOBODY
    """Trial: the sides that the verdict calls wrong, as bits; zero without an appeal."""
    verdict: bytes = ZERO
    """The record that the verdict calls right; zero without a verdict."""
    players: tuple[str, str] = (NO_ADDRESS, NO_ADDRESS)
    """Once appealed: the spokesmen."""
    bond: int = 0
    """Of an appeal, until the hearing is over."""
    appeal_period: int = 0
    appellant: int = 0
    """Once appealed: the side that has."""
    defendant: str = NO_ADDRESS
    """Stand: the signer who stands by the verdict."""
    votes: tuple[tuple[str, bytes], ...] = ()
    """Verifier and record, without those that have lost their bonds for it; of each record in the contract's order."""
    voters: tuple[str, ...] = ()
    """All who have voted, in order: their bonds are held until the hearing is done."""

    @property
    def in_trial(self) -> bool:
        """Whether the Court is to decide next."""
        return self.phase in (HearingPhase.TRIAL, HearingPhase.STAND)

    def signers(self, record: bytes) -> tuple[str, ...]:
        """Who has voted for that record (`votes` of the contract)."""
        return tuple(verifier for verifier, voted in self.votes if voted == record)


def trial_players(state: HearingState, terms: HearingTerms) -> tuple[str, str]:
    """The players of the running trial: the spokesmen; in Stand the accuser, and the defendant in the other's place."""
    players = terms.submission.players
    if state.phase is not HearingPhase.STAND:
        return players
    accuser, defendant = players[state.side], state.defendant
    return (accuser, defendant) if state.side == 0 else (defendant, accuser)


# --- moves: one class for each function of the contract, with its arguments in its order ------------------------


@dataclass(frozen=True, slots=True)
class Move:
    """A call of the panel. ``function`` is the contract's name for it; the first argument is the hearing."""

    function: ClassVar[str] = ""
    submission: Submission

    def arguments(self, hearing_id: int) -> list[object]:
        """As the ABI coder takes them."""
        return [hearing_id, *map(_wire, _values(self))]


@dataclass(frozen=True, slots=True)
class Attest(Move):
    """Voting: one verifier's signed verdict, whoever brings it; the hash of the right record."""

    function: ClassVar[str] = "attest"
    record: bytes
    signature: bytes


@dataclass(frozen=True, slots=True)
class Appeal(Move):
    """Ruled: a spokesman whom the verdict calls wrong has the operator tried; the value covers the terms' stake."""

    function: ClassVar[str] = "appeal"
    dispute: Dispute


@dataclass(frozen=True, slots=True)
class Escalate(Move):
    """Voting, once the period is over: the operator is tried in place of a verdict."""

    function: ClassVar[str] = "escalate"
    dispute: Dispute


@dataclass(frozen=True, slots=True)
class Proceed(Move):
    """Ruled, Defence, once the period is over: what follows from silence."""

    function: ClassVar[str] = "proceed"


@dataclass(frozen=True, slots=True)
class Stand(Move):
    """Defence: a signer stands by the verdict, whose record it shows, in a trial against the accuser."""

    function: ClassVar[str] = "stand"
    dispute: Dispute
    record: Record


# --- ids, hashes and encodings ------------------------------------------------------------------------------------


def hearing_id(referee: str, match_id: int) -> int:
    """The id of a hearing, by who submitted it. Its last byte is zero."""
    return int.from_bytes(keccak(encode(["address", "uint256"], [referee, match_id])), "big") & ~0xFF


def trial_terms_of(
    terms: HearingTerms, number: int, players: tuple[str, str], dispute: Dispute
) -> TrialTerms:
    """A hearing's ``number``-th trial, counted from 1, as the Court knows it."""
    return TrialTerms(terms.panel, terms.hearing_id | number, players, dispute_hash(dispute))


def defended(dispute: Dispute, accuser: int, record: Record) -> Dispute:
    """What is disputed in the trial of a signer: the accuser's record, and the one that the verdict calls right."""
    own = dispute.records[accuser]
    return replace(dispute, records=(own, record) if accuser == 0 else (record, own))


def _values(thing: Submission | Move) -> list[object]:
    return [getattr(thing, part.name) for part in fields(thing)]


def _wire(value: object) -> object:
    match value:
        case Submission():
            return value.wire()
        case Dispute():
            return dispute_wire(value)
        case Record():
            return record_wire(value)
    return value
