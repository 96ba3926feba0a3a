"""A tiny rounded-f64 job whose sums are on the brink of rounding, with a row for each kind of brink.

node 0  full   -2                    node 4  sum   mirror [R]: the rows, mirrored
node 1  mul    x = terms * p         node 5  mm    z [R, 3]: columns 1, mixed, 2
node 2  mul    mirrored terms * p    ...     the history of each, shifted by one step
node 3  sum    y [R]: the rows       last    p * -2

Slots are p, and y, mirror and z of each of the last steps, so that a wrong value is never forgotten. p is 1 in the
first step, and -2 times its last value in each later one. So sums keep their places between the values of the grid, up
becomes down, and the log of one step differs from that of the next.
"""

from __future__ import annotations

import numpy as np
from repops.opset import F32

from referee_py.commit.tensor import Array
from referee_py.program import Operand, Program, SlotSource, TensorDescriptor
from referee_py.program.modes import Bounds, Rounding
from referee_py.program.terms import Terms
from tests.referee_py.program.tiny import Writer, constant, f32_bits, slot
from trainer_node.local.bundle import Bundle

STEPS, STRIDES = 8, (4, 2, 1)
WIDTH = 8
PLAIN, Y, MIRROR, Z = 1, 3, 4, 5  # nodes; PLAIN is one without a log

NEAR = {"tie": 0.0, "above": 0.5, "below": -0.5, "beyond": 1.125, "short": -1.125, "far": 64.0}
"""Distance of a row from its midpoint, in radii. A trainer writes entries up to 1.25, which count up to 1."""
ROWS = (*NEAR, "grid", "zero", "wide", "vast", "infinite", "tie 2", "above 2", "below 2", "plain")
COUNT = len(ROWS)


def at(row: str) -> int:
    """Return the element of `Y` that is a row's sum."""
    return ROWS.index(row)


def terms_of(row: str, rounding: Rounding) -> list[float]:
    """Return the terms of a row in step 1, without zeros. All sums are between 1 and 2, or zero, or infinite."""
    q, base = 2.0 ** (9 - rounding.bits), 1.5 if row.endswith("2") else 1.25
    ulps = WIDTH - 1 if rounding.bounds is Bounds.PROVEN else 6 * 3  # the radius, in 2^-53 of the magnitudes
    match row.removesuffix(" 2"):
        case "grid":
            return [base, 2 * q]
        case "zero":
            return [1.0, -1.0]
        case "wide":  # the radius is between q / 8 and q: one neighbour of the midpoint on each side
            magnitude = 2.0 ** int(np.log2(0.9 * q * 2.0**53 / ulps) - 1)
            return [base, q / 2, magnitude, -magnitude]
        case "vast":  # the radius is hundreds of quanta
            magnitude = 2.0 ** (70 - rounding.bits)
            return [base, q / 2, magnitude, 100 * q, -magnitude, -37 * q]
        case "infinite":
            return [base, np.inf]
        case "plain":
            return [0.5, 0.25, 0.125, 1.0]
        case "tie":  # on the midpoint; the order decides on which side a float64 ends
            crumb = 0.75 * 2.0**-52
            return [base, q / 2, crumb, crumb, crumb, -3 * crumb]
        case name:
            return [base, q / 2, NEAR[name] * ulps * base * 2.0**-53]


def tensors(rounding: Rounding) -> tuple[list[Array], list[Array]]:
    """Return constants (terms, mirrored terms, columns) and initial slots (p, and three histories)."""
    rng = np.random.default_rng(11)
    terms = np.zeros((COUNT, WIDTH), np.float32)
    for row, name in enumerate(ROWS):
        found = terms_of(name, rounding)
        terms[row, rng.permutation(WIDTH)[: len(found)]] = found
    columns = np.stack([np.ones(WIDTH), 1 + rng.integers(0, 64, WIDTH) / 64, np.full(WIDTH, 2.0)], axis=1)
    histories = [np.zeros((STEPS, *shape), np.float32) for shape in ((COUNT,), (COUNT,), (COUNT, 3))]
    p = np.ones((1, 1), np.float32)
    return [terms, terms[::-1].copy(), columns.astype(np.float32)], [p, *histories]


def bundle(rounding: Rounding) -> Bundle:
    """Return the job."""
    constants, initial = tensors(rounding)
    op = Writer(constants, initial)
    double = op("full", shape=(1, 1), dtype=F32, bits=f32_bits(-2.0))
    x, mirrored = (op("mul", constant(side), slot(0)) for side in (0, 1))
    y, mirror = (op("sum", of, dims=(1,), keepdim=0) for of in (x, mirrored))
    z = op("mm", x, constant(2))
    assert [o.index for o in (x, y, mirror, z)] == [PLAIN, Y, MIRROR, Z]

    def shifted(history: int, now: Operand) -> SlotSource:
        shape = initial[history].shape
        kept = op("slice", slot(history), dim=0, start=1, stop=STEPS, step=1)
        return SlotSource(op("cat", kept, op("reshape", now, shape=(1, *shape[1:])), dim=0).index, 0)

    histories = [shifted(number, now) for number, now in enumerate((y, mirror, z), 1)]
    p = op("mul", slot(0), double)
    program = Program(
        tuple(op.nodes),
        (SlotSource(p.index, 0), *histories),
        tuple(map(TensorDescriptor.of, constants)),
        tuple(map(TensorDescriptor.of, initial)),
    )
    terms = Terms.of(program, STEPS, STRIDES, rounding.mode)
    return Bundle("brink", program, terms, tuple(constants), tuple(initial))
