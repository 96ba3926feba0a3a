"""Fused expressions whose values are rounded to bf16 on their way, or widened from it."""

import numpy as np
import pytest
from repops.fuse import fusion
from repops.fuse.expression import record
from repops.host import cpu
from repops.host.library import BEST_ISA
from repops.opset import BF16, F32
from repops.tensors import spec_of

from tests.kernels.fuse.fused import SHAPES, check, draw, scalar


@pytest.mark.parametrize("shape", SHAPES)
def test_values_that_are_rounded_to_bf16_on_their_way(shape):
    def rounded(o, x, y):
        once = o.cast(o.cast(o.add(x, y), dtype=BF16), dtype=F32)
        twice = o.cast(o.mul(once, y), dtype=BF16)
        wide = o.cast(twice, dtype=F32)
        again = o.cast(o.cast(o.cast(wide, dtype=BF16), dtype=F32), dtype=BF16)
        stored = o.cast(o.sub(wide, x), dtype=BF16)
        return twice, o.maximum(wide, once), again, stored, o.neg(o.cast(stored, dtype=F32))

    check(rounded, draw(shape), draw(shape, 1), fuses=0 not in shape)


def kernels_of(function, *inputs):
    """Return the names of the kernels that a composite of these inputs becomes."""
    return [done.name for done in fusion.FusionPlan(record(function, [*map(spec_of, inputs)]), BEST_ISA).code]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("op", ["add", "sub", "mul"])
def test_arithmetic_between_values_of_bf16_is_one_kernel(op, shape):
    """Results that are rounded, and stored or read again; operands that are widened, on either side or both."""

    def stored(o, x, y):
        return o.cast(getattr(o, op)(x, y), dtype=BF16)

    def read(o, x, y):
        return o.neg(o.cast(stored(o, x, y), dtype=F32))

    def left(o, x, y):
        return getattr(o, op)(o.cast(x, dtype=F32), y)

    def right(o, x, y):
        return getattr(o, op)(y, o.cast(x, dtype=F32))

    def both(o, x, z):
        return getattr(o, op)(o.cast(x, dtype=F32), o.cast(z, dtype=F32))

    # Halfway between values of bf16, beside them, and beyond the largest.
    near = np.array([0x3F808000, 0x3F818000, 0x3F808001, 0x7F7F8000, 0x7F800001, 0x00008000], np.uint32)
    x, y = draw(shape), draw(shape, 1)
    x.reshape(-1)[: near.size] = near.view(np.float32)[: x.size]
    y.reshape(-1)[: near.size] = {"mul": 1.0}.get(op, -0.0)
    fuses = 0 not in shape
    narrow = [cpu.execute("cast", [each], {"dtype": BF16})[0] for each in (x, y)]
    for other in (y, y[:1] if shape else y, scalar(-0.0)):
        for function in (stored, read):
            check(function, x, other, fuses=fuses)
        for function in (left, right):
            check(function, narrow[0], other, fuses=fuses)
    check(both, *narrow, fuses=fuses)
    if fuses:
        assert kernels_of(stored, x, y) == [f"{op}_to_bf16"]
        assert kernels_of(read, x, y) == [f"{op}_round_bf16", "neg_f32"]
        widening = [f"{op}_bf16_f32"] if op != "sub" else ["cast_bf16_f32", "sub_f32"]
        assert kernels_of(left, narrow[0], y) == kernels_of(right, narrow[0], y) == widening
        assert kernels_of(both, *narrow) == ["cast_bf16_f32", *widening]


def test_a_value_that_another_reads_too_keeps_its_kernel():
    def shared(o, x, y):
        total = o.add(x, y)
        return o.cast(total, dtype=BF16), o.neg(total)

    x = draw((3, 70))
    check(shared, x, draw((3, 70), 1))
    assert kernels_of(shared, x, x) == ["add_f32", "cast_f32_bf16", "neg_f32"]
