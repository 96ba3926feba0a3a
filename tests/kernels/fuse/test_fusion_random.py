"""Random expressions give the bits of their operators one by one.

Every operator that fuses, rows of all lengths, hard cases of the functions, and outputs where inputs are.
"""

from __future__ import annotations

import numpy as np
import pytest
from repops.fuse.expression import Eager, record
from repops.fuse.fusion import Fused
from repops.fuse.phases import NotFusibleError
from repops.host import cpu, exact
from repops.host.library import BEST_ISA
from repops.opset import BF16, F32, I64, OpError
from repops.tensors import NUMPY_DTYPE, spec_of

from tests.kernels.fuse.fused import SPECIAL, same

SHAPES = [
    (64,),
    (3, 64),
    (2, 130),
    (5, 1025),
    (1, 4097),
    (7, 2),
    (2, 3, 128),
    (300, 3),
    (1, 1),
    (17, 33),
    (1, 1024),
]
BINARY = ["add", "sub", "mul", "div", "maximum", "minimum", "pow"]
UNARY = ["exp", "log", "erf", "tanh", "sin", "cos", "log1p", "neg", "sqrt", "rsqrt"]
COMPARISONS = ["lt", "ge", "eq", "ne"]


class Case:
    """Inputs and an expression of them; the same for the same seed."""

    def __init__(self, seed):
        self.seed = seed
        self.random = np.random.default_rng(seed)
        self.shape = SHAPES[self.random.integers(len(SHAPES))]
        row, item = self.shape[-1:], (*self.shape[:-1], 1)
        shapes = [(self.shape, item, row, ())[k] for k in self.random.choice(4, 4, p=[0.7, 0.15, 0.1, 0.05])]
        self.inputs = [self._input(shape) for shape in shapes[: self.random.integers(1, 5)]]

    def _input(self, shape):
        kind = str(self.random.choice(["f32", "f32", "f32", "bf16", "i64"]))
        if kind == "i64":
            return np.asarray(self.random.integers(-5, 1 << int(self.random.integers(1, 62)), shape))
        x = self.random.standard_normal(shape, np.float32).reshape(shape)
        x *= np.float32(2.0) ** self.random.choice([0, 0, *range(-20, 21, 10)])
        x = np.array(np.abs(x) if self.random.random() < 0.25 else x, np.float32)
        if x.size and self.random.random() < 0.75:
            count = max(1, x.size // int(self.random.choice([3, 20, 100])))
            x.reshape(-1)[self.random.integers(0, x.size, count)] = self.random.choice(SPECIAL, count)
        with np.errstate(invalid="ignore"):
            return x.astype(NUMPY_DTYPE[BF16]) if kind == "bf16" else x

    def function(self, o, *inputs):
        """Compute with `o` some values of the inputs and of one another, preferring late ones; return a few."""
        random = np.random.default_rng(self.seed + 1)
        pool = {F32: [], BF16: [], I64: []}
        for x in inputs:
            pool[spec_of(x)[0] if isinstance(x, np.ndarray) else x.dtype].append(x)
        pool[F32] = pool[F32] or [o.cast((pool[BF16] or pool[I64])[0], dtype=F32)]
        made = []

        def late(dtype):
            values = pool[dtype]
            return values[-1 - min(int(random.exponential(2)), len(values) - 1)]

        def add(dtype, value):
            pool[dtype].append(value)
            made.append(value)

        def combined(name, a, b):
            return getattr(o, name)(*((a, b) if random.random() < 0.6 else (b, a)))

        for kind in random.choice(
            8, int(random.integers(1, 14)), p=[0.25, 0.2, 0.15, 0.1, 0.1, 0.1, 0.05, 0.05]
        ):
            x = late(F32)
            match kind:
                case 0:
                    add(F32, combined(random.choice(BINARY), x, late(F32)))
                case 1:
                    add(F32, getattr(o, random.choice(UNARY))(x))
                case 2 if x.shape == self.shape and x.shape[-1] > 1:
                    total = getattr(o, random.choice(["sum", "amax"]))(x, dims=(len(x.shape) - 1,), keepdim=1)
                    add(F32, combined(random.choice(BINARY), x, total))
                case 3:
                    add(BF16, o.cast(x, dtype=BF16))
                case 4 if pool[BF16]:
                    add(F32, o.cast(late(BF16), dtype=F32))
                case 5:
                    add(F32, o.where(getattr(o, random.choice(COMPARISONS))(x, late(F32)), x, late(F32)))
                case 6:
                    pool[I64].append(o.cast(x, dtype=I64))
                    add(F32, o.cast(o.add(late(I64), late(I64)), dtype=F32))
                case 7 if pool[I64]:
                    add(BF16, o.cast_stochastic(x, late(I64)))
        whole = [value for value in made[-6:] if value.shape in (self.shape, (*self.shape[:-1], 1))]
        return tuple([value for value in whole if random.random() < 0.5] or whole[-1:])


def in_place(shareable, arrays, specs, random):
    """Return outputs of these specs, of which as many as may be are inputs."""
    out, used = [np.empty(shape, NUMPY_DTYPE[dtype]) for dtype, shape in specs], set()
    for i, o in random.permutation(sorted(shareable)).reshape(-1, 2).tolist():
        if not used & {("input", i), ("output", o)}:
            out[o] = arrays[i]
            used |= {("input", i), ("output", o)}
    return out


def check(seed):
    """Return whether the case fuses."""
    case = Case(seed)
    in_exact = seed % 3 == 0
    try:
        expression = record(case.function, [spec_of(x) for x in case.inputs])
        kernel = Fused(expression, exact=in_exact)
    except (OpError, NotFusibleError):
        return False
    numbers = list(dict.fromkeys(expression.outputs))
    if not numbers or len(numbers) != len(expression.outputs):
        return False
    want = case.function(Eager((exact if in_exact else cpu).execute), *case.inputs)
    specs = [expression.spec(number) for number in numbers]
    for isa in range(BEST_ISA + 1):
        threads = int(case.random.integers(1, 4))
        same(kernel(case.inputs, threads=threads, isa=isa), want)
        arrays = [x.copy() for x in case.inputs]
        out = in_place(kernel._plan(isa)[0].shareable, arrays, specs, case.random)
        same(kernel(arrays, threads=threads, isa=isa, out=out), want)
    return True


def check_some(seeds):
    fused = sum(check(seed) for seed in seeds)
    assert fused > len(seeds) / 4, fused


@pytest.mark.parametrize("part", range(4))
def test_random_expressions(part):
    check_some(range(part, 1200, 4))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_many_random_expressions(part):
    check_some(range(10_000 + part, 60_000, 10))
