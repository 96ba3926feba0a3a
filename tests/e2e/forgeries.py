"""Forged rounding logs: each is a function from the forger's view of a node to the log and the lie.

said      the log that the run commits to; None: no log
applied   the entries that the liar follows to the letter, valid or not
recorded  the log that the node's record names, if it differs
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import cast

import numpy as np

from referee_py.commit import Tag, digest
from referee_py.commit.tensor import Array
from referee_py.program.modes import Form, Rounding
from referee_py.rounding.entries import Log
from referee_py.rounding.primitives import F64, quantum, unsigned_zero
from referee_py.rounding.step_log import NodeLog
from referee_py.walk.reason import Reason

from . import brink
from .brink import NEAR, PLAIN, Z, at

IN_BAND = [row for row in brink.ROWS if abs(NEAR.get(row.removesuffix(" 2"), 9.0)) < 1]


class Gone(StrEnum):
    """The consequence if the liar follows its forgery."""

    IDLE = "idle"  # the entries say what holds without them
    ADMITTED = "admitted"  # the entries count: they define the run
    TOLD = "told"  # disputed and lost; the first ignored entry is named
    UNREAD = "unread"  # disputed and lost; the log has no entry that could be named


@dataclass(frozen=True)
class Sight:
    """A node of the forged step, as its trainer computes it.

    `x` is its evaluation, `own` its rounding, `log` the log that an honest trainer would write; `again` gives the
    honest log of another operand.
    """

    rounding: Rounding
    x: F64
    own: F64
    log: Log
    operand: Array
    again: Callable[[Array], Log]

    def opposite(self, place: int) -> bool:
        """Return whether the opposite of the rounding's direction is up."""
        return not self.own.flat[place] > self.x.flat[place]

    def off(self, row: str, quanta: float) -> float:
        """Return a value this many quanta further from zero than the node's own."""
        own = self.own[at(row) : at(row) + 1]
        return float(own[0] + np.sign(own[0]) * quanta * quantum(own, self.rounding.bits)[0])

    def node_log(self, log: Log) -> NodeLog:
        return NodeLog.of(log, self.rounding.form)

    def turned(self) -> Log:
        """Return the honest log with all directions reversed that may be either."""
        return with_entries(self.log, {at(row): self.opposite(at(row)) for row in IN_BAND})


@dataclass(frozen=True)
class Forged:
    said: NodeLog | None
    applied: Log
    recorded: NodeLog | None = None


@dataclass(frozen=True)
class Forgery:
    make: Callable[[Sight], Forged]
    gone: Gone
    node: int = brink.Y
    reason: Reason = Reason.OPERATOR
    step: int = 3
    """PLAIN is forged in a committed step: in other steps the executor does not call the forger for single nodes."""
    most_bits: int = 32


def with_entries(log: Log, entries: dict[int, bool | float]) -> Log:
    """Return the log with these entries, directions or values, in place of those of the same elements."""
    narrow = dict(zip(log.narrow.tolist(), log.up.tolist(), strict=True))
    wide = dict(zip(log.wide.tolist(), log.values.tolist(), strict=True))
    for place, entry in entries.items():
        narrow.pop(place, None)
        wide.pop(place, None)
        if isinstance(entry, bool):
            narrow[place] = entry
        else:
            wide[place] = entry
    places, written = sorted(narrow), sorted(wide)
    return Log(
        log.elements,
        np.array(places, np.int64),
        np.array([narrow[place] for place in places], np.bool_),
        np.array(written, np.int64),
        np.array([wide[place] for place in written], np.float64),
    )


def to_the_letter(sight: Sight, log: Log) -> Array:
    """Return the output that a log asks for, from any author: f32, flat."""
    x, values = sight.x.reshape(-1), unsigned_zero(sight.own.reshape(-1))
    inside = log.narrow < x.size
    places = log.narrow[inside]
    finite = np.where(np.isfinite(x[places]), x[places], 0.0)
    step = quantum(finite, sight.rounding.bits)
    nearest = np.where(log.up[inside], np.ceil(finite / step), np.floor(finite / step)) * step
    on_grid = nearest == finite  # NOTE: a liar who is told to go up goes up
    values[places] = np.where(on_grid, nearest + np.where(log.up[inside], step, -step), nearest)
    inside = log.wide < x.size
    values[log.wide[inside]] = log.values[inside]
    return values.astype(np.float32)


# ------------------------------------------------------------------------------------------------ entries


def entries(choose: Callable[[Sight], dict[int, bool | float]]) -> Callable[[Sight], Forged]:
    """Return a forgery of the right form, with some entries chosen by the forger."""

    def make(sight: Sight) -> Forged:
        log = with_entries(sight.log, choose(sight))
        return Forged(sight.node_log(log), log)

    return make


def flipped(*rows: str) -> Callable[[Sight], Forged]:
    return entries(lambda sight: {at(row): sight.opposite(at(row)) for row in rows})


def written(row: str, value: Callable[[Sight], float]) -> Callable[[Sight], Forged]:
    return entries(lambda sight: {at(row): value(sight)})


def _all_flipped(sight: Sight) -> Forged:
    log = with_entries(sight.log, {place: sight.opposite(place) for place in sight.log.narrow.tolist()})
    return Forged(sight.node_log(log), log)


def _everything_written(sight: Sight) -> Forged:
    finite = np.flatnonzero(np.isfinite(sight.own))
    log = with_entries(sight.log, {place: float(sight.own[place]) for place in finite.tolist()})
    return Forged(sight.node_log(log), log)


def _shifted(sight: Sight) -> Forged:
    log = sight.log
    moved = Log(log.elements, log.narrow + 1, log.up, log.wide + 1, log.values)
    assert max(moved.narrow.max(), moved.wide.max()) < log.elements
    return Forged(sight.node_log(moved), moved)


def _transposed(sight: Sight) -> Forged:
    rows, columns = sight.x.shape
    places = (
        np.arange(rows * columns).reshape(rows, columns).T.reshape(-1)
    )  # the old element at each place of the transposed output
    known = dict(zip(sight.log.narrow.tolist(), sight.log.up.tolist(), strict=True))
    found = {place: known[old] for place, old in enumerate(places.tolist()) if old in known}
    log = with_entries(Log.empty(sight.x.size), found)
    return Forged(sight.node_log(log), log)


# --------------------------------------------------------------------------------- logs of something else


def elsewhere(operand: Callable[[Array], Array]) -> Callable[[Sight], Forged]:
    """Return a forgery with the honest log of the same operator on another operand."""

    def make(sight: Sight) -> Forged:
        log = sight.again(np.ascontiguousarray(operand(sight.operand)))
        return Forged(sight.node_log(log), log)

    return make


def _of_a_longer_node(sight: Sight) -> Forged:
    """Forge with the log of the product, which has three times as many elements."""
    turned = sight.turned()
    log = replace(turned, elements=3 * turned.elements)
    return Forged(sight.node_log(log), log)


def _none(sight: Sight) -> Forged:
    return Forged(None, sight.turned())


def _recorded_only(sight: Sight) -> Forged:
    """Commit the run to the honest log, and the node's record to the log that it was computed with."""
    turned = sight.turned()
    return Forged(sight.node_log(sight.log), turned, sight.node_log(turned))


def _of_a_node_without(sight: Sight) -> Forged:
    log = with_entries(Log.empty(sight.x.size), {0: 2 * float(sight.x.flat[0]) + 1})
    return Forged(sight.node_log(log), log)


def _other_form(sight: Sight) -> Forged:
    """Write the same log in the form that the job's mode does not name."""
    log, other = sight.turned(), Form.DENSE if sight.rounding.form is Form.SPARSE else Form.SPARSE
    return Forged(NodeLog.of(log, other), log)


def _one_more(sight: Sight) -> Forged:
    log = sight.turned()
    return Forged(sight.node_log(replace(log, elements=log.elements + 1)), log)


# ------------------------------------------------------------------------------- logs that nobody can read


@dataclass(frozen=True)
class Unreadable(NodeLog):
    """A log committed to with a hash that no log has."""

    def entries(self, elements: int) -> Log:
        return Log.empty(elements)

    @property
    def digest(self) -> bytes:
        return digest(Tag.ROUNDING_LOG, self.canonical)


def unreadable(damage: Callable[[NodeLog], NodeLog]) -> Callable[[Sight], Forged]:
    """Return a forgery with an unreadable log, which its liar follows nevertheless."""

    def make(sight: Sight) -> Forged:
        log = sight.turned()
        bad = damage(sight.node_log(log))
        return Forged(Unreadable(bad.form, bad.elements, bad.canonical), log)

    return make


def damaged(change: Callable[[bytes], bytes]) -> Callable[[NodeLog], NodeLog]:
    return lambda log: replace(log, canonical=change(log.canonical))


def _beyond_the_output(log: NodeLog) -> NodeLog:
    """Declare the right number of elements, but add an entry beyond it."""
    longer = with_entries(replace(log.read(), elements=log.elements + 50), {log.elements + 40: 1.0})
    return replace(NodeLog.of(longer, log.form), elements=log.elements)


def _long_varint(log: NodeLog) -> NodeLog:
    """Use one byte more than needed for the number of wide entries."""
    place = 1 if log.form is Form.SPARSE else -(-log.elements // 5)
    long = log.canonical[:place] + bytes([log.canonical[place] | 0x80, 0]) + log.canonical[place + 1 :]
    return replace(log, canonical=long)


def _mislabelled(log: NodeLog) -> NodeLog:
    return replace(log, form=Form(1 - log.form))


DAMAGES: dict[str, Callable[[NodeLog], NodeLog]] = {
    "truncated": damaged(lambda b: b[:-1]),
    "trailing bytes": damaged(lambda b: b + b"\0"),
    "a varint longer than needed": _long_varint,
    "no bytes at all": damaged(lambda _: b""),
    "noise": damaged(lambda b: np.random.default_rng(5).bytes(len(b))),
    "an unknown form": lambda log: replace(log, form=cast(Form, 7)),
    "another form than it says": _mislabelled,
    "a position beyond the output": _beyond_the_output,
    "2^39 elements": lambda log: replace(NodeLog.of(log.read(), Form.SPARSE), elements=1 << 39),
    "more bytes than entries of every element could take": damaged(lambda b: b + bytes(1 << 20)),
}
"""Damage that makes a log file unreadable: it counts as no file."""

FORGERIES: dict[str, Forgery] = {
    # directions
    "one direction in the band": Forgery(flipped("above"), Gone.ADMITTED),
    "all directions in the band": Forgery(flipped(*IN_BAND), Gone.ADMITTED),
    "a direction just beyond the radius": Forgery(flipped("beyond"), Gone.TOLD),
    "a direction just short of it": Forgery(flipped("short"), Gone.TOLD),
    "a direction far outside the band": Forgery(flipped("far"), Gone.TOLD),
    "all directions": Forgery(_all_flipped, Gone.TOLD),
    "a direction of a value on the grid": Forgery(flipped("grid"), Gone.UNREAD),
    # values
    "a value that says what is": Forgery(_everything_written, Gone.IDLE),
    "a value, one quantum off, within the radius": Forgery(
        written("vast", lambda s: s.off("vast", 1)), Gone.ADMITTED
    ),
    "a value, one quantum off": Forgery(written("plain", lambda s: s.off("plain", 1)), Gone.TOLD),
    "a value, two quanta off, where one is right": Forgery(
        written("wide", lambda s: s.off("wide", 2)), Gone.TOLD
    ),
    "a value far off": Forgery(written("vast", lambda s: s.off("vast", 1e5)), Gone.TOLD),
    "a value of the other sign": Forgery(written("plain", lambda s: -s.off("plain", 0)), Gone.TOLD),
    "a value off the grid": Forgery(written("vast", lambda s: s.off("vast", 0.5)), Gone.TOLD, most_bits=31),
    "NaN": Forgery(written("vast", lambda _: np.nan), Gone.TOLD),
    "minus zero": Forgery(written("zero", lambda _: -0.0), Gone.TOLD),
    "infinity": Forgery(written("wide", lambda _: np.inf), Gone.TOLD),
    "a finite value for an infinite one": Forgery(written("infinite", lambda _: 1.0), Gone.TOLD),
    # places
    "positions shifted by one": Forgery(_shifted, Gone.TOLD),
    "positions of the transposed output": Forgery(_transposed, Gone.TOLD, node=Z),
    # logs of something else
    "the log of another node": Forgery(elsewhere(lambda x: x[::-1]), Gone.TOLD),
    "the log of a longer node": Forgery(_of_a_longer_node, Gone.UNREAD),
    "the log of the step before": Forgery(elsewhere(lambda x: x * np.float32(-0.5)), Gone.TOLD),
    "the log of another run": Forgery(elsewhere(lambda x: np.roll(x, 4, axis=0)), Gone.TOLD),
    "no log where outputs need one": Forgery(_none, Gone.UNREAD),
    "a log of a node that has none": Forgery(_of_a_node_without, Gone.UNREAD, node=PLAIN, step=4),
    "a record that names another log than the run": Forgery(_recorded_only, Gone.UNREAD, reason=Reason.LOG),
    "one element more": Forgery(_one_more, Gone.UNREAD),
    # the way it travels
    "the form of other jobs": Forgery(_other_form, Gone.ADMITTED),
}

UNREADABLE = {name: Forgery(unreadable(damage), Gone.UNREAD) for name, damage in DAMAGES.items()}
