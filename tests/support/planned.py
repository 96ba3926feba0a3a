"""What a solver returns, for moves that no solver has chosen, and what moves publish."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from referee_py.errors import AssayError
from referee_py.game.player_data import ChainLog
from referee_py.game.state import MatchState, Move, OpenRecord, Reveal

M = TypeVar("M")
S = TypeVar("S")


def planned(state: S, moves: Iterable[M], apply: Callable[[S, M], S]) -> Iterator[tuple[M, S]]:
    """Yield each move of one transaction with the state before it.

    NOTE: moves after one that the rules refuse come with its state; the transaction fails before they are reached.
    """
    for move in moves:
        yield move, state
        try:
            state = apply(state, move)
        except AssayError:
            continue


def moves_of(pairs: Iterable[tuple[M, S]]) -> list[M]:
    """Return the moves without the states that they expect."""
    return [move for move, _ in pairs]


def observe(log: ChainLog, before: MatchState, move: Move, after: MatchState) -> None:
    """Add what an accepted move publishes, given the states before and after it."""
    match move:
        case Reveal():
            log.children[move.side] = move.children
        case OpenRecord():
            log.records[before.node[move.side]] = move.record
    if (before.root, before.height, before.index) != (after.root, after.height, after.index):
        log.children = [None, None]
