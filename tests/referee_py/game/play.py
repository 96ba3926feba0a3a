"""A small driver for scenario tests: two players of one match, on a simulated clock. The panel is never wrong."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from referee_py.game.player_data import ChainLog, LoggedView
from referee_py.game.rules import apply, hearing_decided, opened
from referee_py.game.solver import plan
from referee_py.game.state import MatchState, MatchTerms, Move, Phase, Timeout
from referee_py.walk import clock
from referee_py.walk.reason import Reason
from referee_py.walk.refusals import Refusal
from tests.support.planned import moves_of, observe

from .synthetic import Graph, match_terms
from .synthetic_run import Run

START = 1_000_000


@dataclass
class Contestant:
    """A player of one side. A silent one never moves; one that does not serve shows only what it must."""

    run: Run
    serves: bool = True
    silent: bool = False
    concede: bool = True


@dataclass
class Table:
    """A match between two players: `play()` takes it to its end."""

    graph: Graph
    players: tuple[Contestant, Contestant]
    rng: Random
    now: int = START
    history: list[Move] = field(default_factory=list)

    def __post_init__(self) -> None:
        roots = (self.players[0].run.root, self.players[1].run.root)
        self.terms: MatchTerms = match_terms(self.graph, roots=roots)
        self.log = ChainLog()
        self.state: MatchState = opened(self.terms, self.now)

    def moves(self, side: int) -> list[Move]:
        me, other = self.players[side], self.players[1 - side]
        served = (other.run.serve, other.run.serve_record) if other.serves else (None, None)
        view = LoggedView(self.log, 1 - side, *served)
        return moves_of(
            plan(
                self.state,
                self.terms,
                side,
                may_refine=True,
                own=me.run,
                opponent=view,
                now=self.now,
                concede=me.concede,
            )
        )

    def apply(self, move: Move, sender: str) -> None:
        after = apply(self.state, self.terms, move, sender, self.now)
        observe(self.log, self.state, move, after)
        self.state = after
        self.history.append(move)

    def play(self) -> MatchState:
        """Play to the end. Each turn one player, in random order, sends its plan; if none has one, time runs out."""
        while self.state.phase is not Phase.DONE:
            if not self._turn():
                self._pass_time()
        return self.state

    def _turn(self) -> bool:
        if self.state.phase is Phase.HEARING:
            self._hear()
            return True
        self.now += self.rng.randint(0, 1)
        for side in self.rng.sample((0, 1), 2):
            batch = [] if self.players[side].silent else self.moves(side)
            for move in batch:
                self.apply(move, self.terms.players[side])
            if batch:
                return True
        return False

    def _hear(self) -> None:
        step, node = self.state.end, self.state.index
        runs = [player.run for player in self.players]
        shown = next(r.records[step][node] for r in runs if r.record(step, node))
        record = self.graph.truth(node, shown.inputs, shown.log).hash()
        wrong = sum(1 << side for side in (0, 1) if self.state.node[side] != record)
        self.state = hearing_decided(self.state, wrong, Reason.OPERATOR)

    def _pass_time(self) -> None:
        """Go to the first instant after a deadline. If no player can move then, a stranger ends the match."""
        owing = [side for side in (0, 1) if clock.owing(self.state) >> side & 1]
        self.now = max(self.now, min(clock.deadline(self.state, side) for side in owing) + 1)
        if all(player.silent or not self.moves(side) for side, player in enumerate(self.players)):
            self.apply(Timeout(), "0x" + "EE" * 20)


def refused(state: MatchState, terms: MatchTerms, move: Move, sender: str, now: int) -> str | None:
    """Return the name of the refusal, or None if the move is accepted."""
    try:
        apply(state, terms, move, sender, now)
    except Refusal as refusal:
        return type(refusal).__name__
    return None
