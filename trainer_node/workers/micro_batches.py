"""Micro-batches of a program, found in its data flow: which of them each node depends on.

A step picks the rows of its batch, cuts them into parts, and computes each part's gradients:

    take(order, step) ── slice [0, 4) ── take(data) ── ... ── gradients of part 0 ──┐
                      └─ slice [4, 8) ── take(data) ── ... ── gradients of part 1 ──┴─ add ── optimizer

So the parts are slices, along one dimension, of a value that depends on the step and on no slot: equally long, side by
side, together the whole. NOTE: names of nodes are a bundle's labels and may be anybody's; nothing here reads them. If
the guess is wrong, the program computes the same bits more slowly (`partition`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from referee_py.program import Kind, Program
from referee_py.program.structure import Operand

MAX_MICRO_BATCHES = 1 << 12
"""Maximum number of parts: a mask with a bit for each is kept for every node."""
MAX_CUTS = 64
"""Maximum number of cuts that are compared; programs have one for the batch, and one for each table."""


@dataclass(frozen=True, slots=True)
class Marks:
    """Number of micro-batches, and for each node the mask of those that it depends on: bit i for micro-batch i."""

    count: int
    masks: tuple[int, ...]


def marks_of(program: Program) -> Marks:
    """Return the micro-batches of a validated program. A program without any has one, and no node depends on it."""
    cuts = _cuts(program)
    best, most = Marks(1, (0,) * len(program.nodes)), 0
    for count in sorted({len(cut) for cut in cuts}):
        seeds = {node: part for cut in cuts if len(cut) == count for part, node in enumerate(cut)}
        masks = _spread(program, seeds)
        alone = sum(mask.bit_count() == 1 for mask in masks)
        if alone > most:
            best, most = Marks(count, masks), alone
    return best


def _cuts(program: Program) -> list[list[int]]:
    """Return the cuts of values that the step number chooses: for each the slices' nodes, in the order of their
    ranges."""
    changing, stateful = _spread_kind(program, Kind.STEP), _spread_kind(program, Kind.SLOT)
    slices: dict[tuple[Operand, int], dict[int, tuple[int, int]]] = {}
    for number, node in enumerate(program.nodes):
        if node.name != "slice" or node.inputs[0].kind is not Kind.NODE or node.attrs["step"] != 1:
            continue
        source, attrs = node.inputs[0], node.attrs
        if changing[source.index] and not stateful[source.index]:
            ranges = slices.setdefault((source, attrs["dim"]), {})
            ranges[number] = attrs["start"], attrs["stop"]
    found = []
    for (source, dim), ranges in slices.items():
        cut = sorted(ranges, key=lambda number: ranges[number])
        whole = program.type_of(source).shape[dim]
        size = whole // len(cut)
        parts = [(k * size, (k + 1) * size) for k in range(len(cut))]
        even = size * len(cut) == whole > 0 and [ranges[number] for number in cut] == parts
        if even and 2 <= len(cut) <= MAX_MICRO_BATCHES:
            found.append(cut)
    return found[:MAX_CUTS]


def _spread_kind(program: Program, kind: Kind) -> list[bool]:
    """Return which nodes depend on an operand of this kind."""
    reached: list[bool] = []
    for node in program.nodes:
        reached.append(any(o.kind is kind or (o.kind is Kind.NODE and reached[o.index]) for o in node.inputs))
    return reached


def _spread(program: Program, seeds: dict[int, int]) -> tuple[int, ...]:
    """Return for each node the mask of the parts whose seeds it depends on."""
    masks: list[int] = []
    for number, node in enumerate(program.nodes):
        mask = 1 << seeds[number] if number in seeds else 0
        for operand in node.inputs:
            if operand.kind is Kind.NODE:
                mask |= masks[operand.index]
        masks.append(mask)
    return tuple(masks)


def parts_of(mask: int) -> Iterator[int]:
    """Yield the micro-batches of a mask, ascending."""
    while mask:
        yield (mask & -mask).bit_length() - 1
        mask &= mask - 1
