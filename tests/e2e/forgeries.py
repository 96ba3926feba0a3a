"""Forged rounding logs: each a function from what the forger sees of a node to what it says and does.

said      the log that the run commits to; None: none at all
applied   the entries that the liar goes by, to the letter, whatever the log is worth
recorded  the log that the node's record names, where that is another one
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from referee_py.commit.tensor import Array
from referee_py.game.state import Reason
from referee_py.rounding import forms
from referee_py.rounding.entries import Log
from referee_py.rounding.mode import Form, Rounding
from referee_py.rounding.primitives import F64, quantum, unsigned_zero
from referee_py.rounding.step_log import NodeLog

from . import brink
from .brink import NEAR, PLAIN, Z, at

IN_BAND = [row for row in brink.ROWS if abs(NEAR.get(row.removesuffix(" 2"), 9.0)) < 1]


class Gone(StrEnum):
    """What comes of it if the liar goes by its forgery."""

    IDLE = "idle"  # the entries say what would be without them
    ADMITTED = "admitted"  # the entries count: that is what the run is
    TOLD = "told"  # disputed and lost; the first entry that was ignored is named
    UNREAD = "unread"  # disputed and lost; the log says nothing that could be named


@dataclass(frozen=True)
class Sight:
    """A node of the forged step, as its trainer computes it.

    `x` is its evaluation, `own` what that is rounded to, `log` what an honest trainer would write; `again` gives the
    log that it would write of another operand.
    """

    rounding: Rounding
    x: F64
    own: F64
    log: Log
    operand: Array
    again: Callable[[Array], Log]

    @property
    def form(self) -> int:
        return forms.FORMAT[self.rounding.form]

    def opposite(self, place: int) -> bool:
        """The direction that it was not rounded in: whether that is up."""
        return not self.own.flat[place] > self.x.flat[place]

    def off(self, row: str, quanta: float) -> float:
        """A value so many quanta further from zero than its own."""
        own = self.own[at(row) : at(row) + 1]
        return float(own[0] + np.sign(own[0]) * quanta * quantum(own, self.rounding.bits)[0])

    def pack(self, log: Log) -> bytes:
        canonical = forms.pack(log, self.rounding.form)
        assert canonical is not None, "the forger has something to say"
        return canonical

    def node_log(self, log: Log) -> NodeLog:
        return NodeLog(self.form, self.x.size, self.pack(log))

    def turned(self) -> Log:
        """The honest log, with all directions that may be either turned round."""
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
    """PLAIN is forged in a step that is always committed to: others do not show single nodes to the forger."""
    most_bits: int = 32


def with_entries(log: Log, entries: dict[int, bool | float]) -> Log:
    """The log with these entries in the place of what it says of these elements: directions, or values."""
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
    """The output that a log asks for, whoever has written it. f32, flat."""
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
    """A log of the right form, with some entries of the forger's own."""

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
    )  # the entry of each place, transposed
    known = dict(zip(sight.log.narrow.tolist(), sight.log.up.tolist(), strict=True))
    found = {place: known[old] for place, old in enumerate(places.tolist()) if old in known}
    log = with_entries(Log.empty(sight.x.size), found)
    return Forged(sight.node_log(log), log)


# --------------------------------------------------------------------------------- logs of something else


def elsewhere(operand: Callable[[Array], Array]) -> Callable[[Sight], Forged]:
    """The honest log of the same operator on another operand."""

    def make(sight: Sight) -> Forged:
        log = sight.again(np.ascontiguousarray(operand(sight.operand)))
        return Forged(sight.node_log(log), log)

    return make


def _of_a_longer_node(sight: Sight) -> Forged:
    """The log of the product, which has three times as many elements."""
    turned = sight.turned()
    log = Log(3 * turned.elements, turned.narrow, turned.up, turned.wide, turned.values)
    return Forged(NodeLog(sight.form, log.elements, sight.pack(log)), log)


def _none(sight: Sight) -> Forged:
    return Forged(None, sight.turned())


def _recorded_only(sight: Sight) -> Forged:
    """The run commits to the honest log, the node's record to the one that it was computed with."""
    turned = sight.turned()
    return Forged(sight.node_log(sight.log), turned, sight.node_log(turned))


def _of_a_node_without(sight: Sight) -> Forged:
    log = with_entries(Log.empty(sight.x.size), {0: 2 * float(sight.x.flat[0]) + 1})
    return Forged(sight.node_log(log), log)


# ----------------------------------------------------------------------------------------- damaged bytes


def damaged(change: Callable[[bytes, Sight], bytes]) -> Callable[[Sight], Forged]:
    """Bytes that are no log, by a liar who makes sense of them all the same."""

    def make(sight: Sight) -> Forged:
        log = sight.turned()
        return Forged(NodeLog(sight.form, sight.x.size, change(sight.pack(log), sight)), log)

    return make


def _wrong_form(sight: Sight) -> Forged:
    log = sight.turned()
    return Forged(NodeLog(7, sight.x.size, sight.pack(log)), log)


def _other_form(sight: Sight) -> Forged:
    """Well written, in the form that the job's mode does not name."""
    log, other = sight.turned(), Form.DENSE if sight.rounding.form is Form.SPARSE else Form.SPARSE
    canonical = forms.pack(log, other)
    assert canonical is not None
    return Forged(NodeLog(forms.FORMAT[other], sight.x.size, canonical), log)


def counted(more: int) -> Callable[[Sight], Forged]:
    """A log for another number of elements."""

    def make(sight: Sight) -> Forged:
        log = sight.turned()
        return Forged(NodeLog(sight.form, log.elements + more, sight.pack(log)), log)

    return make


def _beyond_the_output(sight: Sight) -> Forged:
    """For as many elements as there are, it says; but one entry is of one that is not there."""
    turned = sight.turned()
    longer = Log(turned.elements + 50, turned.narrow, turned.up, turned.wide, turned.values)
    log = with_entries(longer, {turned.elements + 40: 1.0})
    return Forged(NodeLog(sight.form, turned.elements, sight.pack(log)), log)


def _long_varint(canonical: bytes, sight: Sight) -> bytes:
    """The number of wide entries takes a byte more than it needs."""
    place = 1 if sight.rounding.form is Form.SPARSE else -(-sight.x.size // 5)
    return canonical[:place] + bytes([canonical[place] | 0x80, 0]) + canonical[place + 1 :]


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
    "a position beyond the output": Forgery(_beyond_the_output, Gone.UNREAD),
    # logs of something else
    "the log of another node": Forgery(elsewhere(lambda x: x[::-1]), Gone.TOLD),
    "the log of a longer node": Forgery(_of_a_longer_node, Gone.UNREAD),
    "the log of the step before": Forgery(elsewhere(lambda x: x * np.float32(-0.5)), Gone.TOLD),
    "the log of another run": Forgery(elsewhere(lambda x: np.roll(x, 4, axis=0)), Gone.TOLD),
    "no log where outputs need one": Forgery(_none, Gone.UNREAD),
    "a log of a node that has none": Forgery(_of_a_node_without, Gone.UNREAD, node=PLAIN, step=4),
    "a record that names another log than the run": Forgery(_recorded_only, Gone.UNREAD, reason=Reason.LOG),
    # bytes
    "truncated": Forgery(damaged(lambda b, _: b[:-1]), Gone.UNREAD),
    "trailing bytes": Forgery(damaged(lambda b, _: b + b"\0"), Gone.UNREAD),
    "a varint longer than needed": Forgery(damaged(_long_varint), Gone.UNREAD),
    "no bytes at all": Forgery(damaged(lambda *_: b""), Gone.UNREAD),
    "noise": Forgery(damaged(lambda b, _: np.random.default_rng(5).bytes(len(b))), Gone.UNREAD),
    "an unknown form": Forgery(_wrong_form, Gone.UNREAD),
    "the form of other jobs": Forgery(_other_form, Gone.UNREAD),
    "one element more": Forgery(counted(1), Gone.UNREAD),
    "2^39 elements": Forgery(counted(1 << 39), Gone.UNREAD),
}

TOO_LONG = Forgery(damaged(lambda b, _: b + bytes(1 << 20)), Gone.UNREAD)
"""More bytes than entries of every element could take: nobody fetches so much of a stranger."""
