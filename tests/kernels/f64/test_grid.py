"""Fused kernels that round to a grid: arithmetic against binary64, functions against MPFR, on every instruction set."""

from __future__ import annotations

import numpy as np
import pytest
from repops.f64.rounding import single
from repops.fuse import fusion
from repops.fuse.expression import Recorder
from repops.fuse.phases import NotFusibleError
from repops.host.library import BEST_ISA
from repops.opset import F32, I64, Shape

from referee_py.program.modes import Rounding
from referee_py.rounding.decide_exactly import decide_exactly
from referee_py.rounding.elementary import bracket
from referee_py.rounding.entries import Entries
from referee_py.rounding.primitives import rnd

Floats = np.ndarray[tuple[int, ...], np.dtype[np.float32]]

BITS = (26, 29, 31)
ISAS = range(BEST_ISA + 1)
ARITHMETIC = ("add", "sub", "mul", "div", "sqrt")
FUNCTIONS = ("exp", "log", "log1p", "tanh", "erf", "sin", "cos", "rsqrt")
LINE = 16  # elements that are processed together
SPECIAL = np.array(
    [
        *(0.0, -0.0, 1, -1, 2, np.inf, -np.inf, np.nan, -np.nan, 0.5, 4, 10, 1e30, 1.8e19, 2.0**64, 2.0**18),
        *(2.0**-149, -(2.0**-149), 2.0**-126, 1.1754942e-38, 2.0**-75, 2.0**-76, 3.4028235e38, -3.4028235e38),
        *(88.7, 88.73, 89, -87.3, -87.4, -103.2, -103.98, -104, -105, 3.96, -0.99999994),
    ],
    np.float32,
)


def draw(seed: int, size: int = 3000) -> Floats:
    """Return any bits, numbers of any size, ordinary ones, and special ones."""
    rng = np.random.default_rng(seed)
    found = [
        rng.integers(0, 2**32, size, dtype=np.uint32).view(np.float32),
        np.exp(rng.normal(0, 20, size)).astype(np.float32) * rng.choice([-1, 1], size).astype(np.float32),
        rng.normal(size=size).astype(np.float32),
        rng.permutation(np.repeat(SPECIAL, 8)),
    ]
    return np.concatenate(found)


def fused(name: str, shapes: list[Shape], bits: int) -> fusion.Fused:
    recorder = Recorder([(F32, shape) for shape in shapes], name, [f"x{i}" for i in range(len(shapes))])
    result = getattr(recorder, name)(*(recorder.input(i) for i in range(len(shapes))))
    recorder.expression.outputs = (result.number,)
    return fusion.Fused(recorder.expression, bits=bits)


def same(got: Floats, want: Floats) -> None:
    """Compare bit for bit; there is one NaN."""
    canonical = np.where(np.isnan(want), np.float32(np.nan), want).astype(np.float32)
    assert np.array_equal(got.view(np.uint32), canonical.view(np.uint32))


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("name", ARITHMETIC)
@np.errstate(all="ignore")
def test_arithmetic_is_that_of_binary64_rounded(name: str, bits: int) -> None:
    function = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "sqrt": np.sqrt}[
        name
    ]
    x, y = draw(bits), draw(bits + 1)
    pairs = [(x, y), (x, y[:1]), (x[-1:], y), (x[:63], y[:63]), (x[:1], y[:1])]
    for operands in [(x,), (x[:1],), (x[:65],)] if name == "sqrt" else pairs:
        kernel = fused(name, [v.shape for v in operands], bits)
        want = rnd(function(*(v.astype(np.float64) for v in operands)), bits).astype(np.float32)
        for isa in ISAS:
            same(kernel(list(operands), isa=isa)[0], want)
            if operands[0].shape == want.shape:  # in place
                first = operands[0].copy()
                kernel([first, *operands[1:]], isa=isa, out=[first])
                same(first, want)


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("name", FUNCTIONS)
@np.errstate(invalid="ignore")
def test_functions_are_the_truth_or_in_doubt(name: str, bits: int) -> None:
    """In doubt only if the exact value is next to a midpoint; here also for operands that are not on the grid."""
    given = np.concatenate(
        [draw(bits, 1000), np.random.default_rng(1).normal(0, 60, 1000).astype(np.float32)]
    )
    x = np.concatenate([given, rnd(given.astype(np.float64), bits).astype(np.float32)])
    x = x[: x.size // LINE * LINE]
    none = Entries.none(x.size)
    truth = decide_exactly(name, [x], {}, np.arange(x.size), none, Rounding(bits)).astype(np.float32)
    kernel = fused(name, [(LINE,)], bits)
    for isa in ISAS:
        doubts = 0
        for at in range(0, x.size, LINE):
            part = slice(at, at + LINE)
            try:
                same(kernel([x[part].copy()], isa=isa)[0], truth[part])
            except fusion.InDoubt:
                doubts += 1
                assert any(near_a_midpoint(name, float(v), bits) for v in x[part])
        assert doubts < x.size // LINE // 2


def near_a_midpoint(name: str, x: float, bits: int) -> bool:
    """Return whether a midpoint is within a relative distance of 2^-46 of the function's exact value."""
    if not np.isfinite(x) or (name in ("log", "rsqrt") and x <= 0) or (name == "log1p" and x <= -1):
        return False
    around = bracket(name, [x], 128)
    if isinstance(around, float):
        return False
    value = float(around[0]) * 2.0 ** around[2]
    down, up = (float(rnd(np.array(value * (1 + sign * 2.0**-46)), bits)) for sign in (-1, 1))
    return down != up


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("isa", ISAS)
def test_a_value_at_a_midpoint_is_in_doubt(isa: int, bits: int) -> None:
    half = 2.0 ** (8 - bits)  # of the quantum at 1
    tiny = np.float32(2.0**-40 * (1 + half))
    for name, x in (("tanh", tiny), ("sin", tiny), ("exp", np.float32(half * (1 - half / 2)))):
        for size in (1, 17, 200):
            operand = np.full(size, 0.25, np.float32)
            kernel = fused(name, [(size,)], bits)
            kernel([operand], isa=isa)
            operand[size // 2] = x
            with pytest.raises(fusion.InDoubt, match=f"grid\\({bits}\\)"):
                kernel([operand], isa=isa)


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("shape", [(3, 5), (7, 64), (2, 2500)])
def test_phases_and_items(shape: Shape, bits: int) -> None:
    """A row's maximum and its uses; a function of items; selected results."""
    x = rnd(np.random.default_rng(bits).normal(0, 3, shape), bits).astype(np.float32)
    recorder = Recorder([(F32, shape)], "rows", ["x"])
    values = recorder.input(0)
    top = recorder.amax(values, dims=(1,), keepdim=1)
    power = recorder.exp(recorder.sub(values, top))
    scale = recorder.rsqrt(recorder.mul(top, top))
    chosen = recorder.where(recorder.lt(values, top), recorder.mul(power, scale), recorder.neg(power))
    recorder.expression.outputs = (chosen.number,)
    largest = x.max(axis=1, keepdims=True)
    difference = single("sub", [x, largest], bits)
    square = single("mul", [largest, largest], bits)
    none = Entries.none(x.size)
    found = decide_exactly("exp", [difference], {}, np.arange(x.size), none, Rounding(bits)).astype(
        np.float32
    )
    found = found.reshape(shape)
    inverse = decide_exactly(
        "rsqrt", [square], {}, np.arange(shape[0]), Entries.none(shape[0]), Rounding(bits)
    )
    product = single("mul", [found, inverse.astype(np.float32).reshape(-1, 1)], bits)
    want = np.where(x < largest, product, -found)
    for isa in ISAS:
        same(fusion.Fused(recorder.expression, bits=bits)([x], isa=isa)[0], want)


def test_results_of_functions_may_not_take_an_operands_memory() -> None:
    """NOTE: the caller that decides a case in doubt needs the operands."""
    assert not fused("rsqrt", [(8,)], 26).shareable
    assert fused("sqrt", [(8,)], 26).shareable


def test_what_no_kernel_rounds_is_refused() -> None:
    with pytest.raises(NotFusibleError, match="rounds to a grid"):
        fused("pow", [(3,), (3,)], 26)
    recorder = Recorder([(I64, (3,))], "cast", ["x"])
    recorder.expression.outputs = (recorder.cast(recorder.input(0), dtype=F32).number,)
    with pytest.raises(NotFusibleError, match="rounds to a grid"):
        fusion.Fused(recorder.expression, bits=31)
