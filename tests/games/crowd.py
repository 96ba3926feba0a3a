"""Games at random, of many strangers: up to six strangers with three accounts each, and servers of all kinds."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from enum import StrEnum
from random import Random

from referee_py.walk.refusals import Refusal

from .board import Board, Left, Times
from .roles import Challenger, Role, Sampler, Trainer, train
from .runs import RIGHT, WRONG
from .search import Search

ACCOUNTS = 6 * 3


class Server(StrEnum):
    """What strangers serve of a run."""

    RIGHT = "right"
    LATE = "late"
    SHAPE = "another shape"
    WRONG = "wrong"
    NOTHING = "nothing"

    def lets(self, name: str, board: Board, known: object) -> bool:
        """Return whether what a sampler learns of a run can come of this server, at this instant."""
        if name.startswith("finds"):
            in_time = self in (Server.RIGHT, Server.SHAPE) or known == board.times.budget
            return self not in (Server.WRONG, Server.NOTHING) and in_time
        return self in (Server.WRONG, Server.NOTHING) if name.startswith("gets") else True


@dataclass
class Played:
    """Games that were played. ``lost``: what went wrong, with the seed of its game."""

    games: int = 0
    acts: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    servers: Counter[str] = field(default_factory=Counter)
    lost: list[tuple[object, str]] = field(default_factory=list)


def times_of(rng: Random) -> Times:
    """Return periods in which a run can be replayed and claimed once its data are withheld."""
    age, budget, whole = rng.randint(0, 2), rng.randint(1, 4), rng.randint(0, 4)
    return Times(age + budget + whole + rng.randint(2, 12), rng.randint(1, 40), budget, whole, age)


def play(seed: object, played: Played, draws: tuple[str, ...] = WRONG) -> Board:
    """Play one game to its end. ``draws``: the runs of which a sampler draws a wrong interval."""
    rng = Random(repr(seed))
    slots = rng.randint(1, 6)
    roles: list[Role] = [Sampler(slots, draws), Sampler(slots, draws), Challenger(slots), Trainer(slots)]
    role = rng.choice(roles)
    return go(rng, role, slots, seed, played)


def go(
    rng: Random,
    role: Role,
    slots: int,
    seed: object,
    played: Played,
    first: str | None = None,
    on_chain: Board | None = None,
) -> Board:
    """Play a game of this honest party. ``first``: the run that the first slot reveals, if that is fixed; ``on_chain``:
    the job, where what is sent is recorded for a chain, on which matches are decided by time."""
    times = times_of(rng) if on_chain is None else on_chain.times
    left = Left(rng.randint(slots, ACCOUNTS), rng.randint(0, 3)) if on_chain is None else on_chain.left
    search = Search(role, times, left)
    board = Board(times, slots, left) if on_chain is None else on_chain
    if not isinstance(role, Trainer):
        names = [rng.choice((RIGHT, *WRONG)) for _ in range(rng.randint(1, min(slots, left.stakes)))]
        board.left = replace(left, stakes=left.stakes - len(names))
        train(board, [first or names[0], *names[1:]])
    role.begins(board)
    servers = {name: rng.choice(list(Server)) for name in WRONG}
    played.servers.update(servers.values())
    eager = rng.choice((0.2, 1.0, 4.0))
    played.games += 1
    while not board.job.ended:
        acts = [step for step in search.steps(board) if _allowed(step[0], board, servers)]
        if on_chain is not None:
            acts = [
                step
                for step in acts
                if " loses match " not in step[0] or board.late(int(step[0].split()[-1]))
            ]
        weights = [1.0 if name == "a second" else eager for name, _, _ in acts]
        # NOTE: a position without acts is a fault of the game.
        name, act, _ = rng.choices(acts, weights)[0]
        after = board.copied()
        try:
            act(after)
        except Refusal:
            continue
        board = after
        played.acts[_kind(name)] += 1
        told = search.wrong(board)
        if told is not None:
            played.lost.append((seed, told))
            return board
    played.ends[search.ending(board)] += 1
    return board


def _allowed(name: str, board: Board, servers: dict[str, Server]) -> bool:
    of = name.split()[-1]
    known = board.knows[WRONG.index(of)] if of in WRONG and len(board.knows) > 1 else None
    return of not in WRONG or servers[of].lets(name, board, known)


def _kind(name: str) -> str:
    return (
        "a match ends"
        if " loses match" in name
        else " ".join(w for w in name.split() if w not in (RIGHT, *WRONG))
    )
