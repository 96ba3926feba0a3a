"""Comparison of this GPU's tensor cores with the rule of the mode tc16 in integers (docs/tensor-cores.md).

The mode is the rule and not what a chip does, so whoever lets something rest on a GPU's results compares it first:
single blocks by `mma.sync` with the reference, and products, which warpgroups multiply where a GPU has them, with those
of the processor. Two instructions of one chip need not agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ..block_data import DRAWERS, blocks_of, drawn, factors
from ..host import cpu
from ..opset import BF16, Attrs
from ..reference.tensor_core import block
from ..sums import SumMode
from ..tensors import NUMPY_DTYPE, Array, canonical
from . import executor
from .errors import RuleBroken

EACH = 1 << 13
"""Blocks of each kind of data, 155,648 in all: a second, and as long for the reference."""
PRODUCT = 64, 528, 64
"""Rows, terms and columns of a product: the least that warpgroups take, and two chunks."""
LARGE_PRODUCT = 4096, 32, 3072
"""Of one that the wide tile takes, on a GPU with up to 148 multiprocessors: its instruction has more columns."""
CONVOLUTION = (2, 32, 32, 32), (64, 32, 3, 3)
LARGE_KINDS = ("ordinary", "full sums", "subnormal results", "special values", "tails")
_NO_ATTRS: Attrs = {}
_WINDOW: Attrs = {"stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "groups": 1}


def check(each: int = EACH, kinds: Sequence[str] = tuple(DRAWERS), large: Sequence[str] = LARGE_KINDS) -> int:
    """Compare ``each`` blocks and a product of each of ``kinds`` of data with the rule, and of ``large`` kinds those
    that other instructions multiply. Return how many blocks agree.

    Raise RuleBroken, CudaUnavailable or LaunchError.
    """
    calls = [(kind, "mm", factors(_rng(kind), kind, *PRODUCT), _NO_ATTRS) for kind in kinds]
    for kind in large:
        calls.append((kind, "mm", factors(_rng(kind), kind, *LARGE_PRODUCT), _NO_ATTRS))
        calls.append((kind, "conv2d", [drawn(_rng(kind), kind, shape) for shape in CONVOLUTION], _WINDOW))
    wrong = [line for kind in kinds for line in _broken(kind, each)]
    if wrong := [*wrong, *(line for call in calls for line in _differs(*call))]:
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


def _differs(kind: str, name: str, inputs: list[Array], attrs: Attrs) -> Iterator[str]:
    """Yield how many elements of a contraction are not the processor's."""
    (want,) = cpu.execute(name, inputs, attrs, sums=SumMode.TC16)
    (found,) = executor.execute(name, [executor.put(x) for x in inputs], attrs, sums=SumMode.TC16)
    got = canonical(executor.get(found))
    if differ := int(np.count_nonzero(got.view(np.uint16) != canonical(want).view(np.uint16))):
        shapes = " and ".join(str(x.shape) for x in inputs)
        yield f"{kind}: {differ} of {want.size} elements of {name} of {shapes} are not the processor's"


def _rng(kind: str) -> np.random.Generator:
    return np.random.default_rng([*kind.encode()])


def _bits(values: Array) -> Array:
    return canonical(values).view(np.uint32)
