"""The next random request, response or closing of a game: by anybody, about any root."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from referee_py.availability import Piece, Place, RequestState
from referee_py.availability.pieces import check_place
from referee_py.availability.prices import deposit_of, rank_of
from referee_py.availability.solver import response_of
from referee_py.availability.state import OUTPUTS, LeafShown
from referee_py.commit import NO_LOG, Record, Tree
from referee_py.commit.structs import words
from referee_py.errors import Unavailable
from referee_py.params import MAX_RANK
from referee_py.program.terms import leaf_count
from referee_py.rounding import Log
from referee_py.walk.refusals import Refusal
from tests.model.data_availability import Subject
from trainer_node.chain.codec.availability import provide_call

from .actions import Action, spoil
from .chain import Transaction
from .real import RealGraph
from .synthetic_run import Run

if TYPE_CHECKING:
    from .random_game import Game

WRONG = 0.15
"""Probability of a fault in an action."""


class Known:
    """Data of a party that has a run (`HasRun` for the solver). Tensors that nobody has computed are Unavailable."""

    def __init__(self, run: Run) -> None:
        self._run, self._graph = run, run.graph

    def run_tree(self, level: int, start: int, end: int) -> Tree:
        return self._run.run_tree(level, start, end)

    def step_tree(self, step: int) -> Tree:
        tree = self._run.step_tree(step)
        if tree is None:
            raise Unavailable("a lie about a checkpoint has nothing beneath it")
        return tree

    def record(self, step: int, node: int) -> Record:
        return self._run.records[step][node]

    def tensors(self, step: int, node: int) -> tuple[list[Any], list[Any]]:
        record = self.record(step, node)
        pool = self._graph.pool if isinstance(self._graph, RealGraph) else {}
        if any(h not in pool for h in (*record.inputs, *record.outputs)):
            raise Unavailable("nobody has computed it")
        return [pool[h] for h in record.inputs], [pool[h] for h in record.outputs]

    def run_log_tree(self) -> Tree | None:
        return self._graph.run_log_tree()

    def log_tree(self, step: int) -> Tree | None:
        return self._graph.log_tree(step)

    def log(self, step: int, node: int) -> Log | None:
        digest = self._graph.log(step, node)
        if digest == NO_LOG:
            return None
        if not isinstance(self._graph, RealGraph):
            raise Unavailable("the digest is of nothing")
        return self._graph.log_of(digest)


class Auditors:
    """The accounts that request and respond in one game."""

    def __init__(self, game: Game) -> None:
        self.game = game
        self._often = 0.2 if game.rng.random() < 0.4 else 0.01
        self._floods = game.rng.random() < 0.1

    def haste(self, now: int) -> float:
        """Return the probability of an action: higher with late requests, which keep a job from ending."""
        return max(self._often, 0.5 if self._late(now) else 0.0)

    def _late(self, now: int) -> list[tuple[Subject, Place]]:
        return [key for key in self.open if now > self.game.model.data_availability.requests[key].until]

    @property
    def open(self) -> list[tuple[Subject, Place]]:
        """The open requests of the game's job."""
        requests = self.game.model.data_availability.requests
        return [
            key
            for key, request in requests.items()
            if key[0].job_id == self.game.job_id and request.state is RequestState.OPEN
        ]

    def instants(self) -> list[int]:
        """Return the earliest and the latest ``until`` of open requests."""
        untils = [self.game.model.data_availability.requests[key].until for key in self.open]
        return [min(untils), max(untils)] if untils else []

    def act(self, now: int) -> Action | None:
        rng, known = self.game.rng, self.open
        late = self._late(now)
        if late and rng.random() < 0.5:
            return self._close(*rng.choice(late))
        if known and rng.random() < 0.05:
            return self._close(*rng.choice(known))
        if known and rng.random() < 0.75:
            return self._answer(*rng.choice(known))
        return self._request()

    def withdrawal(self, sender: str) -> Action:
        """Return an action that withdraws a credit from the contract."""
        return self._action(
            "withdraw", sender, (), lambda _: self.game.model.data_availability.withdraw(sender)
        )

    # --- moves ----------------------------------------------------------------------------------------------------

    def _request(self) -> Action:
        game, rng = self.game, self.game.rng
        of_logs = rng.random() < (0.6 if game.job.rounded else 0.05)
        roots = [game.job.logs] if of_logs else [party.run.root for party in game.parties]
        root = rng.choice(roots) if rng.random() > WRONG / 3 else rng.randbytes(32)
        checkpoint = rng.randrange(self._checkpoints)
        places = [self._place(of_logs, checkpoint) for _ in range(rng.choice((1, 1, 2, 4)))]
        if self._floods and rng.random() < 0.3:
            places = self._flood(of_logs, checkpoint)
        places = places if rng.random() > WRONG / 5 else [*places, self._place(not of_logs, checkpoint)][1:]
        if rng.random() < WRONG / 5:
            places[-1] = replace(places[-1], tree=places[-1].tree + 1)
        subject, requests = Subject(game.job_id, root), game.model.data_availability
        value = self._deposits(subject, places)
        value += rng.choice((-1, 1)) if value and rng.random() < WRONG / 5 else 0
        sender = rng.choice(game.accounts)
        arguments = self._subject(subject), words(places)
        return self._action(
            "request",
            sender,
            arguments,
            lambda now: requests.request(subject, places, sender, value, now),
            value,
        )

    def _flood(self, of_logs: bool, checkpoint: int) -> list[Place]:
        """Return hundreds of places whose pieces do not exist: each needs a response of its own."""
        rng, nodes = self.game.rng, len(self.game.graph.structures)
        piece, tree = (Piece.BLOCKS, 1) if of_logs else (Piece.LEAF, checkpoint)
        node, tensor = rng.randrange(nodes), 0 if of_logs else OUTPUTS + 9
        first = rng.randrange(1 << 40)
        count = rng.choice((60, 70, 150, 256, 257))
        return [Place(piece, tree, node, tensor, first + k) for k in range(count)]

    def _deposits(self, subject: Subject, places: Sequence[Place]) -> int:
        """Return the sum of the deposits, in wei, if each place is new."""
        requests = self.game.model.data_availability
        price = requests.price_of(self.game.job_id)
        try:
            opened, others = requests.open_of(subject, places[0])
        except Refusal:
            opened, others = 0, 0
        return sum(
            deposit_of(place.piece, price) << min(rank_of(opened + k, others), MAX_RANK)
            for k, place in enumerate(places)
        )

    def _answer(self, subject: Subject, place: Place) -> Action | None:
        game, rng = self.game, self.game.rng
        runs = [party.run for party in game.parties if party.run.root == subject.root]
        run = rng.choice(runs or [party.run for party in game.parties])
        shown = place if rng.random() > WRONG / 3 else self._place(place.piece.of_logs, place.tree)
        try:
            check_place(game.graph.header, shown)
            answer = response_of(game.graph.header, shown, Known(run))
        except (Refusal, Unavailable):
            return None
        if rng.random() < WRONG:
            # NOTE: `spoil` cannot extend an empty shape, since it does not know the type of an item.
            if isinstance(answer, LeafShown) and not answer.tensor.shape.dims:
                answer = replace(answer, record=spoil(rng, answer.record))
            else:
                answer = spoil(rng, answer)
        sender = rng.choice(game.accounts)
        function, arguments = provide_call(self._subject(subject), place, answer)
        return self._action(
            function,
            sender,
            arguments,
            lambda now: game.model.data_availability.answer(subject, place, answer, sender, now),
        )

    def _close(self, subject: Subject, place: Place) -> Action:
        game = self.game
        if game.rng.random() < WRONG / 5:
            place = self._place(place.piece.of_logs, place.tree)
        arguments = self._subject(subject), words(place)
        return self._action(
            "close",
            game.rng.choice(game.accounts),
            arguments,
            lambda now: game.model.data_availability.close(subject, place, now),
        )

    # --- inside ---------------------------------------------------------------------------------------------------

    @property
    def _checkpoints(self) -> int:
        return leaf_count(0, self.game.graph.steps, self.game.graph.strides[0])

    def _place(self, of_logs: bool, checkpoint: int) -> Place:
        rng, nodes, steps = self.game.rng, len(self.game.graph.structures), self.game.graph.steps
        piece = rng.choice((Piece.DIGESTS, Piece.BLOCKS) if of_logs else (Piece.RECORD, Piece.LEAF))
        tree = rng.randint(1, steps) if of_logs else checkpoint
        node = 0 if piece is Piece.DIGESTS else rng.randrange(nodes)
        tensor = rng.choice((0, 1, OUTPUTS, OUTPUTS + 1)) if piece is Piece.LEAF else 0
        part = rng.choice((0, 0, 1, 2, 1 << 40)) if piece in (Piece.LEAF, Piece.BLOCKS) else 0
        if rng.random() < WRONG / 3:
            tree, node = rng.choice(((tree, nodes), (steps + 1, node), (0, node), (self._checkpoints, node)))
        if rng.random() < WRONG / 5:
            tensor, part = rng.choice(((1, part), (tensor, 1)))
        return Place(piece, tree, node, tensor, part)

    def _subject(self, subject: Subject) -> tuple[str, int, bytes]:
        return self.game.chain.jobs.address, subject.job_id, subject.root

    def _action(
        self, name: str, sender: str, arguments: Sequence[object], apply: Any, value: int = 0
    ) -> Action:
        contract = self.game.chain.data_availability
        transaction = Transaction(sender, contract.address, contract.calldata(name, *arguments), value)
        return Action(f"dataAvailability.{name}", transaction, apply)
