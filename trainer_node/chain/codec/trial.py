"""Trials (the contract Court): moves to calldata and back, and a trial's state from `getTrial` and its events.

SAFETY: the contract keeps only hashes of the data that moves show again; data from events is checked against them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from referee_py.commit.structs import value_of
from referee_py.element import NO_ENTRY, Entry
from referee_py.rounding.entries import WRITTEN
from referee_py.trial.calldata import position, position_hash
from referee_py.trial.rules import places, split
from referee_py.trial.state import MOVES, Move, Stage, TrialState
from referee_py.walk.dispute import ZERO, Dispute, TrialTerms

from ...errors import RpcCorrupt
from ..events import Event
from .base import Calls, Fold, Made, View, hidden

MAX_HEIGHT = 64
"""Limit of the height of a data tree: elements are counted in 64 bits."""
NO_TRIAL = TrialState(("", ""), Stage.NONE, 0, (0, 0), 0)


# --- moves ------------------------------------------------------------------------------------------------------


_MOVES = Calls[Move](
    "Court",
    {
        "trialTerms": TrialTerms,
        "dispute": Dispute,
        "position": tuple[tuple[bytes, bytes], tuple[int, int], bytes, tuple[bytes, bytes], bytes],
    },
    *MOVES,
)


def trial_call(move: Move, trial_terms: TrialTerms, dispute: Dispute, state: TrialState) -> Made:
    """Return the court's function for a move in this state, and its arguments."""
    return _MOVES.encode(move, trialTerms=trial_terms, dispute=dispute, position=position(state))


def trial_move(function: str, arguments: Sequence[Any]) -> tuple[int, Move] | None:
    """Return the trial's id and the move of a decoded call; None if it calls no move. Raises InvalidEncoding."""
    found = _MOVES.decode(function, arguments)
    return found and (value_of(TrialTerms, found[1]["trialTerms"]).trial(), found[0])


# --- state ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TrialInfo:
    """A trial at one block. ``children`` and ``leaves`` are those that each side has shown at the position."""

    id: int
    trial_terms: TrialTerms
    dispute: Dispute
    state: TrialState
    children: tuple[tuple[bytes, ...] | None, tuple[bytes, ...] | None]
    leaves: tuple[bytes | None, bytes | None]
    hidden: str | None = None
    """Why what a side has posted is unknown: the endpoint lacks its event. None if nothing is."""


_TRIAL = View(
    *(TrialState, "Court", "getTrial"),
    beside="players clock nodes values entry agreed states offer",
)


def trial_view(trial_terms: TrialTerms, dispute: Dispute, raw: Any, events: Sequence[Event]) -> TrialInfo:
    """Return a TrialInfo from `getTrial` and the trial's events. Raises RpcCorrupt."""
    number, told = trial_terms.trial(), _Told.of(events)
    if raw.losers > 3 or raw.posted > 3 or raw.height > MAX_HEIGHT or raw.kind > WRITTEN:
        at = f"height {raw.height}, posted {raw.posted}, losers {raw.losers}, kind of entry {raw.kind}"
        raise RpcCorrupt(f"trial {number}: {at} cannot be")
    state = _TRIAL.read(
        f"trial {number}",
        raw,
        players=trial_terms.players,
        clock=(raw.clock0, raw.clock1),
        nodes=told.nodes,
        values=told.values,
        entry=Entry(raw.kind, raw.written) if raw.steps else NO_ENTRY,
        agreed=told.agreed,
        states=told.states,
        offer=told.offer,
    )
    if Stage.POST <= state.stage <= Stage.STEP and not (raw.lo < raw.hi <= raw.steps and raw.stateBytes):
        steps = f"steps {raw.lo} to {raw.hi} of {raw.steps}, of {raw.stateBytes} bytes each"
        raise RpcCorrupt(f"trial {number}: {steps}, cannot be open in stage {state.stage.name}")
    # NOTE: the contract does not keep the position of a trial that is done.
    if state.stage is not Stage.DONE and position_hash(state) != raw.position:
        raise RpcCorrupt(f"the endpoint has not all events of trial {number}; use one with complete logs")
    children, leaves = told.children, told.leaves
    # NOTE: no hash binds these; that a side has posted them is in the state.
    lacks = {Stage.WALK: [c is None for c in children], Stage.LEAF: [leaf is None for leaf in leaves]}
    lost = hidden(f"trial {number}", state.posted, lacks.get(state.stage, (False, False)))
    shown = (children[0], children[1]), (leaves[0], leaves[1])
    return TrialInfo(number, trial_terms, dispute, state, *shown, lost)


@dataclass
class _Told(Fold, contract="Court"):
    """State of a trial that only its events have."""

    children: list[tuple[bytes, ...] | None] = field(default_factory=lambda: [None, None])
    leaves: list[bytes | None] = field(default_factory=lambda: [None, None])
    nodes: tuple[bytes, bytes] = (ZERO, ZERO)
    values: tuple[int, int] = (0, 0)
    agreed: bytes = b""
    states: tuple[bytes, bytes] = (b"", b"")
    offer: bytes = b""
    open: TrialState = NO_TRIAL
    """Holds the open interval of steps and the size of a state; its other fields are not used."""

    def on_output_shown(self, side: int, root: bytes) -> None:
        self.nodes = (root, self.nodes[1]) if side == 0 else (self.nodes[0], root)

    def on_nodes_revealed(self, side: int, children: tuple[bytes, ...]) -> None:
        self.children[side] = children

    def on_nodes_descended(self, node0: bytes, node1: bytes) -> None:
        self.nodes = node0, node1
        self.children = [None, None]

    def on_leaf_shown(self, side: int, leaf: bytes) -> None:
        self.leaves[side] = leaf

    def on_element_found(self, values: tuple[int, int], steps: int, first: bytes) -> None:
        self.nodes, self.values, self.agreed = (ZERO, ZERO), values, first
        self.open = replace(self.open, hi=steps, state_bytes=len(first))

    def on_states_posted(self, states: bytes) -> None:
        self.offer = states

    def on_state_answered(self, lo: int, hi: int, own: bytes) -> None:
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
