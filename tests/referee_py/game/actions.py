"""A move of a random game, for the chain and for Python alike, and a way to spoil it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from random import Random
from typing import Any

from eth_utils.address import to_checksum_address

from referee_py import trial as court
from referee_py.commit import Record
from referee_py.game.state import Move
from tests.model.jobs import Match
from tests.model.panel import Hearing

from .chain import Transaction
from .synthetic import value


@dataclass
class Action:
    """One transaction: the same call for the chain and for the model."""

    name: str
    transaction: Transaction
    apply: Callable[[int], object]
    moves: tuple[Move, ...] = ()
    """Moves of the match."""
    match: Match | None = None
    hearing: Hearing | None = None
    trial: int = 0
    pleaded: tuple[court.Move, ...] = ()
    """Moves of the trial."""
    refusal: str | None = None


def address(*parts: object) -> str:
    return str(to_checksum_address(value(*parts)[:20]))


def spoil(rng: Random, thing: Any) -> Any:
    """Return a copy of ``thing`` with one small part wrong."""
    match thing:
        case bool():
            return not thing
        case int():
            return rng.choice([v for v in (thing - 1, thing + 1, thing ^ 1, 0, 255) if 0 <= v < 256])
        case bytes() if len(thing) == 32:
            return rng.choice((bytes(32), rng.randbytes(32)))
        case bytes():
            at = rng.randrange(len(thing)) if thing else 0
            return rng.choice((thing[:-1], thing + b"\0", thing[:at] + rng.randbytes(1) + thing[at + 1 :]))
        case tuple():
            return _spoil_tuple(rng, thing)
        case Record():
            part = rng.choice(("structure", "inputs", "outputs", "log"))
            spoiled = spoil(rng, getattr(thing, part))
            return replace(thing, **{part: spoiled[:8] if part == "outputs" else spoiled})
    assert is_dataclass(thing), thing
    parts = fields(thing)
    if not parts:
        return thing
    name = rng.choice(parts).name
    return replace(thing, **{name: spoil(rng, getattr(thing, name))})  # type: ignore[type-var]


def _spoil_tuple(rng: Random, things: tuple[Any, ...]) -> tuple[Any, ...]:
    if not things:
        return (rng.randbytes(32),)
    more = rng.randbytes(32) if isinstance(things[-1], bytes) else spoil(rng, things[-1])
    k = rng.randrange(len(things))
    return rng.choice(
        (
            things[:-1],
            (*things, more),
            (*things[:k], spoil(rng, things[k]), *things[k + 1 :]),
            tuple(reversed(things)),
        )
    )
