"""Whether this GPU computes the mode tc16: its tensor cores against the rule in integers (docs/tensor-cores.md).

The mode is the rule and not what a chip does, so whoever lets something rest on a GPU's results compares it first:
single blocks by `mma.sync` with the reference, and products, which warpgroups multiply where a GPU has them, with those
of the processor. Two instructions of one chip need not agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ..block_data import DRAWERS, blocks_of, factors
from ..host import cpu
from ..opset import BF16
from ..reference.tensor_core import block
from ..sums import SumMode
from ..tensors import NUMPY_DTYPE, Array, canonical
from . import executor
from .errors import RuleBroken

EACH = 1 << 13
"""Blocks of each kind of data, 155,648 in all: a second, and as long for the reference."""
PRODUCT = 64, 528, 64
"""Rows, terms and columns of a product: the least that warpgroups take, and two chunks."""


def check(each: int = EACH, kinds: Sequence[str] = tuple(DRAWERS)) -> int:
    """Compare ``each`` blocks and a product of each of ``kinds`` of data with the rule. Return how many blocks agree.

    Raise RuleBroken, CudaUnavailable or LaunchError.
    """
    if wrong := [line for kind in kinds for line in _broken(kind, each)]:
        raise RuleBroken("\n".join(wrong))
    rows, terms, columns = PRODUCT
    return len(kinds) * (each + rows * columns * (terms // 16))


def _broken(kind: str, each: int) -> Iterator[str]:
    """Yield what differs from the rule, with the first example."""
    a, b, c = blocks_of(kind, each)
    left, right = (executor.put(x.view(NUMPY_DTYPE[BF16])) for x in (a, b))
    got = _bits(executor.get(executor.blocks(left, right, executor.put(c.view(np.float32)))))
    want = block(a, b, c)
    places = np.flatnonzero(got != want)
    for at in places[:1]:
        given = f"a {a[at].tobytes().hex()} b {b[at].tobytes().hex()} c {c[at]:08x}"
        told = f"{kind}: {places.size} of {each} blocks break the rule, the first: {given}: "
        yield f"{told}{got[at]:08x}, the rule gives {want[at]:08x}"
    pair = factors(np.random.default_rng([*kind.encode()]), kind, *PRODUCT)
    (want,) = cpu.execute("mm", pair, {}, sums=SumMode.TC16)
    (found,) = executor.execute("mm", [executor.put(x) for x in pair], {}, sums=SumMode.TC16)
    got = canonical(executor.get(found))
    if differ := int(np.count_nonzero(got.view(np.uint16) != canonical(want).view(np.uint16))):
        yield f"{kind}: {differ} of {want.size} elements of a product {PRODUCT} are not the processor's"


def _bits(values: Array) -> Array:
    return canonical(values).view(np.uint32)
