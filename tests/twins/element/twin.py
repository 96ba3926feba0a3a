"""Chains of the Python twin: states, and the operands that each step reads."""

from __future__ import annotations

from dataclasses import dataclass

from referee_py.element import Case, Read, rule_of

from .chain import Opened


@dataclass(frozen=True)
class Piece:
    """Steps `start`, `start + 1` ... of a chain: step start + i makes states[i + 1] from states[i]."""

    start: int
    states: list[bytes]
    opened: list[list[Opened]]


def piece(case: Case, read: Read, start: int, state: bytes, count: int) -> Piece:
    """Run `count` steps from a state."""
    rule = rule_of(case)
    states, opened = [state], list[list[Opened]]()
    for t in range(start, start + count):
        taken: list[Opened] = []

        def recorded(place: int, element: int, taken: list[Opened] = taken) -> int:
            bits = read(place, element)
            taken.append((place, element, bits))
            return bits

        states.append(rule.step(case, t, states[-1], recorded))
        opened.append(taken)
    return Piece(start, states, opened)


def whole(case: Case, read: Read) -> Piece:
    """Run every step."""
    rule = rule_of(case)
    return piece(case, read, 0, rule.begin(case), rule.length(case))


def finished(case: Case, chain: Piece) -> int:
    """Return the element of a whole chain."""
    return rule_of(case).finish(case, chain.states[-1])


def cut(chain: Piece, size: int, pieces: list[int]) -> list[Piece]:
    """Return pieces of `size` steps from each of these places on."""
    return [
        Piece(start, chain.states[start : start + size + 1], chain.opened[start : start + size])
        for start in pieces
    ]
