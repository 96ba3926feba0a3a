"""The honest party of a game: what it knows, and what its daemon does. All decisions are the daemons' own functions.

What a party comes to know depends on strangers, who serve a run's data right and at once, late up to the budget of the
work, of another shape, wrong, or not at all (docs/security.md, the table of waits):

    at once, another shape      the sampler's finding is there
    late                        it comes at any second until the budget ends
    wrong, nothing              the budget ends; the sampler replays the whole
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Protocol

from referee_py.execute import RunClaim
from trainer_node.chain import JobView
from trainer_node.config import Mode
from trainer_node.decide import JobAction, challenger_actions, closing, trainer_actions
from trainer_node.refuted import Refuted
from trainer_node.sampling.decide import sampler_actions

from .board import HONEST, RIGHT, WRONG, Board, Left, Times, found, result

Act = Callable[[Board], None]
Named = tuple[str, Act]


class Role(Protocol):
    """An honest party. ``knows`` of a board is what this role keeps there."""

    def beginnings(self, times: Times, left: Left) -> Iterator[Board]:
        """Yield the positions from which all games begin."""
        ...

    def learns(self, board: Board) -> list[Named]:
        """Return what strangers' data, or its own computing, may let it know at this instant."""
        ...

    def must_learn(self, board: Board) -> bool:
        """Return whether time cannot go on before it knows more: a budget has ended."""
        ...

    def passes(self, board: Board) -> None:
        """Let a second pass for what it is waiting for."""
        ...

    def wants(self, board: Board) -> Iterator[Named]:
        """Yield what its daemon would send now. NOTE: it simulates that first, and sends nothing that is refused."""
        ...

    def known(self, board: Board, name: str) -> object:
        """Return what it knows about a run, and its commitments about that: a part of the state."""
        ...

    def could_know(self, board: Board, name: str) -> bool:
        """Return whether it must not let a wrong run be accepted."""
        ...


def sends(board: Board, act: JobAction, own: RunClaim) -> Named | None:
    """Return what a node sends for an action of trainer or challenger."""
    match act:
        case JobAction.JOIN:
            return "joins", lambda after: after.join(HONEST)
        case JobAction.COMMIT:
            return "commits", lambda after: after.commit(HONEST, RIGHT)
        case JobAction.REVEAL:
            return "reveals", lambda after: after.reveal(HONEST)
        case JobAction.FINALIZE:
            return "finalizes", Board.finalize
    group = board.view.group_of_root(own.root)
    # NOTE: as the node does, so that a request that is late already does not cost the claim.
    if group is not None and not group.dead and board.requested(RIGHT) is not None:
        return None
    sent = board.deliver(own)
    return None if sent is None else ("claims", sent)


def answers(board: Board) -> Iterator[Named]:
    """Yield the responses that a claimant's node sends: it has the data of its own run."""
    claim, group = board.view.claim_of(HONEST), board.view.group_of_root(result(RIGHT).root)
    if claim is None or group is None or group.dead or claim.group != group.index:
        return
    request = board.requested(RIGHT)
    if request is not None and board.now <= request.until:
        yield "answers", lambda after: after.answer(RIGHT)


def whole_runs(board: Board) -> Iterator[Named]:
    """Yield what a challenger sends that has the right result."""
    own = result(RIGHT)
    for act in challenger_actions(board.view, HONEST, own, Mode.CHALLENGE, board.now):
        sent = sends(board, act, own)
        if sent is not None:
            yield sent
    yield from answers(board)


def revealed(times: Times, left: Left, slots: int) -> Iterator[Board]:
    """Yield a board for each outcome of training in which all slots are strangers': who reveals what, in which order.

    NOTE: the wrong runs are alike, so the first wrong one is always the same. Slots whose holders reveal nothing do not
    differ from slots that nobody takes, but that the reveal phase lasts to its end.
    """
    for shown in range(1, min(slots, left.stakes) + 1):
        for names in product((RIGHT, *WRONG), repeat=shown):
            wrong = [name for name in names if name != RIGHT]
            if wrong and wrong[0] != WRONG[0]:
                continue
            board = Board(times, slots, replace(left, stakes=left.stakes - shown))
            owners = [_took(board, name) for name in names]
            board.now = board.job.commit_end
            for owner in owners:
                board.reveal(owner)
            board.now = board.job.reveal_end
            yield board


def _took(board: Board, name: str) -> str:
    board.join()
    owner = board.job.trainers[-1].owner
    board.commit(owner, name)
    return owner


def affordable(_: int) -> bool:
    return True


SamplerDecides = Callable[[Board, JobView, Sequence[Refuted]], list[Refuted]]


def decides(board: Board, job: JobView, lies: Sequence[Refuted]) -> list[Refuted]:
    """Decide as the daemon does."""
    return sampler_actions(job, HONEST, lies, board.now, affordable=affordable)


@dataclass
class Sampler:
    """A sampler that draws a wrong interval of every run in ``draws``. It looks at a run from its first claim on.

    ``knows`` of a board: by wrong run the seconds since its first claim, or FOUND; those since data were withheld, -1
    before; and whether the whole run is known.
    """

    slots: int
    draws: tuple[str, ...] = WRONG
    decide: SamplerDecides = decides
    withholds: bool = True
    """Strangers may withhold data, so that it replays the whole."""
    strict: bool = False
    """No run that it has drawn may be accepted, whatever is withheld."""
    lies: dict[str, Refuted] = field(default_factory=lambda: {name: found(name) for name in WRONG})

    def beginnings(self, times: Times, left: Left) -> Iterator[Board]:
        for board in revealed(times, left, self.slots):
            board.knows = (None, None, None)
            yield board

    def _looks(self, board: Board) -> tuple[object, ...]:
        """Return what it knows; a run that has been claimed is looked at."""
        looks = list(board.knows)
        for k, name in enumerate(WRONG):
            if looks[k] is None and name in self.draws and board.group(name) is not None:
                looks[k] = 0
        return tuple(looks)

    def learns(self, board: Board) -> list[Named]:
        board.knows = self._looks(board)
        acts: list[Named] = []
        for k, name in enumerate(WRONG):
            if isinstance(board.knows[k], int):
                acts.append((f"finds {name}", _knows(k, FOUND)))
                if self.withholds and board.knows[k] == board.times.budget:
                    acts.append((f"gets nothing of {name}", _withheld(k)))
        if isinstance(board.knows[2], int):
            acts.append(("has the whole", _knows(2, FOUND)))
        return acts

    def must_learn(self, board: Board) -> bool:
        looks = self._looks(board)
        return board.times.budget in looks[:2] or looks[2] == board.times.whole

    def passes(self, board: Board) -> None:
        board.knows = tuple(k + 1 if isinstance(k, int) else k for k in self._looks(board))

    def wants(self, board: Board) -> Iterator[Named]:
        lies = [self.lies[name] for k, name in enumerate(WRONG) if board.knows[k] is FOUND]
        for lie in self.decide(board, board.view, lies):
            sent = board.deliver(lie)
            if sent is not None:
                yield "refutes", sent
        if board.knows[2] is FOUND:
            yield from whole_runs(board)
        elif JobAction.FINALIZE in closing(board.view, HONEST, board.now):
            yield "finalizes", Board.finalize

    def known(self, board: Board, name: str) -> object:
        if name == RIGHT:
            return board.knows[2], _age(board, result(RIGHT))
        return self._looks(board)[WRONG.index(name)], _age(board, self.lies[name])

    def could_know(self, board: Board, name: str) -> bool:
        # NOTE: where a run's data are withheld, the sampler has its own root alone, and can claim it only if it was
        # claimed before: a new root is admitted in the challenge phase alone (docs/security.md, what is left).
        found_ = board.knows[WRONG.index(name)] is FOUND
        return name in self.draws and (self.strict or found_ or board.group(RIGHT) is not None)


FOUND, WITHHELD = "found", "withheld"


def _knows(k: int, what: object) -> Act:
    def act(board: Board) -> None:
        board.knows = (*board.knows[:k], what, *board.knows[k + 1 :])

    return act


def _withheld(k: int) -> Act:
    def act(board: Board) -> None:
        _knows(k, WITHHELD)(board)
        if board.knows[2] is None:
            _knows(2, 0)(board)

    return act


def _age(board: Board, of: RunClaim) -> object:
    """Return whether the honest party has committed to something, and whether that is old enough."""
    at = board.committed_at(of)
    return None if at is None else board.now > at


@dataclass
class Challenger:
    """A challenger that replays whole runs. It has the right result at some second in the first of the challenge phase.

    ``knows`` of a board: the seconds since the challenge phase began, or FOUND.
    """

    slots: int

    def beginnings(self, times: Times, left: Left) -> Iterator[Board]:
        for board in revealed(times, left, self.slots):
            board.knows = (0,)
            yield board

    def learns(self, board: Board) -> list[Named]:
        return [("has the whole", _knows(0, FOUND))] if isinstance(board.knows[0], int) else []

    def must_learn(self, board: Board) -> bool:
        return board.knows[0] == board.times.whole

    def passes(self, board: Board) -> None:
        board.knows = tuple(k + 1 if isinstance(k, int) else k for k in board.knows)

    def wants(self, board: Board) -> Iterator[Named]:
        if board.knows[0] is FOUND:
            yield from whole_runs(board)

    def known(self, board: Board, name: str) -> object:
        return (board.knows[0], _age(board, result(RIGHT))) if name == RIGHT else None

    def could_know(self, board: Board, name: str) -> bool:
        return True


@dataclass
class Trainer:
    """A trainer: it takes a slot if one is free, and has its result before training ends."""

    slots: int

    def beginnings(self, times: Times, left: Left) -> Iterator[Board]:
        board = Board(times, self.slots, left)
        board.knows = (None,)
        yield board

    def learns(self, board: Board) -> list[Named]:
        mine = board.view.trainer(HONEST)
        return [("has the whole", _knows(0, FOUND))] if mine is not None and board.knows[0] is None else []

    def must_learn(self, board: Board) -> bool:
        return bool(self.learns(board)) and board.now + 1 >= board.job.commit_end

    def passes(self, board: Board) -> None:
        pass

    def wants(self, board: Board) -> Iterator[Named]:
        own = result(RIGHT)
        known = own if board.knows[0] is FOUND else None
        for act in trainer_actions(board.view, HONEST, known, board.now, willing=True):
            sent = sends(board, act, own)
            if sent is not None:
                yield sent
        yield from answers(board)

    def known(self, board: Board, name: str) -> object:
        return board.knows if name == RIGHT else None

    def could_know(self, board: Board, name: str) -> bool:
        return board.view.claim_of(HONEST) is not None
