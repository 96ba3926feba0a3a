"""The next random move of a match: the solver's, a spoiled one, or a senseless one."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING, Any

from referee_py.game.player_data import ChainLog, LoggedView
from referee_py.game.rules import apply
from referee_py.game.solver import evidence_of, log_proof_of, plan
from referee_py.game.state import (
    Descend,
    Evidence,
    Exhibit,
    JudgeInput,
    JudgeLog,
    JudgeStructure,
    LogProof,
    MatchState,
    Move,
    OpenRecord,
    Phase,
    Submit,
    Timeout,
)
from referee_py.walk.descent import Descent
from tests.model.jobs import Match
from tests.support.planned import moves_of, observe, planned
from trainer_node.chain.codec.match import match_call

from .actions import Action, spoil
from .chain import Transaction
from .synthetic_run import Run

if TYPE_CHECKING:
    from .random_game import Game


class Duels:
    """The matches of one game, and the data that each side has published in them."""

    def __init__(self, game: Game) -> None:
        self.game = game
        self._logs: dict[int, ChainLog] = {}

    @property
    def rng(self) -> Random:
        return self.game.rng

    def act(self, match: Match, now: int) -> Action | None:
        rng, game = self.rng, self.game
        side = rng.randrange(2)
        moves = self._moves(match, side, now)
        if not moves:
            return None
        sender = match.terms.players[side] if rng.random() < 0.9 else rng.choice(game.accounts)
        match_id = match.terms.match_id
        referee = game.chain.referee
        pairs = planned(match.state, moves, lambda at, move: apply(at, match.terms, move, sender, now))
        made = [match_call(move, state, match.terms) for move, state in pairs]
        calls = [referee.calldata(name, *given) for name, given in made]
        data = calls[0] if len(calls) == 1 else referee.calldata("multicall", calls)
        return Action(
            "+".join(f"referee.{move.function}" for move in moves),
            Transaction(sender, referee.address, data),
            lambda at: game.model.play(match_id, moves, sender, at),
            tuple(moves),
            match,
        )

    def _moves(self, match: Match, side: int, now: int) -> list[Move]:
        """Return the solver's moves, often only the first, or with one spoiled; or a senseless move."""
        rng, roll = self.rng, self.rng.random()
        if roll < 0.03:
            return [Timeout()]
        if roll < 0.15 and (move := self._senseless(match, side)):
            return [move]
        moves = self._plan(match, side, now)
        if not moves:
            return []
        # NOTE: few records differ only in their logs, so a move that does not fit them is tried often.
        if isinstance(moves[-1], JudgeLog) and rng.random() < 0.3:
            moves = [*moves[:-1], Submit(moves[-1].exhibit)]
        if rng.random() < 0.4:
            moves = moves[:1]
        if rng.random() < 0.15:
            k = rng.randrange(len(moves))
            moves = [*moves[:k], spoil(rng, moves[k]), *moves[k + 1 :]]
        return moves

    def _senseless(self, match: Match, side: int) -> Move | None:
        """Return a move with true data at the wrong place: another child, another case, another source."""
        rng, state = self.rng, match.state
        runs = [self.game.party_of(match, k).run for k in (0, 1)]
        if state.phase is Phase.WALK:
            return self._other_child(match, runs)
        records = [run.record(state.end, state.index) for run in runs]
        if state.phase is not Phase.OPEN or not all(records):
            own = runs[side].record(state.end, 0)
            return OpenRecord(side, own) if own and rng.random() < 0.3 else None
        if rng.random() < 0.2:
            return OpenRecord(side, records[rng.randrange(2)])  # type: ignore[arg-type]
        at = state.index if rng.random() < 0.9 else rng.randrange(len(self.game.graph.structures))
        path = tuple(self.game.graph.structure_path(at))
        first, second = records
        exhibit = Exhibit(first, second, self.game.graph.structure(at), path)  # type: ignore[arg-type]
        if rng.random() < 0.4:
            proof = log_proof_of(runs[side], state) or LogProof(bytes(32), bytes(32), (), ())
            return rng.choice((JudgeStructure(exhibit), Submit(exhibit), JudgeLog(exhibit, proof)))
        operands = self.game.graph.operands[at]
        k = rng.randint(0, len(operands))
        evidence = Evidence(k)
        if k < len(operands) and operands[k].index < len(self.game.graph.structures):
            evidence = evidence_of(runs[rng.randrange(2)], state, k, operands[k]) or evidence
        return JudgeInput(exhibit, evidence)

    def _other_child(self, match: Match, runs: Sequence[Run]) -> Move | None:
        rng, state = self.rng, match.state
        program = self.game.graph.header
        trees = [
            run.step_tree(state.end)
            if state.in_step_tree(program)
            else run.run_tree(state.level, state.start, state.end)
            for run in runs
        ]
        if any(tree is None for tree in trees):
            return None
        levels = state.height if rng.random() < 0.8 else rng.randint(0, state.height)
        child = rng.randrange(1 << levels)
        index, height = (state.index << levels) + child, state.height - levels
        halves: list[Any] = []
        for tree in trees:
            assert tree is not None
            halves += [tree.node(height, index), tuple(tree.path(index, height, state.height))]
        previous: tuple[Any, ...] = ()
        if not height and index and not state.in_step_tree(program):
            tree = trees[rng.randrange(2)]
            assert tree is not None
            previous = (tree.node(0, index - 1), tuple(tree.path(index - 1)))
        return Descend(Descent(child, *halves), *previous)

    def _plan(self, match: Match, side: int, now: int) -> list[Move]:
        me, other = self.game.party_of(match, side), self.game.party_of(match, 1 - side)
        log = self._logs.setdefault(id(match), ChainLog())
        serve = (other.run.serve, other.run.serve_record) if other.serves else (None, None)
        return moves_of(
            plan(
                match.state,
                match.terms,
                side,
                may_refine=True,
                own=me.run,
                opponent=LoggedView(log, 1 - side, *serve),
                now=now,
                concede=me.concede,
            )
        )

    def observe(self, action: Action, before: MatchState) -> None:
        """Pass accepted moves on to the match's `ChainLog`, one by one; `before` is the match's state before them."""
        if action.match is None:
            return
        log = self._logs.setdefault(id(action.match), ChainLog())
        state = before
        for move in action.moves:
            after = apply(
                state,
                action.match.terms,
                move,
                action.transaction.sender,
                self.game.chain.now - self.game.model.behind,
            )
            observe(log, state, move, after)
            state = after
