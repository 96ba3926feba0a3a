"""Hearings and their trials as typed values: what views return, and what only events tell.

SAFETY: contracts keep hashes of what every move shows again, and events tell what it is; it is checked against them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from eth_utils.crypto import keccak

from referee_py.element import NO_ENTRY, Entry, rule_of
from referee_py.panel.state import (
    HearingPhase,
    HearingState,
    HearingTerms,
    dispute_hash,
    trial_id,
)
from referee_py.rounding.entries import WRITTEN
from referee_py.trial import Dispute, Stage, Tensor, TrialState, places
from referee_py.trial.rules import case_of, split

from ..errors import RpcCorrupt
from .events import Event
from .views import Job, known
from .wire import dispute_of, hashes, submission_of

MAX_HEIGHT = 64
"""No data tree is higher: elements are counted in 64 bits."""
NO_TRIAL = TrialState(("", ""), Stage.NONE, 0, (0, 0), 0)


@dataclass(frozen=True, slots=True)
class HearingInfo:
    """A hearing at one block: the rules' state and terms."""

    state: HearingState
    terms: HearingTerms

    @property
    def id(self) -> int:
        return self.terms.hearing_id

    @property
    def match_id(self) -> int:
        return self.terms.submission.match_id

    def trial(self, number: int) -> int:
        """The Court's id of a trial; they are counted from 1 to `state.trials`."""
        return trial_id(self.terms.panel, self.id, number)

    @property
    def over(self) -> bool:
        return self.state.phase is HearingPhase.DONE

    def player(self, address: str) -> bool:
        """Whether that is one of the spokesmen."""
        return address in self.terms.submission.players

    def signed(self, address: str) -> bool:
        """Whether that verifier has voted for the verdict, and has not lost its bond for it."""
        return address in self.state.signers(self.state.verdict)

    def voted(self, address: str) -> bool:
        """Whether that verifier has voted."""
        return address in self.state.voters


@dataclass(frozen=True, slots=True)
class TrialInfo:
    """A trial at one block. ``children`` and ``leaves``: what each side has shown at the position."""

    id: int
    dispute: Dispute
    state: TrialState
    """NOTE: `agreed` is empty while it is the chain's first state, which depends on inputs: see `begun`."""
    children: tuple[tuple[bytes, ...] | None, tuple[bytes, ...] | None]
    leaves: tuple[bytes | None, bytes | None]

    def begun(self, inputs: tuple[Tensor, ...]) -> TrialState:
        """The rules' whole state, given the operator's inputs. Raises a Refusal if they are not the agreed ones."""
        if not self.state.steps or self.state.agreed:
            return self.state
        case = case_of(self.state, self.dispute, inputs)
        return replace(self.state, agreed=rule_of(case).begin(case))


def hearing_view(
    hearing_id: int, raw: Any, events: Sequence[Event], job: Job, chain_id: int, panel: str
) -> HearingInfo:
    """A HearingInfo from `getHearing` and the hearing's events. Raises RpcCorrupt."""
    told = next((event.args for event in events if event.name == "Submitted"), None)
    if told is None:
        raise RpcCorrupt(f"the endpoint has no event of hearing {hearing_id}; use one with complete logs")
    submission, dispute = submission_of(told["submission"]), dispute_of(told["dispute"])
    if submission.hash() != raw.file or dispute_hash(dispute) != submission.dispute:
        raise RpcCorrupt(f"the event of hearing {hearing_id} is of another submission")
    if raw.adjudication != job.rules.adjudication:
        raise RpcCorrupt(f"hearing {hearing_id} is of another adjudication than its job: {raw.adjudication}")
    if raw.side > 1 or raw.losers > 3:
        raise RpcCorrupt(f"hearing {hearing_id}: side {raw.side}, losers {raw.losers} cannot be")
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
        defendant=raw.defendant,
        votes=votes,
        voters=voters,
    )
    terms = HearingTerms(
        hearing_id=hearing_id,
        submission=submission,
        dispute=dispute,
        rules=job.rules,
        stake=job.stake,
        verifiers=job.verifiers,
        chain_id=chain_id,
        panel=panel,
    )
    return HearingInfo(state, terms)


def _votes(events: Sequence[Event]) -> tuple[tuple[str, ...], tuple[tuple[str, bytes], ...]]:
    """All voters, and the votes that stand: for each record in the contract's order."""
    voters, votes = list[str](), list[tuple[str, bytes]]()
    for event in events:
        if event.name == "Attested":
            voters.append(event.args["verifier"])
            votes.append((event.args["verifier"], event.args["record"]))
        if event.name == "Slashed":
            # The last vote for the same record takes the place of the one that is gone, as in the contract.
            slashed = event.args["verifier"]
            place = next((k for k, (voter, _) in enumerate(votes) if voter == slashed), None)
            if place is None:
                raise RpcCorrupt(f"an event tells that {slashed} is slashed, who has no vote that stands")
            last = max(k for k, (_, record) in enumerate(votes) if record == votes[place][1])
            votes[place] = votes[last]
            del votes[last]
    return tuple(voters), tuple(votes)


def trial_view(number: int, raw: Any, events: Sequence[Event]) -> TrialInfo:
    """A TrialInfo from `getTrial` and the trial's events. Raises RpcCorrupt."""
    told = _Told.of(events, number)
    if dispute_hash(told.dispute) != raw.file:
        raise RpcCorrupt(f"the event of trial {number} is of another dispute")
    if raw.losers > 3 or raw.posted > 3 or raw.height > MAX_HEIGHT or raw.kind > WRITTEN:
        position = f"height {raw.height}, posted {raw.posted}, losers {raw.losers}, kind of entry {raw.kind}"
        raise RpcCorrupt(f"trial {number}: {position} cannot be")
    stage = known(Stage, raw.stage, f"trial {number}")
    if Stage.POST <= stage <= Stage.STEP and not (raw.lo < raw.hi <= raw.steps and raw.stateBytes):
        steps = f"steps {raw.lo} to {raw.hi} of {raw.steps}, of {raw.stateBytes} bytes each"
        raise RpcCorrupt(f"trial {number}: {steps}, cannot be open in stage {stage.name}")
    state = TrialState(
        players=(raw.players[0], raw.players[1]),
        stage=stage,
        tick=raw.tick,
        clock=(raw.clock[0], raw.clock[1]),
        output=raw.output,
        posted=raw.posted,
        height=raw.height,
        index=raw.index,
        nodes=(raw.nodes[0], raw.nodes[1]),
        element=raw.element,
        values=(raw.values[0], raw.values[1]),
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
    have = [told.agreed, *told.states, told.offer]
    want = [raw.agreed, raw.states[0], raw.states[1], raw.offer]
    if any(text and keccak(text) != hash_ for text, hash_ in zip(have, want, strict=True)):
        raise RpcCorrupt(f"the events of trial {number} tell of other states than it has")
    if raw.stage == Stage.ANSWER and keccak(told.offer) != raw.offer:
        raise RpcCorrupt(f"the endpoint has not all events of trial {number}; use one with complete logs")
    children, leaves = told.children, told.leaves
    return TrialInfo(number, told.dispute, state, (children[0], children[1]), (leaves[0], leaves[1]))


@dataclass
class _Told:
    """What the events of a trial tell."""

    dispute: Dispute
    children: list[tuple[bytes, ...] | None]
    leaves: list[bytes | None]
    agreed: bytes = b""
    states: tuple[bytes, bytes] = (b"", b"")
    offer: bytes = b""
    open: TrialState = NO_TRIAL
    """The interval of steps that is open; nothing else of it counts."""

    @classmethod
    def of(cls, events: Sequence[Event], number: int) -> _Told:
        opened = next((event.args for event in events if event.name == "TrialOpened"), None)
        if opened is None:
            raise RpcCorrupt(f"the endpoint has no event of trial {number}; use one with complete logs")
        told = cls(dispute_of(opened["dispute"]), [None, None], [None, None])
        for event in events:
            told._take(event)
        return told

    def _take(self, event: Event) -> None:
        args = event.args
        match event.name:
            case "NodesRevealed":
                self.children[args["side"]] = hashes(args["children"])
            case "NodesDescended":
                self.children = [None, None]
            case "LeafShown":
                self.leaves[args["side"]] = bytes(args["leaf"])
            case "ElementFound":
                self.open = replace(self.open, hi=args["steps"], state_bytes=args["stateBytes"])
            case "StatesPosted":
                self.offer = bytes(args["states"])
            case "StateAnswered":
                self._answered(args["lo"], args["hi"], bytes(args["own"]))

    def _answered(self, lo: int, hi: int, own: bytes) -> None:
        if not self.open.lo < self.open.hi or not self.open.state_bytes:
            raise RpcCorrupt(f"an event answers for steps {lo} to {hi}, and none tells of states before it")
        starts = [self.open.lo, *places(self.open)[:-1]]
        place, offered = starts.index(lo), split(self.open, self.offer)
        if place:
            self.agreed = offered[place - 1]
        if own:
            self.states = offered[place], own
        self.open = replace(self.open, lo=lo, hi=hi)
