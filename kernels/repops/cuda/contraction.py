"""Cuts a contraction for a GPU: tiles, split-K, and kernels for a single row or column. Used by matmul and conv.

The chunks of 512 fix the order of the arithmetic (kernels/cuda/gemm.cuh); everything here affects only speed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..opset import F32, Dtype
from .plan import Launch, Ref, Target, Word, ceil_div, grid, launch

CHUNK = 512
MAX_WORKSPACE = 1 << 28  # bytes for the results of split-K
MAX_SPLITS = 64
ALONE = 0.7  # of the speed of all resident blocks, what hardly any would reach


class Tile(NamedTuple):
    """An instance of gemm.cuh. `resident` blocks share a multiprocessor; `rate` is their relative speed together."""

    name: str
    size: int  # rows
    threads: int
    resident: int
    rate: float
    width: int = 0
    """Columns, where there are not as many as rows."""

    @property
    def columns(self) -> int:
        return self.width or self.size


TILES = (
    Tile("large", 128, 256, 2, 1.0),
    Tile("medium", 64, 256, 3, 0.8),
    Tile("small", 32, 64, 8, 0.7),
)


class Cut(NamedTuple):
    """A tile, and the number of runs of chunks into which K is split."""

    tile: Tile
    tiles_m: int
    tiles_n: int
    splits: int


class Contraction(NamedTuple):
    m: int
    n: int
    batches: int  # of the grid
    k: int
    out: Ref
    out_elements: int
    workspace: Ref  # if K is split, or for the running totals of a result that is not f32
    dtype: Dtype


def choose(
    c: Contraction,
    chunks: int,
    target: Target,
    tiles: Sequence[Tile] = TILES,
    finish: float = 0.0,
    store: float = 1 / 14,
) -> Cut:
    """Return the cut with the shortest estimated time: that of a multiprocessor with the most blocks, in units of its
    time for a chunk of one element. On an H200 the estimates for f32 were within a tenth of the times.

    `finish` is the work for an element where K is split, besides that for its chunks, which is `store` for each.
    """
    m, n, batches, out_elements = c.m, c.n, c.batches, c.out_elements
    can_split = chunks > 1 and chunks * out_elements * 4 <= MAX_WORKSPACE
    runs = [ceil_div(chunks, splits) for splits in range(1, min(chunks, MAX_SPLITS) + 1)] if can_split else []

    def cuts() -> list[Cut]:
        sizes = [(tile, ceil_div(m, tile.size), ceil_div(n, tile.columns)) for tile in tiles]
        numbers = sorted({1, *[ceil_div(chunks, run) for run in runs]})
        return [Cut(*size, splits) for size in sizes for splits in numbers]

    def time(cut: Cut) -> float:
        tile, blocks = cut.tile, cut.tiles_m * cut.tiles_n * batches * cut.splits
        most = ceil_div(blocks, target.multiprocessors)
        together, left = divmod(most, tile.resident)
        # Fewer blocks than fit together leave a multiprocessor waiting.
        alone = left / (ALONE + (1 - ALONE) * left / tile.resident)
        # Runs of K differ in length, which matters where a multiprocessor has few of them.
        longest, mean = min(ceil_div(chunks, cut.splits), c.k / CHUNK), c.k / CHUNK / cut.splits
        work = (together * tile.resident + alone) * (mean if most > tile.resident else longest)
        # Each chunk's result is written and read once more, and the sum is written.
        split = ((chunks + 1) * store + finish) * out_elements / target.multiprocessors + 1024
        return work * tile.size * tile.columns / tile.rate + (cut.splits > 1) * split

    return min(cuts(), key=time)


def tiled(
    c: Contraction, target: Target, kernel: str, operands: list[Word], tiles: Sequence[Tile] = TILES
) -> tuple[list[Launch], tuple[int, ...]]:
    """Return launches of kernel_<tile> (its struct is `Grid`, then `operands`), and of add_chunks if K is split.

    `kernel` is the name for f32: "source.name".
    """
    chunks = ceil_div(c.k, CHUNK)
    if c.out_elements == 0:
        return [], ()
    if chunks == 0:
        return [add_chunks(c, 0, target)], ()
    cut = choose(c, chunks, target, tiles)
    partial: Word = c.workspace if cut.splits > 1 else 0
    # Without split-K the running totals are in C itself, or in the workspace if C is narrower.
    totals = c.dtype != F32 and cut.splits == 1 and chunks > 1
    words: list[Word] = [
        c.m,
        c.n,
        cut.tiles_m,
        cut.tiles_n,
        cut.splits,
        chunks,
        c.out_elements,
        c.out,
        c.workspace if totals else c.out,
        partial,
    ]
    blocks = cut.tiles_m * cut.tiles_n * cut.splits * c.batches
    first = launch(f"{named(kernel, c.dtype)}_{cut.tile.name}", blocks, cut.tile.threads, [*words, *operands])
    if cut.splits == 1:
        return [first], (c.out_elements * 4,) if totals else ()
    return [first, add_chunks(c, chunks, target)], (chunks * c.out_elements * 4,)


def add_chunks(c: Contraction, chunks: int, target: Target) -> Launch:
    blocks = grid(c.out_elements, 256, target)
    words: list[Word] = [c.out_elements, chunks, c.workspace if chunks else 0, c.out]
    return launch(named("matmul.add_chunks", c.dtype), blocks, 256, words)


def named(kernel: str, dtype: Dtype) -> str:
    """Return the name of a kernel for factors of a dtype: each dtype has a source."""
    source, _, name = kernel.partition(".")
    suffix = "" if dtype == F32 else f"_{dtype.name.lower()}"
    return f"{source}{suffix}.{name}{suffix}"
