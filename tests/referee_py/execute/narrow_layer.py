"""A layer that is trained in bf16."""

from __future__ import annotations

import numpy as np
from repops.opset import BF16, F32
from repops.tensors import NUMPY_DTYPE

from referee_py.commit.tensor import Array
from referee_py.program import Program, SlotSource, TensorDescriptor

from ..program.tiny import Writer, constant, slot

TYPE = NUMPY_DTYPE[BF16]
WIDE, ROWS, COLUMNS = 560, 6, 5


def written() -> tuple[Program, list[Array], list[Array]]:
    """Return a layer that is trained in bf16: a master copy, a product, its gradient, and a convolution of the errors.

    The product is longer than a chunk, and most of it cancels, so that what blocks cut off shows in bf16. The gradient
    reads a transposed view, which a compiled step leaves where it is.
    """
    rng = np.random.default_rng(16)
    x = (rng.standard_normal((ROWS, WIDE)) * np.exp2(rng.integers(-9, 10, (ROWS, WIDE)))).astype(TYPE)
    half = WIDE // 2
    x[:, half:], x[:, 0] = -x[:, :half], 2.0**-9
    target = rng.standard_normal((ROWS, COLUMNS)).astype(np.float32)
    rate, kernel = np.array(-(2.0**-18), np.float32), rng.standard_normal((3, 2, 2, 1)).astype(TYPE)
    constants = [x, target, rate, kernel]
    weights = rng.standard_normal((half, COLUMNS)).astype(np.float32)
    initial = [np.concatenate([weights, weights]), np.zeros((2, 3, 1, 15), np.float32)]
    write = Writer(constants, initial)
    narrow = write("cast", slot(0), dtype=BF16)
    y = write("mm", constant(0), narrow)
    difference = write("sub", write("cast", y, dtype=F32), constant(1))
    upstream = write("cast", difference, dtype=BF16)
    turned = write("permute", constant(0), dims=(1, 0))
    gradient = write("cast", write("mm", turned, upstream), dtype=F32)
    window = {"stride": (1, 1), "padding": (1, 0), "dilation": (1, 1), "groups": 1}
    image = write("conv2d", write("reshape", upstream, shape=(1, 2, 1, 15)), constant(3), **window)
    seen = write("reshape", write("cast", image, dtype=F32), shape=(2, 3, 1, 15))
    weight = write("add", slot(0), write("mul", gradient, constant(2)))
    program = Program(
        tuple(write.nodes),
        (SlotSource(weight.index, 0), SlotSource(seen.index, 0)),
        tuple(map(TensorDescriptor.of, constants)),
        tuple(map(TensorDescriptor.of, initial)),
    )
    return program, constants, initial
