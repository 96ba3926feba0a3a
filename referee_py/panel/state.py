"""A hearing and its moves, as values (contracts/interfaces/IPanel.sol; docs/adjudication.md, section 6).

```
verifiers       Voting ── threshold ──> Ruled ── nobody appeals: proceed ──> Done
                  └── escalate ──> Trial <── appeal ──┘
                                     └──> Done, or ── verdict overruled ──> Defence <── stand ──> Stand ──> Done
no verifiers    Trial ──> Done                              └── proceed ──> Done
```
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import ClassVar

from ..commit import Record
from ..commit.structs import hash_of
from ..jobs import Rules
from ..walk.dispute import ZERO, Dispute, TrialTerms, dispute_hash
from ..walk.sides import NOBODY

NO_ADDRESS = "0x" + "00" * 20

_SUBMISSION = "(uint256,address,uint256,uint64,uint32,address[2],bytes32[2],bytes32)"


class HearingPhase(IntEnum):
    """The phase of a hearing (docs/adjudication.md, section 6). NONE means that there is no hearing."""

    NONE = 0
    VOTING = 1
    RULED = 2
    TRIAL = 3
    DEFENCE = 4
    STAND = 5
    DONE = 6


@dataclass(frozen=True, slots=True)
class Submission:
    """The operator that a referee submits to the panel."""

    match_id: int
    jobs: str
    job_id: int
    step: int
    node: int
    players: tuple[str, str]
    """The spokesmen, by side."""
    records: tuple[bytes, bytes]
    """The hashes of their records."""
    dispute: bytes
    """`dispute_hash` of the dispute."""

    def hash(self) -> bytes:
        """Return the hash that the contract keeps as `file` of the hearing."""
        return hash_of([_SUBMISSION], self)

    def unlike(self, record: bytes) -> int:
        """Return the sides whose record is not this one, as a bit mask: those that a verdict for it calls wrong."""
        return sum(1 << side for side in (0, 1) if self.records[side] != record)


@dataclass(frozen=True, slots=True)
class HearingTerms:
    """The facts of a hearing that do not change, and the price of an appeal."""

    hearing_id: int
    """Id as the function `hearing_id` returns it."""
    submission: Submission
    dispute: Dispute
    rules: Rules
    stake: int
    """Bond of an appeal at present, in wei: the stake that a slot of the job takes."""
    verifiers: tuple[str, ...]
    """The job's verifiers."""
    chain_id: int
    panel: str
    """Address of the Panel contract."""


@dataclass(frozen=True, slots=True)
class HearingState:
    """The state of a hearing: the contract's `Hearing` without the fields of `HearingTerms`, and the votes."""

    phase: HearingPhase
    until: int = 0
    """Voting, Ruled, Defence: the instant, in seconds, at which the period is over."""
    trials: int = 0
    """Number of trials so far. In Trial and Stand the last one runs."""
    side: int = 0
    """Defence, Stand: the accuser, a side that the verdict called wrong and that did not lose the trial."""
    losers: int = NOBODY
    """Trial: the sides that the verdict calls wrong, as bits; zero without an appeal."""
    verdict: bytes = ZERO
    """The record that the verdict calls right; zero without a verdict."""
    players: tuple[str, str] = (NO_ADDRESS, NO_ADDRESS)
    """Once appealed: the spokesmen."""
    bond: int = 0
    """Bond of the appeal, in wei, until the hearing is over."""
    appeal_period: int = 0
    appellant: int = 0
    """Once appealed: the appellant's side."""
    defendant: str = NO_ADDRESS
    """Stand: the signer that stands by the verdict."""
    votes: tuple[tuple[str, bytes], ...] = ()
    """Verifier and record of each vote, without signers that lost their bonds for it; per record in contract order."""
    voters: tuple[str, ...] = ()
    """All verifiers that have voted, in order. Their bonds are held until the hearing is done."""

    @property
    def in_trial(self) -> bool:
        """True if a trial runs, so that the Court decides next."""
        return self.phase in (HearingPhase.TRIAL, HearingPhase.STAND)

    def signers(self, record: bytes) -> tuple[str, ...]:
        """Return the verifiers with a vote for that record (`votes` of the contract)."""
        return tuple(verifier for verifier, voted in self.votes if voted == record)


def trial_players(state: HearingState, terms: HearingTerms) -> tuple[str, str]:
    """Return the players of the running trial: the spokesmen; in Stand the accuser, and opposite it the defendant."""
    players = terms.submission.players
    if state.phase is not HearingPhase.STAND:
        return players
    accuser, defendant = players[state.side], state.defendant
    return (accuser, defendant) if state.side == 0 else (defendant, accuser)


# --- moves: one class for each function of the contract, with its arguments in its order ------------------------


@dataclass(frozen=True, slots=True)
class Move:
    """A call of the panel. ``function`` is the contract's function, whose first argument is the hearing's id."""

    function: ClassVar[str] = ""
    submission: Submission


@dataclass(frozen=True, slots=True)
class Attest(Move):
    """Voting: one verifier's signed verdict, sent by anybody. ``record`` is the hash of the record it calls right."""

    function: ClassVar[str] = "attest"
    record: bytes
    signature: bytes


@dataclass(frozen=True, slots=True)
class Appeal(Move):
    """Ruled: a spokesman whose record the verdict calls wrong opens a trial; the value covers the terms' stake."""

    function: ClassVar[str] = "appeal"
    dispute: Dispute


@dataclass(frozen=True, slots=True)
class Escalate(Move):
    """Voting, once the period is over without a verdict: a trial of the spokesmen opens."""

    function: ClassVar[str] = "escalate"
    dispute: Dispute


@dataclass(frozen=True, slots=True)
class Proceed(Move):
    """Ruled, Defence, once the period is over: the verdict stands, or the remaining signers lose their bonds."""

    function: ClassVar[str] = "proceed"


@dataclass(frozen=True, slots=True)
class Stand(Move):
    """Defence: a signer shows the verdict's record and defends it in a trial against the accuser."""

    function: ClassVar[str] = "stand"
    dispute: Dispute
    record: Record


MOVES = Attest, Appeal, Escalate, Proceed, Stand


# --- ids and hashes ------------------------------------------------------------------------------------


def hearing_id(referee: str, match_id: int) -> int:
    """Return the id of a hearing (docs/adjudication.md, section 6). Its last byte is zero."""
    return int.from_bytes(hash_of(["address", "uint256"], referee, match_id), "big") & ~0xFF


def trial_terms_of(
    terms: HearingTerms, number: int, players: tuple[str, str], dispute: Dispute
) -> TrialTerms:
    """Return the trial terms, for the Court, of a hearing's trial ``number``, counted from 1."""
    return TrialTerms(terms.panel, terms.hearing_id | number, players, dispute_hash(dispute))


def defended(dispute: Dispute, accuser: int, record: Record) -> Dispute:
    """Return the dispute of a signer's trial: the accuser's record, and the one that the verdict calls right."""
    own = dispute.records[accuser]
    return replace(dispute, records=(own, record) if accuser == 0 else (record, own))
