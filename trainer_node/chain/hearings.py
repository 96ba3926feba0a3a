"""Hearings and their trials as typed values, built from contract views and events.

SAFETY: contracts keep only hashes of the data that moves show again; data from events is checked against them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from referee_py.commit import Record
from referee_py.element import NO_ENTRY, Entry
from referee_py.panel.state import HearingPhase, HearingState, HearingTerms, defended, trial_terms_of
from referee_py.rounding.entries import WRITTEN
from referee_py.trial import Stage, TrialState, places
from referee_py.trial.calldata import position_hash as trial_position_hash
from referee_py.trial.rules import split
from referee_py.walk.dispute import ZERO, Dispute, TrialTerms, dispute_hash

from ..errors import RpcCorrupt
from .events import Event
from .outbox import Value
from .views import JobView, known
from .wire import dispute_of, hashes, record_of, submission_of

MAX_HEIGHT = 64
"""Limit of the height of a data tree: elements are counted in 64 bits."""
NO_TRIAL = TrialState(("", ""), Stage.NONE, 0, (0, 0), 0)


@dataclass(frozen=True, slots=True)
class HearingInfo:
    """A hearing at one block: the rules' state and terms."""

    state: HearingState
    terms: HearingTerms
    trial_terms: dict[int, tuple[TrialTerms, Dispute]]
    """Terms and dispute of each trial, in order, by the Court's ids."""
    bond: Value
    """Value to send with an appeal."""

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

    def voted(self, address: str) -> bool:
        """Return whether that verifier has voted."""
        return address in self.state.voters


@dataclass(frozen=True, slots=True)
class TrialInfo:
    """A trial at one block. ``children`` and ``leaves`` are those that each side has shown at the position."""

    id: int
    trial_terms: TrialTerms
    dispute: Dispute
    state: TrialState
    children: tuple[tuple[bytes, ...] | None, tuple[bytes, ...] | None]
    leaves: tuple[bytes | None, bytes | None]


def hearing_view(
    hearing_id: int, raw: Any, events: Sequence[Event], job: JobView, chain_id: int, panel: str
) -> HearingInfo:
    """Return a HearingInfo from `getHearing` and the hearing's events. Raises RpcCorrupt."""
    told = next((event.args for event in events if event.name == "Submitted"), None)
    if told is None:
        raise RpcCorrupt(f"the endpoint has no event of hearing {hearing_id}; use one with complete logs")
    submission, dispute = submission_of(told["submission"]), dispute_of(told["dispute"])
    # NOTE: without verifiers only the id of the hearing's trial binds the submission.
    kept = submission.hash() if job.rules.has_verifiers else ZERO
    if kept != raw.file or dispute_hash(dispute) != submission.dispute:
        raise RpcCorrupt(f"the event of hearing {hearing_id} is of another submission")
    if max(raw.side, raw.appellant) > 1 or raw.losers > 3:
        sides = f"side {raw.side}, appellant {raw.appellant}, losers {raw.losers}"
        raise RpcCorrupt(f"hearing {hearing_id}: {sides} cannot be")
    voters, votes = _votes(events)
    state = HearingState(
        phase=known(HearingPhase, raw.phase, f"hearing {hearing_id}"),
        until=raw.until,
        trials=raw.trials,
        side=raw.side,
        losers=raw.losers,
        verdict=raw.verdict,
        players=(raw.players[0], raw.players[1]),
        bond=raw.bond,
        appeal_period=raw.appealPeriod,
        appellant=raw.appellant,
        defendant=raw.defendant,
        votes=votes,
        voters=voters,
    )
    terms = HearingTerms(
        hearing_id=hearing_id,
        submission=submission,
        dispute=dispute,
        rules=job.rules,
        stake=job.stake_now,
        verifiers=job.verifiers,
        chain_id=chain_id,
        panel=panel,
    )
    trial_terms = _trial_terms(terms, events)
    if len(trial_terms) != state.trials:
        raise RpcCorrupt(
            f"the endpoint has not all events of hearing {hearing_id}; use one with complete logs"
        )
    return HearingInfo(state, terms, trial_terms, job.stake_sent)


def _trial_terms(terms: HearingTerms, events: Sequence[Event]) -> dict[int, tuple[TrialTerms, Dispute]]:
    """Return the trials that a hearing has had. Raises RpcCorrupt."""
    trial_terms = dict[int, tuple[TrialTerms, Dispute]]()
    record: Record | None = None
    for event in events:
        if event.name == "Stood":
            record = record_of(event.args["record"])
        if event.name == "Tried":
            players = event.args["players"][0], event.args["players"][1]
            number, disputes = event.args["trialId"], [terms.dispute]
            if record is not None:
                disputes = [defended(terms.dispute, accuser, record) for accuser in (0, 1)]
            about = [
                (trial_terms_of(terms, len(trial_terms) + 1, players, dispute), dispute)
                for dispute in disputes
            ]
            found = next((pair for pair in about if pair[0].trial() == number), None)
            if found is None:
                raise RpcCorrupt(f"trial {number} does not match the hearing's events")
            trial_terms[number] = found
    return trial_terms


def _votes(events: Sequence[Event]) -> tuple[tuple[str, ...], tuple[tuple[str, bytes], ...]]:
    """Return all voters, and the votes that stand, for each record in the contract's order."""
    voters, votes = list[str](), list[tuple[str, bytes]]()
    for event in events:
        if event.name == "Attested":
            voters.append(event.args["verifier"])
            votes.append((event.args["verifier"], event.args["record"]))
        if event.name == "Slashed":
            # As in the contract, the last vote for the same record takes the place of the removed vote.
            slashed = event.args["verifier"]
            place = next((k for k, (voter, _) in enumerate(votes) if voter == slashed), None)
            if place is None:
                raise RpcCorrupt(f"an event says that {slashed} is slashed, but it has no vote that stands")
            last = max(k for k, (_, record) in enumerate(votes) if record == votes[place][1])
            votes[place] = votes[last]
            del votes[last]
    return tuple(voters), tuple(votes)


def trial_view(trial_terms: TrialTerms, dispute: Dispute, raw: Any, events: Sequence[Event]) -> TrialInfo:
    """Return a TrialInfo from `getTrial` and the trial's events. Raises RpcCorrupt."""
    number, told = trial_terms.trial(), _Told.of(events)
    if raw.losers > 3 or raw.posted > 3 or raw.height > MAX_HEIGHT or raw.kind > WRITTEN:
        position = f"height {raw.height}, posted {raw.posted}, losers {raw.losers}, kind of entry {raw.kind}"
        raise RpcCorrupt(f"trial {number}: {position} cannot be")
    stage = known(Stage, raw.stage, f"trial {number}")
    if Stage.POST <= stage <= Stage.STEP and not (raw.lo < raw.hi <= raw.steps and raw.stateBytes):
        steps = f"steps {raw.lo} to {raw.hi} of {raw.steps}, of {raw.stateBytes} bytes each"
        raise RpcCorrupt(f"trial {number}: {steps}, cannot be open in stage {stage.name}")
    state = TrialState(
        players=trial_terms.players,
        stage=stage,
        tick=raw.tick,
        clock=(raw.clock0, raw.clock1),
        output=raw.output,
        posted=raw.posted,
        height=raw.height,
        index=raw.index,
        nodes=told.nodes,
        element=raw.element,
        values=told.values,
        entry=Entry(raw.kind, raw.written) if raw.steps else NO_ENTRY,
        lo=raw.lo,
        hi=raw.hi,
        steps=raw.steps,
        state_bytes=raw.stateBytes,
        agreed=told.agreed,
        states=told.states,
        offer=told.offer,
        losers=raw.losers,
    )
    # NOTE: the contract does not keep the position of a trial that is done.
    if state.stage is not Stage.DONE and trial_position_hash(state) != raw.position:
        raise RpcCorrupt(
            f"the endpoint has not all events of trial {trial_terms.trial()}; use one with complete logs"
        )
    children, leaves = told.children, told.leaves
    return TrialInfo(
        trial_terms.trial(), trial_terms, dispute, state, (children[0], children[1]), (leaves[0], leaves[1])
    )


@dataclass
class _Told:
    """State of a trial that only its events have."""

    children: list[tuple[bytes, ...] | None]
    leaves: list[bytes | None]
    nodes: tuple[bytes, bytes] = (ZERO, ZERO)
    values: tuple[int, int] = (0, 0)
    agreed: bytes = b""
    states: tuple[bytes, bytes] = (b"", b"")
    offer: bytes = b""
    open: TrialState = NO_TRIAL
    """Holds the open interval of steps and the size of a state; its other fields are not used."""

    @classmethod
    def of(cls, events: Sequence[Event]) -> _Told:
        told = cls([None, None], [None, None])
        for event in events:
            told._take(event)
        return told

    def _take(self, event: Event) -> None:
        args = event.args
        match event.name:
            case "OutputShown":
                root = bytes(args["root"])
                self.nodes = (root, self.nodes[1]) if args["side"] == 0 else (self.nodes[0], root)
            case "NodesRevealed":
                self.children[args["side"]] = hashes(args["children"])
            case "NodesDescended":
                self.nodes = bytes(args["node0"]), bytes(args["node1"])
                self.children = [None, None]
            case "LeafShown":
                self.leaves[args["side"]] = bytes(args["leaf"])
            case "ElementFound":
                self.nodes, self.agreed = (ZERO, ZERO), bytes(args["first"])
                self.values = args["values"][0], args["values"][1]
                self.open = replace(self.open, hi=args["steps"], state_bytes=len(self.agreed))
            case "StatesPosted":
                self.offer = bytes(args["states"])
            case "StateAnswered":
                self._answered(args["lo"], args["hi"], bytes(args["own"]))

    def _answered(self, lo: int, hi: int, own: bytes) -> None:
        if not self.open.lo < self.open.hi or not self.open.state_bytes:
            raise RpcCorrupt(f"an event answers for steps {lo} to {hi}, but no event before it has states")
        starts = [self.open.lo, *places(self.open)[:-1]]
        place, offered = starts.index(lo), split(self.open, self.offer)
        if place:
            self.agreed = offered[place - 1]
        if own:
            self.states = offered[place], own
        self.offer = b""
        self.open = replace(self.open, lo=lo, hi=hi)
