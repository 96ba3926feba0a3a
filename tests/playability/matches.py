"""The match: from the first difference of both runs to the judgement, or to the hearing of one operator."""

from __future__ import annotations

import time
from collections.abc import Sequence

from referee_py.game.player_data import ChainLog, LoggedView
from referee_py.game.rules import apply
from referee_py.game.solver import plan
from referee_py.game.state import Move, Phase, Timeout
from referee_py.program.playable import fitting
from referee_py.walk import clock
from tests.model.jobs import Match
from tests.referee_py.game.chain import Transaction
from tests.referee_py.game.synthetic_run import Run
from tests.support.planned import moves_of, observe, planned
from trainer_node.chain.codec.match import match_call

from .table import Patience, Table, most_gas, whole
from .trials import Style


class Matches:
    """`runs`: the honest and the lying run. `side` is that of the honest party; `one_by_one` is whether it sends moves
    one by one."""

    def __init__(
        self,
        table: Table,
        runs: Sequence[Run],
        players: tuple[str, str],
        *,
        side: int,
        style: Style,
        one_by_one: bool,
    ) -> None:
        self.table, self.runs, self.side, self.style = table, runs, side, style
        (self.right, self.liar), self.one_by_one = players, one_by_one
        self.log, self.patience = ChainLog(), Patience()

    @property
    def now(self) -> int:
        return self.table.chain.now

    def turn(self, match: Match) -> None:
        """The liar moves if it wants to, else the honest party, when it has to."""
        state, other = match.state, 1 - self.side
        late = clock.late(state, self.now + 1)
        assert not late >> self.side & 1, "the honest party is late"
        willing = not late and self.style is not Style.MUTE
        if willing and (moves := self._plan(match, other, self.runs[1])):
            self._send(match, moves[:1], self.liar, self.now + 1)
            return
        moves = self._plan(match, self.side, self.runs[0])
        if not moves:
            late_at = min(clock.deadline(state, s) for s in (0, 1) if clock.owing(state) >> s & 1) + 1
            late_at = max(late_at, self.now + 1)
            assert clock.late(state, late_at) == 1 << other, "nobody can move, and it is not the liar's turn"
            self._send(match, [Timeout()], self.right, late_at)
            return
        sizes = [(name, len(data)) for name, data in self._calls(match, moves, self.right, self.now + 1)]
        moves = moves[: 1 if self.one_by_one else fitting(sizes, 0)]
        after = state
        for move in moves:
            after = apply(after, match.terms, move, self.right, self.now + 1)
        at = self.now + 1
        if clock.owing(state) >> self.side & 1 and not late:
            at = self.patience.when(
                self.now, clock.deadline(state, self.side), over=after.phase is Phase.DONE
            )
        self._send(match, moves, self.right, at)

    def _plan(self, match: Match, side: int, run: Run) -> list[Move]:
        began = time.process_time()
        found = moves_of(
            plan(
                match.state,
                match.terms,
                side,
                may_refine=True,
                own=run,
                opponent=LoggedView(self.log, 1 - side),
                now=self.now + 1,
                concede=False,
            )
        )
        self.table.bill.solver_seconds = max(self.table.bill.solver_seconds, time.process_time() - began)
        return found

    def _calls(self, match: Match, moves: Sequence[Move], sender: str, at: int) -> list[tuple[str, bytes]]:
        pairs = planned(match.state, moves, lambda now, move: apply(now, match.terms, move, sender, at))
        made = (match_call(move, state, match.terms) for move, state in pairs)
        return [(name, self.table.chain.referee.calldata(name, *given)) for name, given in made]

    def _send(self, match: Match, moves: Sequence[Move], sender: str, at: int) -> None:
        referee, before = self.table.chain.referee, match.state
        made = self._calls(match, moves, sender, at)
        self.table.send(
            "+".join(f"referee.{name}" for name, _ in made),
            Transaction(sender, referee.address, whole(referee, made)),
            lambda now: self.table.model.play(match.terms.match_id, moves, sender, now),
            at,
            most_gas(made),
        )
        for move in moves:
            after = apply(before, match.terms, move, sender, at)
            observe(self.log, before, move, after)
            before = after
