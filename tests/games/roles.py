"""The honest party of a game: what it knows, and what its daemon does. All decisions are the daemons' own functions.

What a party comes to know depends on strangers, who serve a run's data right and at once, late up to the budget of the
work, of another shape, wrong, or not at all (docs/security.md, the table of waits):

    at once, another shape      the sampler's finding is there
    late                        it comes at any second until the budget ends
    wrong, nothing              the budget ends; the sampler replays the whole
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Protocol

from referee_py.execute import RunClaim
from trainer_node.chain import JobView
from trainer_node.play.actions import JobAction, challenger_actions, closing, trainer_actions
from trainer_node.roles.sampling.budget import Means
from trainer_node.roles.sampling.decide import at_large, claimable_s, forsaken, sampler_actions
from trainer_node.run.cost_estimate import MARGIN
from trainer_node.run.refutation import Refuted
from trainer_node.settings.extent import Mode

from .board import Board, Left, Times
from .runs import HONEST, RIGHT, ROOTS, WRONG, found, result

Act = Callable[[Board], None]
Named = tuple[str, Act]


class Role(Protocol):
    """An honest party. ``knows`` of a board is what this role keeps there."""

    def begins(self, board: Board) -> Board:
        """Return a board on which it knows nothing yet."""
        ...

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

    def could_know(self, board: Board, name: str, /) -> bool:
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


def challenges(board: Board) -> list[JobAction]:
    """Decide as the challenger's daemon does."""
    return challenger_actions(board.view, HONEST, result(RIGHT), Mode.CHALLENGE, board.now)


def whole_runs(board: Board, decide: Callable[[Board], list[JobAction]] = challenges) -> Iterator[Named]:
    """Yield what a challenger sends that has the right result."""
    own = result(RIGHT)
    for act in decide(board):
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
            if not wrong or wrong[0] == WRONG[0]:
                yield trained(times, left, slots, names)


def trained(times: Times, left: Left, slots: int, names: Sequence[str]) -> Board:
    """Return a board at the end of its reveal phase, in which strangers have revealed these runs."""
    return train(Board(times, slots, replace(left, stakes=left.stakes - len(names))), names)


def train(board: Board, names: Sequence[str]) -> Board:
    """Let strangers take slots of a job, and reveal these runs."""
    owners = [_took(board, name) for name in names]
    board.now = board.job.commit_end
    for owner in owners:
        board.reveal(owner)
    board.now = board.job.reveal_end
    return board


def _took(board: Board, name: str) -> str:
    board.join()
    owner = board.job.trainers[-1].owner
    board.commit(owner, name)
    return owner


def affordable(_: int, __: object) -> bool:
    return True


SamplerDecides = Callable[[Board, JobView, Sequence[Refuted]], list[Refuted]]


def decides(board: Board, job: JobView, lies: Sequence[Refuted]) -> list[Refuted]:
    """Decide as the daemon does."""
    return sampler_actions(job, HONEST, lies, board.now, affordable=affordable)


def time_to_claim(board: Board, wrong: set[bytes]) -> float:
    """Return what the daemon computes."""
    return claimable_s(board.view, wrong, board.now)


FOUND, WITHHELD = "found", "withheld"
ROOTS_OF_LIES = tuple(ROOTS[name] for name in WRONG)


@dataclass
class Sampler:
    """A sampler that draws a wrong interval of every run in ``draws``. It looks at a run from its first claim on, as
    long as its budget lasts; it replays the whole if the daemon would (`Means`), where data are withheld or nobody
    claims a run that may be right.

    ``knows`` of a board: by wrong run the seconds since its first claim, FOUND, or WITHHELD; and of the whole run the
    seconds since its replay began, or FOUND.
    """

    slots: int
    draws: tuple[str, ...] = WRONG
    decide: SamplerDecides = decides
    withholds: bool = True
    """Strangers may withhold data, so that it replays the whole."""
    replays: bool = True
    """It would replay a whole run. One that does not has its refutations alone."""
    time_left: Callable[[Board, set[bytes]], float] = time_to_claim
    """The seconds in which the daemon believes that the whole can be claimed, and the roots that it has found wrong."""

    def begins(self, board: Board) -> Board:
        board.knows = (None, None, None)
        return board

    def beginnings(self, times: Times, left: Left) -> Iterator[Board]:
        yield from map(self.begins, revealed(times, left, self.slots))

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
        if self.replays and board.knows[2] is None and self.begins_whole(board):
            _knows(2, 0)(board)
        if isinstance(board.knows[2], int):
            acts.append(("has the whole", _knows(2, FOUND)))
        return acts

    def must_learn(self, board: Board) -> bool:
        return board.times.budget in board.knows[:2] or board.knows[2] == board.times.whole

    def passes(self, board: Board) -> None:
        board.knows = tuple(k + 1 if isinstance(k, int) else k for k in self._looks(board))

    def wants(self, board: Board) -> Iterator[Named]:
        lies = [found(name) for k, name in enumerate(WRONG) if board.knows[k] is FOUND]
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
        return self._looks(board)[WRONG.index(name)], _age(board, found(name))

    def could_know(self, board: Board, name: str) -> bool:
        # NOTE: a lie that it has not drawn may be accepted, and so another in its place.
        claimed = {other for other in WRONG if board.group(other) is not None}
        return name in self.draws and claimed <= set(self.draws)

    def begins_whole(self, board: Board) -> bool:
        """Return whether the daemon begins to replay the whole: a run is withheld that may still be accepted, or no
        claimed run may be the right one; and there is time to claim another."""
        view, knows = board.view, dict(zip(ROOTS_OF_LIES, board.knows[:2], strict=True))
        groups = [(known, view.group_of_root(root)) for root, known in knows.items()]
        withheld = any(
            known is WITHHELD and g is not None and at_large(view, g, board.now) for known, g in groups
        )
        wrong = {root for root, known in knows.items() if known is FOUND}
        passed = {root for name, root in ROOTS.items() if name not in self.draws}
        means, whole = Means(commit_age=board.times.age), board.times.whole / MARGIN
        # NOTE: a claim comes before the end, not at it, which matters where a period has four seconds.
        left = self.time_left(board, wrong) - 1
        last = not means.takes_whole(whole, left - 1)
        due = withheld or forsaken(view, wrong, passed, last_moment=last)
        return due and means.takes_whole(whole, left)


def _knows(k: int, what: object) -> Act:
    def act(board: Board) -> None:
        board.knows = (*board.knows[:k], what, *board.knows[k + 1 :])

    return act


def _withheld(k: int) -> Act:
    """Let the budget of a run's data end. The daemon replays the whole once there is time to claim what it may find."""
    return _knows(k, WITHHELD)


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
    decide: Callable[[Board], list[JobAction]] = challenges

    def begins(self, board: Board) -> Board:
        board.knows = (0,)
        return board

    def beginnings(self, times: Times, left: Left) -> Iterator[Board]:
        yield from map(self.begins, revealed(times, left, self.slots))

    def learns(self, board: Board) -> list[Named]:
        return [("has the whole", _knows(0, FOUND))] if isinstance(board.knows[0], int) else []

    def must_learn(self, board: Board) -> bool:
        return board.knows[0] == board.times.whole

    def passes(self, board: Board) -> None:
        board.knows = tuple(k + 1 if isinstance(k, int) else k for k in board.knows)

    def wants(self, board: Board) -> Iterator[Named]:
        if board.knows[0] is FOUND:
            yield from whole_runs(board, self.decide)

    def known(self, board: Board, name: str) -> object:
        return (board.knows[0], _age(board, result(RIGHT))) if name == RIGHT else None

    def could_know(self, _: Board, __: str) -> bool:
        return True


@dataclass
class Trainer:
    """A trainer: it takes a slot if one is free, and has its result before training ends."""

    slots: int
    responds: bool = True

    def begins(self, board: Board) -> Board:
        board.knows = (None,)
        return board

    def beginnings(self, times: Times, left: Left) -> Iterator[Board]:
        yield self.begins(Board(times, self.slots, left))

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
        if self.responds:
            yield from answers(board)

    def known(self, board: Board, name: str) -> object:
        return board.knows if name == RIGHT else None

    def could_know(self, board: Board, _: str) -> bool:
        return board.view.claim_of(HONEST) is not None
