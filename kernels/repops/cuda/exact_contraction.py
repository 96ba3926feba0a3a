"""Plans of contractions in the mode exact (kernels/cuda/exact_gemm.cuh): multiply, finish if K is split, resolve."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from ..opset import ITEM_SIZE
from ..sums import SumMode
from ..tensors import Call
from .contraction import CHUNK, Contraction, Tile, choose, named
from .conv import convolution_of
from .plan import Launch, LaunchPlan, Ref, Target, Word, ceil_div, grid, launch, planner, workspace_of

TILES = (Tile("medium", 64, 256, 2, 1.0), Tile("small", 32, 64, 4, 0.6))
TILES_OF_CONVOLUTIONS = (Tile("medium", 64, 256, 1, 1.0), Tile("small", 32, 64, 4, 0.8))
RESOLVING = 4  # blocks of a multiprocessor
FINISH = 1.0  # work for an element of a split product, as chunks of it
IN_A_REGISTER = 64  # terms that are added in a register
CHUNKS_AT_ONCE = 8
FACTS = 16  # bytes
PRODUCT = "exact_matmul.exact_matmul"
UNIT = 2.0**-52  # bound of an addition's relative error


def product(c: Contraction, call: Call, target: Target, operands: list[Word]) -> LaunchPlan:
    """Return the plan of mm or bmm. `operands` are the words of `Matmul` that follow its grid."""
    return _plan(c, call, target, PRODUCT, operands, TILES)


def product_again(
    c: Contraction, operands: list[Word], target: Target, few: int, open_: Ref, sums: Word
) -> tuple[list[Launch], int]:
    """Return launches that multiply those tiles of a product again of which more than `few` elements are open, and
    resolve what is open then; and the bytes that they need at `sums`. `open_`: those elements of each tile."""
    chunks, tile = ceil_div(c.k, CHUNK), TILES[0]
    runs = ceil_div(chunks, CHUNKS_AT_ONCE)
    tiles_m, tiles_n = ceil_div(c.m, tile.size), ceil_div(c.n, tile.size)
    words: list[Word] = [c.m, c.n, tiles_m, tiles_n, 1, chunks, c.out_elements, c.out, 0, 0, *operands]
    words += [_scale(c.k, runs, 1), c.batches, sums if runs > 1 else 0, 0, 0]
    name = named(PRODUCT, c.dtype)
    blocks = grid(tiles_m * tiles_n * c.batches, 1, target, tile.resident)
    launches = [
        launch(f"{name}_again", blocks, tile.threads, [*words, few, open_]),
        launch(f"{name}_resolve", grid(c.out_elements, 128, target, RESOLVING), 128, words),
    ]
    return launches, 8 * c.out_elements if runs > 1 else 0


@planner("conv2d", "conv2d_input_grad", "conv2d_weight_grad", sums=SumMode.EXACT)
def convolution(call: Call, target: Target) -> LaunchPlan:
    c, operands, far = convolution_of(call)
    tiles: Sequence[Tile] = TILES_OF_CONVOLUTIONS
    if far:
        tiles = (Tile("far", *tiles[-1][1:]),)
    return _plan(c, call, target, f"exact_conv.exact_{call.op.name}", operands, tiles)


def _plan(
    c: Contraction,
    call: Call,
    target: Target,
    kernel: str,
    operands: list[Word],
    tiles: Sequence[Tile],
) -> LaunchPlan:
    """Return the plan for a kernel whose struct is `Grid`, then `operands`, then `Exact`."""
    if c.out_elements == 0:
        return LaunchPlan(())
    if c.k == 0:
        fill: list[Word] = [c.out_elements, 0, c.out]
        blocks = grid(c.out_elements, 256 * 4, target)
        return LaunchPlan((launch(f"layout.fill_{ITEM_SIZE[c.dtype]}", blocks, 256, fill),))
    chunks = ceil_div(c.k, CHUNK)
    cut = choose(c, chunks, target, tiles, FINISH)
    runs = ceil_div(ceil_div(chunks, cut.splits), CHUNKS_AT_ONCE)
    workspaces: tuple[int, ...] = ()
    places: list[Word] = [0, 0, 0]
    if cut.splits > 1:
        workspaces = (
            8 * cut.splits * c.out_elements,
            FACTS * cut.splits * c.batches * c.m,
            FACTS * cut.splits * c.batches * c.n,
        )
    elif runs > 1:
        workspaces = (8 * c.out_elements,)
    places[: len(workspaces)] = [workspace_of(call, i) for i in range(len(workspaces))]
    words: list[Word] = [c.m, c.n, cut.tiles_m, cut.tiles_n, cut.splits, chunks, c.out_elements, c.out, 0, 0]
    words += [*operands, _scale(c.k, runs, cut.splits), c.batches, *places]

    def one(name: str, blocks: int, threads: int) -> Launch:
        return launch(f"{named(kernel, c.dtype)}_{name}", blocks, threads, words)

    blocks = cut.tiles_m * cut.tiles_n * cut.splits * c.batches
    launches = [one(cut.tile.name, blocks, cut.tile.threads)]
    if cut.splits > 1:
        launches.append(one("finish", grid(c.out_elements, 256, target), 256))
    launches.append(one("resolve", grid(c.out_elements, 128, target, RESOLVING), 128))
    return LaunchPlan(tuple(launches), workspaces)


def _scale(k: int, runs: int, splits: int) -> int:
    """Return `Exact.scale` as a word: the number of additions that a term goes through, and 4, times UNIT.

    The additions: those of a register, of registers in a run of chunks, of runs, and of splits.
    """
    registers = min(CHUNKS_AT_ONCE * CHUNK // IN_A_REGISTER, ceil_div(k, IN_A_REGISTER))
    additions = min(IN_A_REGISTER, k) + registers + runs + splits
    return int(struct.unpack("<Q", struct.pack("<d", (additions + 4) * UNIT))[0])
