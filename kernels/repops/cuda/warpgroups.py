"""Products of bf16 in the mode tc16 by warpgroups (kernels/cuda/tc16_warpgroup.cu): on sm_90 alone."""

from __future__ import annotations

from typing import NamedTuple

from ..opset import BF16, F32, ITEM_SIZE
from .contraction import CHUNK, Contraction, Tile, add_chunks, choose
from .plan import Boxes, Launch, Ref, Target, Word, ceil_div, divisor, launch

TILES = (Tile("wide", 128, 384, 1, 1.0, 192), Tile("square", 128, 384, 1, 0.9))
SHARED = {"wide": 205_824, "square": 197_632}
"""Bytes of shared memory of a block."""
SLICE = 64
"""k of a slice."""
PIECE = 8
"""Elements that are written at once. Rows of operands begin at multiples of them."""
STORE = 3.0
"""The work to write a chunk's result and to add it, in units of that to compute it, where K is split."""


class Operand(NamedTuple):
    """A matrix of bf16 for each batch, or one for all."""

    place: Ref
    pitch: int
    """Elements between rows."""
    shared: bool = False


class Placement(NamedTuple):
    """Steps, in elements of C, from a batch and from a row to the next, and between runs of `inner` columns."""

    batch: int
    row: int
    inner: int
    outer: int = 0

    @property
    def pieces(self) -> bool:
        """Whether columns are neighbours PIECE at a time, aligned."""
        return not any(step % PIECE for step in self)


def product(
    c: Contraction, target: Target, a: Operand, b: Operand, placement: Placement, rows_are_k: bool = True
) -> tuple[list[Launch], tuple[int, ...]]:
    """Return launches and workspaces of C = A B. Rows of A are m, those of B are k, or n if not `rows_are_k`."""
    chunks = ceil_div(c.k, CHUNK)
    tile, tiles_m, tiles_n, splits = choose(c, chunks, target, TILES, store=STORE)
    of_b = (c.n, c.k, SLICE) if rows_are_k else (c.k, c.n, tile.columns)
    results: list[Word] = [c.out, 0] if c.dtype == BF16 else [0, c.out]
    words: list[Word] = [
        _boxes(a, c.batches, c.k, c.m, tile.size),
        _boxes(b, c.batches, *of_b),
        *(c.m, c.n, tiles_m, tiles_n, splits, chunks, c.out_elements),
        *results,
        c.workspace if splits > 1 else 0,
        *(c.k, c.batches, placement.batch, placement.row, placement.outer),
        *divisor(placement.inner),
        1 if a.shared else c.batches,
        *[0] * 6,
    ]
    blocks = min(tiles_m * tiles_n * splits * c.batches, target.multiprocessors)
    name = f"{tile.name}{'' if rows_are_k else '_turned'}{'' if placement.pieces else '_single'}"
    kernel = f"tc16_warpgroup.tc16_warpgroup_{name}"
    return with_chunks(c, splits, target, launch(kernel, blocks, tile.threads, words, SHARED[tile.name]))


def _boxes(operand: Operand, batches: int, width: int, rows: int, box: int) -> Boxes:
    row = operand.pitch * ITEM_SIZE[BF16]
    return Boxes(operand.place, (width, rows, 1 if operand.shared else batches), (row, rows * row), box)


def with_chunks(
    c: Contraction, splits: int, target: Target, first: Launch
) -> tuple[list[Launch], tuple[int, ...]]:
    """Return the launch, and that of add_chunks if K is split, with the workspace between them."""
    if splits == 1:
        return [first], ()
    chunks = ceil_div(c.k, CHUNK)
    return [first, add_chunks(c, chunks, target)], (chunks * c.out_elements * ITEM_SIZE[F32],)
