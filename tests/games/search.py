"""All games from given beginnings: every order of everybody's acts at every second, each state once.

States that differ only in names of strangers, in which wrong run is which, or in what is past, are one state.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

from referee_py.jobs import JobPhase
from referee_py.walk.refusals import Refusal

from .board import PLACE, Board, Left, Times
from .roles import Act, Named, Role
from .runs import HONEST, RIGHT, WRONG, found, other

sys.setrecursionlimit(20_000)


@dataclass
class Search:
    """Plays all games of one honest party. ``stated``: strangers also refute with exactly the sampler's statement."""

    role: Role
    times: Times
    left: Left
    stated: bool = True
    most: int | None = None
    """Stop after so many violations."""
    seen: dict[object, tuple[int, int]] = field(default_factory=dict)
    """By state: the most seconds that it can last, and the games that go on from it."""
    ends: Counter[str] = field(default_factory=Counter)
    violations: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    """What was violated, and the acts that led there."""
    games: int = 0
    longest: int = 0
    _path: list[str] = field(default_factory=list)
    _numbers: dict[object, int] = field(default_factory=dict)
    """A short number for each part of a state."""

    def run(self) -> Search:
        for board in self.role.beginnings(self.times, self.left):
            seconds, games = self._go(board)
            self.longest = max(self.longest, seconds)
            self.games += games
        return self

    def _go(self, board: Board) -> tuple[int, int]:
        if self.most is not None and len(self.violations) >= self.most:
            return 0, 0
        if not self._holds(board):
            return 0, 1
        if board.job.ended:
            self.ends[self.ending(board)] += 1
            return 0, 1
        key = self._key(board)
        if key in self.seen:
            return self.seen[key]
        seconds = games = 0
        for name, act, passes in self.steps(board):
            after = board.copied()
            try:
                act(after)
            except Refusal:
                continue
            self._path.append(name)
            lasts, plays = self._go(after)
            self._path.pop()
            seconds, games = max(seconds, lasts + passes), games + plays
        self.seen[key] = seconds, games
        return self.seen[key]

    # --- acts -----------------------------------------------------------------------------------------------------

    def steps(self, board: Board) -> Iterator[tuple[str, Act, int]]:
        """Yield every act, with the seconds that it takes."""
        learns, due = self.role.learns(board), self._due(board)
        for name, act in (*learns, *((due,) if due else ()), *self._strangers(board)):
            yield name, act, 0
        running = board.running()
        if board.over:
            yield "anybody finalizes", Board.finalize, 0
        if (
            due is None
            and not board.over
            and not self.role.must_learn(board)
            and not any(board.late(k) for k, _ in running)
        ):
            yield "a second", self._passes, 1

    def _due(self, board: Board) -> Named | None:
        """Return the first thing that the honest party's node sends now: it sends nothing that is refused."""
        for name, act in self.role.wants(board):
            try:
                act(board.copied())
            except Refusal:
                continue
            return name, act
        return None

    def _passes(self, board: Board) -> None:
        self.role.passes(board)
        board.now += 1

    def _strangers(self, board: Board) -> Iterator[Named]:
        match board.phase:
            case JobPhase.TRAINING:
                yield from self._training(board)
                return
            case JobPhase.REVEAL:
                for trainer in board.job.trainers:
                    if trainer.owner in board.chosen and trainer.owner != HONEST and not trainer.revealed:
                        yield f"reveals {board.chosen[trainer.owner]}", partial(_reveals, trainer.owner)
                return
        # NOTE: the wrong runs are alike, so the first one is always the same.
        first = board.group(WRONG[0]) is None
        names = (RIGHT, WRONG[0]) if first else (RIGHT, *WRONG)
        for name in names if board.left.stakes else ():
            yield f"claim of {name}", partial(_claims, name)
        for name in names if board.left.stakes else ():
            group = board.group(name)
            if group is None or group.dead:
                continue
            yield f"refutation of {name}", partial(_refutes, other(name))
            if self.stated and name != RIGHT:
                yield f"right refutation of {name}", partial(_refutes, found(name))
        for number, playing in board.running():
            for losers in board.results(playing):
                lost = "+".join(board.named(g) for side, g in enumerate(playing.groups) if losers >> side & 1)
                yield f"{lost} loses match {number}", partial(_ends, number, losers)
        for name in (RIGHT, *WRONG):
            request, group = board.requested(name), board.group(name)
            if request is None:
                if board.left.requests and group is not None and not group.dead:
                    yield f"request of {name}", partial(_requests, name)
            elif board.now <= request.until:
                yield f"answer of {name}", partial(_answers, name)
            else:
                yield f"{name} is withheld", partial(_closes, name)

    def _training(self, board: Board) -> Iterator[Named]:
        if board.left.stakes and len(board.job.trainers) < board.job.terms.slots:
            yield "joins", _joins
        names = (RIGHT, *WRONG) if WRONG[0] in board.chosen.values() else (RIGHT, WRONG[0])
        idle = [t.owner for t in board.job.trainers if t.owner not in board.chosen and t.owner != HONEST]
        for owner in idle[:1]:
            for name in names:
                yield f"commits to {name}", partial(_commits, owner, name)

    # --- what must hold -------------------------------------------------------------------------------------------

    def _holds(self, board: Board) -> bool:
        told = self.wrong(board)
        if told is not None:
            self.violations.append((told, tuple(self._path)))
        return told is None

    def wrong(self, board: Board) -> str | None:
        """Return what is violated, or None."""
        job, model = board.job, board.model
        lost = [one for one in job.claims if one.owner == HONEST and one.lost]
        if lost:
            return f"the honest party loses {lost[0].stake} wei"
        held = sum(model.credits.values()) + model.at_risk()
        assert held == job.reward + board.staked, (held, job.reward + board.staked)
        if not job.ended:
            return None
        if job.accepted is not None:
            name = board.named(job.accepted)
            if name != RIGHT and self.role.could_know(board, name):
                return f"{name} is accepted"
        got = model.credits.get(HONEST, 0)
        if got < board.paid:
            return f"the honest party gets {got} of {board.paid} wei"
        return None

    def ending(self, board: Board) -> str:
        accepted = board.job.accepted
        return (
            board.job.ended.name
            if accepted is None
            else f"accepted {'right' if board.named(accepted) == RIGHT else 'wrong'}"
        )

    # --- states ---------------------------------------------------------------------------------------------------

    def _key(self, board: Board) -> object:
        """Return all that matters of a state. NOTE: instants are relative to now, and past ones zero."""
        job, now = board.job, board.now
        wrong = sorted(self._number(self._of(board, name)) for name in WRONG)
        if in_training(board):
            trainers = tuple((t.owner == HONEST, board.chosen.get(t.owner), t.revealed) for t in job.trainers)
        else:
            trainers = ()
        whole = (
            *(
                max(at - now, 0)
                for at in (job.commit_end, job.reveal_end, job.challenge_end, job.reclaim_end)
            ),
            *(bool(job.reopened), board.left, trainers, any(t.revealed for t in job.trainers)),
        )
        return self._number(whole), self._number(self._of(board, RIGHT)), *wrong

    def _number(self, part: object) -> int:
        return self._numbers.setdefault(part, len(self._numbers))

    def _of(self, board: Board, name: str) -> object:
        """Return all that matters of a run. NOTE: nothing in it names the run."""
        job, group = board.job, board.group(name)
        request = board.requested(name)
        asked = None if request is None else (max(request.until - board.now, -1), request.life)
        known = (
            self.role.known(board, name),
            asked,
            (board.subject(name), PLACE) in board.model.data_availability.requests,
        )
        if group is None:
            return known
        life = group.deaths if known[2] or board.left.requests else 0
        number = job.groups.index(group)
        playing: object = None
        if group.match_id:
            match = board.model.matches[group.match_id]
            against = match.groups[0] if match.groups[1] == number else match.groups[1]
            told = board.named(against)
            if told == "/":
                playing = self._refutation(board, against, name), board.now - board.opened[group.match_id]
            else:
                playing = told == RIGHT, board.now - board.opened[group.match_id]
        return (
            *(known, life, group.spokesman > 0, job.waiting == number, playing),
            *(max(at - board.now, 0) for at in (group.until, group.refutable_until)),
            tuple(job.claims[k].owner == HONEST for k in group.members[group.spokesman :]),
            tuple(self._refutation(board, k, name) for k in group.queue[group.next :]),
        )

    def _refutation(self, board: Board, number: int, name: str) -> tuple[bool, bool]:
        """Return whether a refutation is the honest party's, and whether it states what the sampler would."""
        group = board.job.groups[number]
        mine = board.job.claims[group.members[0]].owner == HONEST
        return mine, name != RIGHT and group.root == found(name).root


def _claims(name: str, board: Board) -> None:
    board.claims(name)


def _refutes(told: object, board: Board) -> None:
    board.refutes(told)  # type: ignore[arg-type]


def _ends(number: int, losers: int, board: Board) -> None:
    board.ends(number, losers)


def _reveals(owner: str, board: Board) -> None:
    board.reveal(owner)


def _joins(board: Board) -> None:
    board.join()
    board.spend()


def _commits(owner: str, name: str, board: Board) -> None:
    board.commit(owner, name)


def _requests(name: str, board: Board) -> None:
    board.request(name)


def _answers(name: str, board: Board) -> None:
    board.answer(name)


def _closes(name: str, board: Board) -> None:
    board.close(name)


def in_training(board: Board) -> bool:
    return board.phase in (JobPhase.TRAINING, JobPhase.REVEAL)
