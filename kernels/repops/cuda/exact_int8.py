"""Plans of mm and bmm of bf16 in the mode exact by products of bytes (kernels/cuda/exact_int8.cu).

Launches: clear facts and counters, measure, cut, multiply, finish if K is split. Tiles of which many elements are
open, because their factors reach over a wide range, are multiplied again by sums of f64; then what is open is resolved.
Other products go by sums of f64 alone (`exact_contraction`).
"""

from __future__ import annotations

from ..opset import BF16
from ..sums import SumMode
from ..tensors import Call
from . import exact_contraction
from .contraction import CHUNK, Contraction, Tile, choose
from .matmul import product_of
from .plan import MAX_GRID, LaunchPlan, Ref, Target, Word, ceil_div, grid, launch, planner, workspace_of

MAX_K = (1 << 16) - 1
"""Terms whose sums are certain to fit in 32 bits (exact_int8.cuh)."""
MAX_PLANES = 1 << 30  # bytes
TILES = (Tile("multiply", 64, 128, 2, 1.0),)
PLANES, DEEP = 3, 32
LINES, SPAN, CUT_THREADS = 32, 128, 256
FACTS = 40  # bytes
FEW = 64 * 64 // 32
"""Open elements of a tile that are resolved one by one. An estimate: a term takes some 30 times as long there."""


@planner("mm", "bmm", sums=SumMode.EXACT)
def product(call: Call, target: Target) -> LaunchPlan:
    c, operands = product_of(call)
    if applies(c, target):
        return plan(c, call, target, operands)
    return exact_contraction.product(c, call, target, operands)


def applies(c: Contraction, target: Target) -> bool:
    """Return whether a product can go this way, and is large enough that cutting its factors pays."""
    return (
        c.dtype == BF16
        and c.out_elements > 0
        and 0 < c.k <= MAX_K
        and min(c.m, c.n) >= target.least_by_bytes
        and _plane_bytes(c, c.m) + _plane_bytes(c, c.n) <= MAX_PLANES
        and _cut_blocks(c) <= MAX_GRID
    )


def plan(c: Contraction, call: Call, target: Target, operands: list[Word]) -> LaunchPlan:
    """Return the plan of a product to which this applies. `operands` are the words of `Matmul` after its grid."""
    chunks = ceil_div(c.k, CHUNK)
    cut = choose(c, chunks, target, TILES, exact_contraction.FINISH)
    lines = c.batches * (c.m + c.n)
    planes, facts = workspace_of(call, 0), workspace_of(call, 1)
    planes_of_b = Ref(planes.buffer, _plane_bytes(c, c.m))
    facts_of_b = Ref(facts.buffer, FACTS * c.batches * c.m)
    open_, tiles = Ref(facts.buffer, FACTS * lines), cut.tiles_m * cut.tiles_n * c.batches
    workspaces: tuple[int, ...] = (planes_of_b.offset + _plane_bytes(c, c.n), open_.offset + 8 * tiles)
    sums: Word = 0
    if cut.splits > 1:
        sums = workspace_of(call, 2)
        workspaces = (*workspaces, 8 * cut.splits * c.out_elements)

    _, a, b = operands
    cutting: list[Word] = [c.batches, c.k, _pitch(c)]
    cutting += [c.m, c.k, 1, a, planes, facts]
    cutting += [c.n, 1, c.n, b, planes_of_b, facts_of_b]
    words: list[Word] = [c.m, c.n, cut.tiles_m, cut.tiles_n, cut.splits, chunks, c.out_elements, c.out, 0, 0]
    words += [*operands, c.batches, _pitch(c), planes, planes_of_b, facts, facts_of_b, sums, open_]

    words_of_facts = workspaces[1] // 8
    clear: list[Word] = [words_of_facts, 0, facts]
    launches = [
        launch("layout.fill_8", grid(words_of_facts, 256 * 4, target), 256, clear),
        launch("exact_int8.exact_int8_measure", _cut_blocks(c), CUT_THREADS, cutting),
        launch("exact_int8.exact_int8_cut", _cut_blocks(c), CUT_THREADS, cutting),
        launch("exact_int8.exact_int8_multiply", tiles * cut.splits, cut.tile.threads, words),
    ]
    if cut.splits > 1:
        finish = grid(c.out_elements, 256, target)
        launches.append(launch("exact_int8.exact_int8_finish", finish, 256, words))
    again, bytes_again = exact_contraction.product_again(
        c, operands, target, FEW, open_, workspace_of(call, len(workspaces))
    )
    return LaunchPlan((*launches, *again), (*workspaces, bytes_again) if bytes_again else workspaces)


def _pitch(c: Contraction) -> int:
    """Return the bytes of a line in a plane."""
    return ceil_div(c.k, DEEP) * DEEP


def _plane_bytes(c: Contraction, lines: int) -> int:
    return PLANES * c.batches * lines * _pitch(c)


def _cut_blocks(c: Contraction) -> int:
    tiles = ceil_div(c.m, LINES) + ceil_div(c.n, LINES)
    return ceil_div(_pitch(c), SPAN) * tiles * c.batches
