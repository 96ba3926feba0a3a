"""The trials of one job: the liar plays by its style, and the honest party moves second and as late as it can."""

from __future__ import annotations

import time
from collections.abc import Sequence
from enum import Enum
from random import Random

from referee_py import trial as court
from referee_py.program.playable import fitting
from referee_py.trial import Answer, NodesReveal, Post, ShowLeaf, ShowOutputs, Stage, Timeout
from referee_py.trial.rules import places
from referee_py.trial.solver import plan
from referee_py.walk import clock
from tests.model.panel import Trial
from tests.referee_py.game.chain import Transaction
from tests.referee_py.trial.parties import Known
from tests.support.planned import moves_of, planned
from trainer_node.chain.codec.trial import trial_call

from .job import CaseGraph
from .table import Patience, Table, most_gas, whole


class Style(Enum):
    """The way in which the liar plays a trial."""

    SOLVER = "states that go wrong at some step"
    GARBAGE = "states that are none, and any place"
    MUTE = "nothing at all"
    SHOWS = "its output first, and then nothing"


class Trials:
    """`side` is that of the honest party; `one_by_one` is whether it sends moves one by one."""

    def __init__(
        self,
        table: Table,
        graph: CaseGraph,
        players: tuple[str, str],
        *,
        side: int,
        style: Style,
        rng: Random,
        one_by_one: bool,
    ) -> None:
        self.table, self.graph, self.side, self.style = table, graph, side, style
        (self.right, self.liar), self.rng, self.one_by_one = players, rng, one_by_one
        self._patience: dict[int, Patience] = {}
        self._known: dict[tuple[int, int], Known] = {}
        """By trial and side: the side's knowledge of the other side."""

    @property
    def now(self) -> int:
        return self.table.chain.now

    def turn(self, number: int, trial: Trial) -> None:
        """The liar moves if it wants to, else the honest party, when it has to."""
        state, other = trial.state, 1 - self.side
        late = clock.late(state, self.now + 1)
        assert not late >> self.side & 1, "the honest party is late"
        if not late and (lies := self._lies(number, trial, other)):
            self._send(number, trial, lies, self.liar, self.now + 1)
            return
        moves = self._pleadings(number, trial)
        if not moves:
            due = {s: state.tick + state.clock[s] for s in (0, 1) if clock.owing(state) >> s & 1}
            late_at = max(min(due.values()) + 1, self.now + 1)
            assert clock.late(state, late_at) == 1 << other, "nobody can move, and it is not the liar's turn"
            self._send(number, trial, [Timeout()], self.right, late_at)
            return
        sizes = [(name, len(data)) for name, data in self._calls(trial, moves, self.right, self.now + 1)]
        moves = moves[: 1 if self.one_by_one else fitting(sizes, len(trial.dispute.records[0].inputs))]
        after = state
        for move in moves:
            after = court.apply(after, trial.dispute, move, self.right, self.now + 1)
        at = self.now + 1
        if clock.owing(state) >> self.side & 1 and not late:
            patience = self._patience.setdefault(number, Patience())
            deadline = state.tick + state.clock[self.side]
            at = patience.when(self.now, deadline, over=after.stage is Stage.DONE)
        self._send(number, trial, moves, self.right, at)

    def _pleadings(self, number: int, trial: Trial) -> list[court.Move]:
        own = self.graph.operator(trial.dispute.records[self.side])
        assert own is not None, "the honest party has no tensors"
        began = time.process_time()
        known = self._seen(number, self.side)
        found = moves_of(plan(trial.state, trial.dispute, self.side, own, known, self.now + 1))
        self.table.bill.solver_seconds = max(self.table.bill.solver_seconds, time.process_time() - began)
        return found

    def _lies(self, number: int, trial: Trial, side: int) -> list[court.Move]:
        """Return the moves that the liar sends now, if any."""
        state, record = trial.state, trial.dispute.records[side]
        if self.style is Style.MUTE or (self.style is Style.SHOWS and state.stage is not Stage.OUTPUTS):
            return []
        root = self.graph.opaque.get(record.outputs[state.output])
        if root is not None:
            shown = state.stage is not Stage.OUTPUTS or state.posted >> side & 1
            roots = (root, bytes(32)) if side == 0 else (bytes(32), root)
            return [] if shown else [ShowOutputs(roots)]
        if self.style is Style.GARBAGE and state.stage is Stage.POST and side == 0:
            return [Post(self.rng.randbytes((len(places(state)) - 1) * state.state_bytes))]
        if self.style is Style.GARBAGE and state.stage is Stage.ANSWER and side == 1:
            count = len(places(state))
            place = self.rng.randrange(count)
            own = self.rng.randbytes(state.state_bytes) if place + 1 < count else b""
            return [Answer(state.offer, place, own)]
        own_case = self.graph.operator(record, turn=Random(number).randrange(20))
        if own_case is None:
            return []
        found = moves_of(plan(state, trial.dispute, side, own_case, self._seen(number, side), self.now + 1))
        if not found:
            return []
        # A liar keeps silent where a move would end the trial with its own loss.
        after = court.apply(state, trial.dispute, found[0], self.liar, self.now + 1)
        return [] if after.losers >> side & 1 else found[:1]

    def _seen(self, number: int, side: int) -> Known:
        return self._known.setdefault((number, side), Known(None))

    def _calls(
        self, trial: Trial, moves: Sequence[court.Move], sender: str, at: int
    ) -> list[tuple[str, bytes]]:
        steps = planned(trial.state, moves, lambda now, m: court.apply(now, trial.dispute, m, sender, at))
        made = (trial_call(move, trial.trial_terms, trial.dispute, state) for move, state in steps)
        return [(name, self.table.chain.court.calldata(name, *given)) for name, given in made]

    def _send(self, number: int, trial: Trial, moves: Sequence[court.Move], sender: str, at: int) -> None:
        contract = self.table.chain.court
        named = self._calls(trial, moves, sender, at)
        data = whole(contract, named)
        self.table.send(
            "+".join(f"court.{name}" for name, _ in named),
            Transaction(sender, contract.address, data),
            lambda now: self.table.model.panel.plead(number, moves, sender, now),
            at,
            most_gas(named, len(trial.dispute.records[0].inputs)),
        )
        for move in moves:
            if isinstance(move, NodesReveal):
                self._seen(number, 1 - move.side).revealed = move.children
            if isinstance(move, ShowLeaf):
                self._seen(number, 1 - move.side).shown = move.leaf
