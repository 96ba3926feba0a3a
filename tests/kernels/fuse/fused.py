"""Comparing a fused expression with its operators one by one, and the inputs to do it with."""

import numpy as np
from repops.fuse import fusion
from repops.fuse.expression import Eager
from repops.host import cpu
from repops.host.library import BEST_ISA
from repops.tensors import canonical, spec_of

SHAPES = [(5,), (3, 7), (1,), (2, 3, 1025), (17, 4097), (2, 9000), (4, 64), (2, 1), (0, 3), (3, 0), ()]
ROWS = [shape for shape in SHAPES if shape]
# NaNs with payloads, infinities, zeros, ends of the range, ties of bf16 and their neighbours, and hard cases of
# functions (the last three).
SPECIAL = np.array(
    [
        *(0x7FC00001, 0xFFC12345, 0x7F800001, 0x7F800000, 0xFF800000, 0x80000000, 0, 1, 0x80000001),
        *(0x007FFFFF, 0x7F7FFFFF, 0xFF7FFFFF, 0x00008000, 0x00018000, 0x80008000, 0x7F7F8000, 0x7F7F7FFF),
        *(0x3F808000, 0x3F818000, 0x3F808001, 0x3F807FFF, 0x3F800000, 0x40000000, 0xC0000000, 0x4B800000),
        *(0x44EB0348, 0xC41CACCD, 0x7F61B1E6),
    ],
    np.uint32,
).view(np.float32)


def draw(shape, seed=0, special=True):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape, dtype=np.float32)
    if special and x.size > 3:
        bits = np.array([0x7FC00001, 0xFF800000, 0x80000000, 0x00000001, 0x7F7FFFFF], np.uint32)
        where = rng.integers(0, x.size, x.size // 50 + 1)
        x.reshape(-1)[where] = rng.choice(bits.view(np.float32), where.size)
    return x


def scalar(value):
    return np.array(value, np.float32)


def one_by_one(function, inputs, options, execute=cpu.execute):
    result = function(Eager(execute), *inputs, **options)
    return list(result) if isinstance(result, tuple) else [result]


def same(got, want):
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        assert canonical(a).tobytes() == canonical(b).tobytes()


def check(function, *inputs, fuses=True, **options):
    want = one_by_one(function, inputs, options)
    same(fusion.apply(function, *inputs, **options), want)
    kernel = fusion.fused(function, map(spec_of, inputs), **options)
    assert (kernel is not None) == fuses
    for isa in range(BEST_ISA + 1) if kernel else ():
        for threads in (1, 2, 3):
            same(kernel(inputs, threads=threads, isa=isa), want)
