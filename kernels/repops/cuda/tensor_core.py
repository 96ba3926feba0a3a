"""Plans of contractions of bf16 in the mode tc16 (kernels/cuda/tc16_gemm.cuh), and blocks one by one.

On devices from sm_90 on, tensor cores compute the blocks; on older ones, whose tensor cores add in another way, the
rule in integers does: the same bits, some hundred times slower. Whether a device keeps the rule is for whoever relies
on it to check (`rule`).
"""

from __future__ import annotations

from ..opset import BF16, ITEM_SIZE
from ..reference.tensor_core import padded
from ..sums import SumMode
from ..tensors import Call
from . import patches, warpgroups
from .contraction import CHUNK, Contraction, Tile, choose
from .conv import NEAR, convolution_of
from .matmul import product_of
from .plan import (
    Launch,
    LaunchPlan,
    Ref,
    Target,
    Word,
    ceil_div,
    grid,
    launch,
    planner,
    workspace_of,
)
from .warpgroups import PIECE, Operand, Placement

LARGE, SMALL = Tile("large", 128, 256, 1, 1.0), Tile("small", 64, 128, 3, 0.7)
FAR = Tile("far", *SMALL[1:])
"""As small; indices have 64 bits."""
STORE = 1.0
"""The work to write a chunk's result and to add it, in units of that to compute it, where K is split."""
LEAST_PADDED, MAX_PADDED = 64, 1 << 30
"""Rows and columns of a product from which other rows are copied first, and the most bytes of a copy."""
PAD_THREADS, AGAIN_THREADS = 256, 128
BLOCKS_THREADS, BLOCKS_OF_A_WARP, WARP = 128, 8, 32


@planner("mm", "bmm", sums=SumMode.TC16)
def product(call: Call, target: Target) -> LaunchPlan:
    c, (k, a, b) = product_of(call)
    pads: list[Launch] = []
    workspaces: list[int] = []

    def padded_rows(place: Word, rows: int, width: int) -> tuple[Word, int]:
        """Return where rows are that begin at multiples of PIECE elements, and how far apart they are."""
        pitch = ceil_div(width, PIECE) * PIECE
        size = rows * pitch * ITEM_SIZE[BF16]
        if pitch == width or min(c.m, c.n) < LEAST_PADDED or not c.k or size > MAX_PADDED:
            return place, width
        to = workspace_of(call, len(workspaces))
        workspaces.append(size)
        words: list[Word] = [rows, width, pitch, place, to]
        blocks = grid(rows * pitch, PIECE * PAD_THREADS, target)
        pads.append(launch("tc16_matmul.tc16_pad", blocks, PAD_THREADS, words))
        return to, pitch

    a, pitch_a = padded_rows(a, c.batches * c.m, c.k)
    b, pitch_b = padded_rows(b, c.batches * c.k, c.n)
    c = _with_result(c, call)._replace(workspace=workspace_of(call, len(workspaces)))
    of_boxes = pitch_a % PIECE == pitch_b % PIECE == 0 and max(c.m, c.n, c.k, c.batches) < NEAR
    if target.warpgroups and of_boxes and min(c.m, c.n) >= LEAST_PADDED and c.k and c.batches:
        assert isinstance(a, Ref)
        assert isinstance(b, Ref)
        launches, more = warpgroups.product(
            c, target, Operand(a, pitch_a), Operand(b, pitch_b), Placement(c.m * c.n, c.n, c.n)
        )
    else:
        operands = [k, a, b, pitch_a, pitch_b]
        launches, more = _tiled(c, target, "tc16_matmul.tc16_matmul", operands, (LARGE, SMALL))
    return LaunchPlan((*pads, *launches), (*workspaces, *more))


@planner("conv2d", "conv2d_input_grad", "conv2d_weight_grad", sums=SumMode.TC16)
def convolution(call: Call, target: Target) -> LaunchPlan:
    c, operands, far = convolution_of(call)
    if call.op.name != "conv2d_weight_grad":
        (_, w) = call.inputs[1]
        window = w[2] * w[3]
        c = c._replace(k=padded(c.k // window) * window)
        far = far or c.k >= NEAR
    c = _with_result(c, call)
    kernel = f"tc16_conv.tc16_{call.op.name}"
    by_patches = patches.by_warpgroups(call, target) if target.warpgroups and c.out_elements else None
    launches, workspaces = by_patches or _tiled(c, target, kernel, operands, (FAR if far else SMALL,))
    if not launches or c.k == 0:
        return LaunchPlan(tuple(launches), workspaces)
    # An operand that is not finite may have met terms that do not exist, and made NaN of them.
    words = [*_grid_words(c, 1, 1, 1, ceil_div(c.k, CHUNK), 0), *operands]
    blocks = grid(c.out_elements, AGAIN_THREADS, target)
    return LaunchPlan((*launches, launch(f"{kernel}_again", blocks, AGAIN_THREADS, words)), workspaces)


def _with_result(c: Contraction, call: Call) -> Contraction:
    """Return the contraction with the dtype of its result: f32 is what it is before it is rounded to bf16."""
    return c._replace(dtype=call.outputs[0][0])


def _tiled(
    c: Contraction, target: Target, kernel: str, operands: list[Word], tiles: tuple[Tile, ...]
) -> tuple[list[Launch], tuple[int, ...]]:
    """Return launches of kernel_<tile> (its struct is `Grid`, then `operands`), and of add_chunks if K is split."""
    if c.out_elements == 0:
        return [], ()
    if c.k == 0:  # +0
        words: list[Word] = [c.out_elements, 0, c.out]
        blocks = grid(c.out_elements, 256 * 4, target)
        return [launch(f"layout.fill_{ITEM_SIZE[c.dtype]}", blocks, 256, words)], ()
    chunks = ceil_div(c.k, CHUNK)
    tile, tiles_m, tiles_n, splits = choose(c, chunks, target, tiles, store=STORE)
    words = [*_grid_words(c, tiles_m, tiles_n, splits, chunks, c.workspace if splits > 1 else 0), *operands]
    blocks = tiles_m * tiles_n * splits * c.batches
    first = launch(f"{kernel}_{tile.name}", blocks, tile.threads, words)
    return warpgroups.with_chunks(c, splits, target, first)


def _grid_words(
    c: Contraction, tiles_m: int, tiles_n: int, splits: int, chunks: int, partial: Word
) -> list[Word]:
    """Return `Grid`. The result is `out`, or `total` if it is f32."""
    results: list[Word] = [c.out, 0] if c.dtype == BF16 else [0, c.out]
    return [c.m, c.n, tiles_m, tiles_n, splits, chunks, c.out_elements, *results, partial]


def blocks_plan(count: int) -> LaunchPlan:
    """Return the plan of single blocks. Buffers: factors a and b (uint16, bits of bf16, [count, 16]), accumulators
    (f32, [count]) and results (the same)."""
    blocks = ceil_div(count, BLOCKS_THREADS // WARP * BLOCKS_OF_A_WARP)
    words: list[Word] = [count, *[Ref(i) for i in range(4)]]
    return LaunchPlan((launch("tc16_matmul.tc16_blocks", blocks, BLOCKS_THREADS, words),) if count else ())
