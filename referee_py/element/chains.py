"""Operators whose elements are chains of steps: contractions, reductions, max-pooling, scatter_add.

A chain has `length` steps. `begin` returns the state before the first step, `step` number t makes the next state, and
`finish` makes the element from the last state. States are big-endian words of fixed size.
"""

from __future__ import annotations

import math
import struct
from typing import Protocol

from repops.opset import F32, I64

from . import lanes, scalar
from .case import NO_ENTRY, Case, Entry, Read
from .positions import count, digits, inside, met, met_by, position, reduced

CHUNK = 512
_WORDS = 1 + lanes.FOLDS
Places = tuple[int, int] | None
"""Positions in the first and the second input, or None if the term does not exist."""


class Chain(Protocol):
    def length(self, case: Case) -> int: ...

    def begin(self, case: Case) -> bytes: ...

    def step(self, case: Case, t: int, state: bytes, read: Read) -> bytes: ...

    def finish(self, case: Case, state: bytes, entry: Entry = NO_ENTRY) -> int:
        """Return the element's bits, given its entry in the log. repops-f32 has no logs and ignores the entry."""
        ...


# ------------------------------------------------------------------------------------------------- contractions


class Contraction:
    """State: the sum of the chunks before this one, and the sum of this chunk, 4 bytes each. Both begin at -0.

    Factors of bf16 are those of binary32; only the last sum is rounded to bf16.
    """

    def length(self, case: Case) -> int:
        return terms(case)

    def begin(self, case: Case) -> bytes:  # noqa: ARG002
        return struct.pack(">II", scalar.MINUS_ZERO, scalar.MINUS_ZERO)

    def step(self, case: Case, t: int, state: bytes, read: Read) -> bytes:
        total, chunk = struct.unpack(">II", state)
        if t % CHUNK == 0:
            total, chunk = scalar.add(total, chunk), scalar.MINUS_ZERO
        if (found := factors(case, t, read)) is not None:
            chunk = scalar.fma(*found, chunk)
        return struct.pack(">II", total, chunk)

    def finish(self, case: Case, state: bytes, entry: Entry = NO_ENTRY) -> int:  # noqa: ARG002
        return scalar.narrowed(scalar.add(*struct.unpack(">II", state)), case.dtype)


def terms(case: Case) -> int:
    """Return the number of terms of a contraction, those in the padding included."""
    first, second = (operand.shape for operand in case.inputs)
    match case.name:
        case "mm" | "bmm":
            return first[-1]
        case "conv2d":
            return math.prod(second[1:])
        case "conv2d_input_grad":
            return first[1] // int(case.attrs["groups"]) * math.prod(second[2:])
    return first[0] * math.prod(first[2:])


def factors(case: Case, k: int, read: Read) -> tuple[int, int] | None:
    """Return the factors of term k of a contraction as binary32, or None if it does not exist."""
    found = term(case, k)
    if found is None:
        return None
    first, second = (
        scalar.widened(read(place, at), case.inputs[place].dtype) for place, at in enumerate(found)
    )
    return first, second


def term(case: Case, k: int) -> Places:
    """Return the positions of term k of a contraction, or None if it does not exist (docs/opset.md, section 6)."""
    first, second = (operand.shape for operand in case.inputs)
    index = digits(case.element, case.shape)
    if case.name in ("mm", "bmm"):
        *batch, m, n = index
        return position([*batch, m, k], first), position([*batch, k, n], second)
    groups, windows = int(case.attrs["groups"]), _windows(case)
    if case.name == "conv2d":
        c, *taps = digits(k, second[1:])
        n, f, *at = index
        group = f // (second[0] // groups)
        places = [met(at[d], taps[d], *windows[d], first[2 + d]) for d in (0, 1)]
        channel = group * second[1] + c
        return _places((n, channel), places, first, (f, c, *taps), second)
    if case.name == "conv2d_input_grad":
        filters = first[1] // groups
        f, *taps = digits(k, (filters, *second[2:]))
        n, channel, *at = index
        group, c = divmod(channel, second[1])
        places = [met_by(at[d], taps[d], *windows[d], first[2 + d]) for d in (0, 1)]
        return _places((n, group * filters + f), places, first, (group * filters + f, c, *taps), second)
    n, *at = digits(k, (first[0], *first[2:]))
    f, c, *taps = index
    channel = f // (first[1] // groups) * (second[1] // groups) + c
    places = [met(at[d], taps[d], *windows[d], second[2 + d]) for d in (0, 1)]
    found = _places((n, channel), places, second, (n, f, *at), first)
    return None if found is None else (found[1], found[0])


def _windows(case: Case) -> list[tuple[int, int, int]]:
    """Return stride, padding and dilation of both dimensions."""
    return [tuple(int(case.attrs[key][d]) for key in ("stride", "padding", "dilation")) for d in (0, 1)]  # type: ignore[misc]


def _places(
    outer: tuple[int, ...],
    places: list[int | None],
    shape: tuple[int, ...],
    other: tuple[int, ...],
    others: tuple[int, ...],
) -> Places:
    h, w = places
    return None if h is None or w is None else (position((*outer, h, w), shape), position(other, others))


# -------------------------------------------------------------------------------------------------- reductions


class Sum:
    """The reduction of docs/opset.md, section 2, as one walk over the items that exist (`lanes`).

    State, for each level from the lowest: the lane's sum, and the sums of 1, 2, 4, 8 and 16 lanes that wait to be
    folded; 24 bytes per level. Without items there is no step, and the sum is -0.
    """

    def length(self, case: Case) -> int:
        return count(case.inputs[0].shape, case.attrs["dims"])

    def begin(self, case: Case) -> bytes:
        return struct.pack(">I", scalar.MINUS_ZERO) * _WORDS * len(lanes.levels(self.length(case)))

    def step(self, case: Case, t: int, state: bytes, read: Read) -> bytes:
        words = list(struct.unpack(f">{len(state) // 4}I", state))
        turns = lanes.turns(self.length(case), t)
        place = reduced(case.element, lanes.item(turns), case.inputs[0].shape, case.attrs["dims"])
        words[0] = scalar.add(words[0], read(0, place))
        for level, turn in enumerate(turns):
            first, above = level * _WORDS, (level + 1) * _WORDS
            if not turn.ends:
                break
            value, words[first] = words[first], scalar.MINUS_ZERO
            for fold, half in enumerate(turn.halves, first + 1):
                if half.second:
                    value, words[fold] = scalar.add(words[fold], value), scalar.MINUS_ZERO
                elif half.both:
                    words[fold] = value
                    return struct.pack(f">{len(words)}I", *words)
            # The block is finished.
            if above == len(words):
                words[first] = value
            else:
                words[above] = scalar.add(words[above], value)
        return struct.pack(f">{len(words)}I", *words)

    def finish(self, case: Case, state: bytes, entry: Entry = NO_ENTRY) -> int:  # noqa: ARG002
        """Return the lane's word at the top level, where the last fold leaves the sum."""
        found: int = struct.unpack_from(">I", state, len(state) - 4 * _WORDS)[0]
        return found


class Total:
    """sum of i64, and amax. State: 8 bytes. The result is the same in any order; the chain uses row-major order."""

    def length(self, case: Case) -> int:
        return count(case.inputs[0].shape, case.attrs["dims"])

    def begin(self, case: Case) -> bytes:
        lowest = scalar.MINUS_INF if case.inputs[0].dtype == F32 else 1 << 63
        return (0 if case.name == "sum" else lowest).to_bytes(8, "big")

    def step(self, case: Case, t: int, state: bytes, read: Read) -> bytes:
        found = read(0, reduced(case.element, t, case.inputs[0].shape, case.attrs["dims"]))
        before = int.from_bytes(state, "big")
        if case.name == "sum":
            return (before + found & scalar.WORD).to_bytes(8, "big")
        return (found if _larger(case, found, before) else before).to_bytes(8, "big")

    def finish(self, case: Case, state: bytes, entry: Entry = NO_ENTRY) -> int:  # noqa: ARG002
        return int.from_bytes(state, "big")


class ArgMax:
    """State: the largest element so far, and its place, 8 bytes each. The first element is taken as it is."""

    def length(self, case: Case) -> int:
        return case.inputs[0].shape[int(case.attrs["dim"])]

    def begin(self, case: Case) -> bytes:  # noqa: ARG002
        return bytes(16)

    def step(self, case: Case, t: int, state: bytes, read: Read) -> bytes:
        found = read(0, reduced(case.element, t, case.inputs[0].shape, (case.attrs["dim"],)))
        before, _ = struct.unpack(">QQ", state)
        return struct.pack(">QQ", found, t) if t == 0 or _larger(case, found, before) else state

    def finish(self, case: Case, state: bytes, entry: Entry = NO_ENTRY) -> int:  # noqa: ARG002
        found: int = struct.unpack(">QQ", state)[1]
        return found


class MaxPool:
    """State: the largest element so far, and its place in the plane, 8 bytes each; -inf and -1 before the first. One
    step for each tap inside the plane, row-major."""

    def length(self, case: Case) -> int:
        rows, columns = self._taps(case)
        return len(rows) * len(columns)

    def begin(self, case: Case) -> bytes:  # noqa: ARG002
        return struct.pack(">Qq", scalar.MINUS_INF, -1)

    def step(self, case: Case, t: int, state: bytes, read: Read) -> bytes:
        shape, (rows, columns) = case.inputs[0].shape, self._taps(case)
        n, c, *_ = digits(case.element, case.shape)
        h, w = rows[t // len(columns)], columns[t % len(columns)]
        found = read(0, position((n, c, h, w), shape))
        before, place = struct.unpack(">Qq", state)
        return (
            struct.pack(">Qq", found, h * shape[3] + w)
            if place < 0 or _larger(case, found, before)
            else state
        )

    def finish(self, case: Case, state: bytes, entry: Entry = NO_ENTRY) -> int:  # noqa: ARG002
        found: int = struct.unpack(">QQ", state)[case.output]
        return found

    @staticmethod
    def _taps(case: Case) -> tuple[range, range]:
        """Return the rows and the columns of the plane that taps meet."""
        _, _, *at = digits(case.element, case.shape)
        taps, sizes = case.attrs["kernel"], case.inputs[0].shape[2:]
        rows, columns = (
            inside(at[d], int(taps[d]), *window, sizes[d]) for d, window in enumerate(_windows(case))
        )
        return rows, columns


def _larger(case: Case, a: int, b: int) -> bool:
    """Return whether a is strictly larger, in the order of docs/opset.md, section 2."""
    if case.inputs[0].dtype == I64:
        return scalar.signed(a) > scalar.signed(b)
    return scalar.order_key(a) > scalar.order_key(b)


# ------------------------------------------------------------------------------------------------- scatter_add


class ScatterAdd:
    """State: the sum so far, 4 bytes. Step 0 takes the base; step 1 + p adds position p of idx if that is this row."""

    def length(self, case: Case) -> int:
        return 1 + case.inputs[1].count

    def begin(self, case: Case) -> bytes:  # noqa: ARG002
        return struct.pack(">I", scalar.MINUS_ZERO)

    def step(self, case: Case, t: int, state: bytes, read: Read) -> bytes:
        value = self.value(case, t, read)
        if value is None:
            return state
        (before,) = struct.unpack(">I", state)
        return struct.pack(">I", value if t == 0 else scalar.add(before, value))

    @staticmethod
    def value(case: Case, t: int, read: Read) -> int | None:
        """Return the value that step t adds, or None if it adds nothing."""
        if t == 0:
            return read(0, case.element)
        width = math.prod(case.shape[1:])
        row, column = divmod(case.element, width)
        return read(2, (t - 1) * width + column) if scalar.signed(read(1, t - 1)) == row else None

    def finish(self, case: Case, state: bytes, entry: Entry = NO_ENTRY) -> int:  # noqa: ARG002
        found: int = struct.unpack(">I", state)[0]
        return found
