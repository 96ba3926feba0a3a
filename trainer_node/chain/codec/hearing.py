"""Hearings (the contract Panel): moves to calldata and back, and a hearing's state from `getHearing` and its events.

SAFETY: the contract keeps only a hash of the submission; the event is checked against it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from referee_py.commit import Record
from referee_py.panel.state import (
    MOVES,
    HearingPhase,
    HearingState,
    HearingTerms,
    Move,
    Submission,
    defended,
    trial_terms_of,
)
from referee_py.walk.dispute import ZERO, Dispute, TrialTerms, dispute_hash

from ...errors import RpcCorrupt
from ..events import Event
from ..outbox import Value
from .base import Calls, Fold, Made, View
from .job import JobView

_MOVES = Calls[Move]("Panel", {"hearingId": int}, *MOVES)
_HEARING = View(HearingState, "Panel", "getHearing", beside="votes voters")


def hearing_call(move: Move, hearing_id: int) -> Made:
    """Return the panel's function for a move in a hearing, and its arguments."""
    return _MOVES.encode(move, hearingId=hearing_id)


def hearing_move(function: str, arguments: Sequence[Any]) -> Move:
    """Return the move of a decoded call. Raises InvalidEncoding, or TypeError if the function is not a move."""
    found = _MOVES.decode(function, arguments)
    if found is None:
        raise TypeError(f"{function} is not a move of a hearing")
    return found[0]


@dataclass(frozen=True, slots=True)
class HearingInfo:
    """A hearing at one block: the rules' state and terms."""

    state: HearingState
    terms: HearingTerms
    trial_terms: dict[int, tuple[TrialTerms, Dispute]]
    """Terms and dispute of each trial, in order, by the Court's ids."""
    bond: Value
    """Value to send with an appeal."""
    hidden: str | None = None
    """Why the votes for the verdict are unknown: the endpoint lacks events. None if they are known."""

    @property
    def id(self) -> int:
        return self.terms.hearing_id

    @property
    def match_id(self) -> int:
        return self.terms.submission.match_id

    def trial(self, number: int) -> int:
        """Return the Court's id of a trial, by its number from 1 to `state.trials`."""
        return list(self.trial_terms)[number - 1]

    @property
    def over(self) -> bool:
        return self.state.phase is HearingPhase.DONE

    def player(self, address: str) -> bool:
        """Return whether the address is one of the spokesmen."""
        return address in self.terms.submission.players

    def signed(self, address: str) -> bool:
        """Return whether that verifier has voted for the verdict, and has not lost its bond for it."""
        return address in self.state.signers(self.state.verdict)

    def signed_for(self, address: str) -> bytes | None:
        """Return the hash of the record that this verifier has voted for; None if there is no such vote, or none that
        still holds its bond."""
        return next((record for verifier, record in self.state.votes if verifier == address), None)

    def voted(self, address: str) -> bool:
        """Return whether that verifier has voted."""
        return address in self.state.voters


@dataclass
class _Told(Fold, contract="Panel"):
    """Facts of a hearing that only its events have."""

    submitted: tuple[Submission, Dispute] | None = None
    voters: list[str] = field(default_factory=list)
    """All that have voted."""
    votes: list[tuple[str, bytes]] = field(default_factory=list)
    """Verifier and record of each vote that stands, for each record in the contract's order."""
    record: Record | None = None
    """The verdict's record, once a signer stands by it."""
    tried: list[tuple[int, tuple[str, str], Record | None]] = field(default_factory=list)
    """Id and players of each trial, and the record that a signer defends in it."""

    def on_submitted(self, submission: Submission, dispute: Dispute) -> None:
        self.submitted = self.submitted or (submission, dispute)

    def on_attested(self, verifier: str, record: bytes) -> None:
        self.voters.append(verifier)
        self.votes.append((verifier, record))

    def on_slashed(self, verifier: str) -> None:
        # As in the contract, the last vote for the same record takes the place of the removed vote.
        place = next((k for k, (voter, _) in enumerate(self.votes) if voter == verifier), None)
        if place is None:
            raise RpcCorrupt(f"an event says that {verifier} is slashed, but it has no vote that stands")
        last = max(k for k, (_, record) in enumerate(self.votes) if record == self.votes[place][1])
        self.votes[place] = self.votes[last]
        del self.votes[last]

    def on_stood(self, record: Record) -> None:
        self.record = record

    def on_tried(self, trial_id: int, players: tuple[str, str]) -> None:
        self.tried.append((trial_id, players, self.record))


def hearing_view(
    hearing_id: int,
    raw: Any,
    signers: Sequence[str],
    events: Sequence[Event],
    job: JobView,
    chain_id: int,
    panel: str,
) -> HearingInfo:
    """Return a HearingInfo from `getHearing`, the verdict's ``signers`` in `votes`, and the hearing's events. Raises
    RpcCorrupt."""
    told = _Told.of(events)
    if told.submitted is None:
        raise RpcCorrupt(f"the endpoint has no event of hearing {hearing_id}; use one with complete logs")
    submission, dispute = told.submitted
    # NOTE: without verifiers only the id of the hearing's trial binds the submission.
    kept = submission.hash() if job.rules.has_verifiers else ZERO
    if kept != raw.file or dispute_hash(dispute) != submission.dispute:
        raise RpcCorrupt(f"the event of hearing {hearing_id} is of another submission")
    if max(raw.side, raw.appellant) > 1 or raw.losers > 3:
        sides = f"side {raw.side}, appellant {raw.appellant}, losers {raw.losers}"
        raise RpcCorrupt(f"hearing {hearing_id}: {sides} cannot be")
    votes = {"votes": tuple(told.votes), "voters": tuple(told.voters)}
    state = _HEARING.read(f"hearing {hearing_id}", raw, **votes)
    terms = hearing_terms(hearing_id, submission, dispute, job, chain_id, panel)
    trial_terms = _trial_terms(terms, told)
    lacks = f"the endpoint has not all events of hearing {hearing_id}; use one with complete logs"
    if len(trial_terms) != state.trials:
        raise RpcCorrupt(lacks)
    # NOTE: without a verdict these are the votes for the record zero.
    whole = state.phase is HearingPhase.DONE or set(signers) == set(state.signers(state.verdict))
    return HearingInfo(state, terms, trial_terms, job.stake_sent, None if whole else lacks)


def hearing_terms(
    hearing_id: int, submission: Submission, dispute: Dispute, job: JobView, chain_id: int, panel: str
) -> HearingTerms:
    """Return the terms of a hearing in a job; an appeal costs what a stake of the job is worth at the job's block."""
    of_job = job.rules, job.stake_now, job.verifiers
    return HearingTerms(hearing_id, submission, dispute, *of_job, chain_id, panel)


def _trial_terms(terms: HearingTerms, told: _Told) -> dict[int, tuple[TrialTerms, Dispute]]:
    """Return the trials that a hearing has had. Raises RpcCorrupt."""
    trial_terms = dict[int, tuple[TrialTerms, Dispute]]()
    for number, players, record in told.tried:
        disputes = [terms.dispute]
        if record is not None:
            disputes = [defended(terms.dispute, accuser, record) for accuser in (0, 1)]
        about = [
            (trial_terms_of(terms, len(trial_terms) + 1, players, dispute), dispute) for dispute in disputes
        ]
        found = next((pair for pair in about if pair[0].trial() == number), None)
        if found is None:
            raise RpcCorrupt(f"trial {number} does not match the hearing's events")
        trial_terms[number] = found
    return trial_terms
