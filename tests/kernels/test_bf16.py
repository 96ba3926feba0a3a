"""bf16: casts, contractions, what moves it, and its committed form."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
import repops
import torch
from repops import reference
from repops.host import cpu
from repops.host.hashing import TreeKind, tree_root
from repops.host.library import BEST_ISA
from repops.opset import BF16, BOOL, F32, I64, OPS, Dtype, DtypeError
from repops.random_calls import SPECIAL_F32, random_call
from repops.sums import SumMode
from repops.tensors import NUMPY_DTYPE, canonical

TYPE = NUMPY_DTYPE[BF16]
ISAS = range(BEST_ISA + 1)
ALL = np.arange(1 << 16, dtype=np.uint16).view(TYPE)
CONTRACTIONS = ("mm", "bmm", "conv2d", "conv2d_input_grad", "conv2d_weight_grad")


def floats() -> np.ndarray:
    """Return special values, neighbours of every kind of midpoint, and random bits."""
    rng = np.random.default_rng(1)
    upper = rng.integers(0, 1 << 16, 4000, dtype=np.uint32) << 16
    near = [upper | low for low in (0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF)]
    return np.concatenate([SPECIAL_F32, *near, rng.integers(0, 1 << 32, 40000, dtype=np.uint32)]).view(
        np.float32
    )


@pytest.mark.parametrize("isa", ISAS)
def test_casts_are_those_of_torch(isa):
    (wide,) = cpu.execute("cast", [ALL], {"dtype": F32}, isa=isa)
    theirs = torch.from_numpy(ALL.view(np.int16)).view(torch.bfloat16).float().numpy()
    np.testing.assert_array_equal(wide, theirs)
    (back,) = cpu.execute("cast", [wide], {"dtype": BF16}, isa=isa)
    assert canonical(back).tobytes() == canonical(ALL).tobytes()
    x = floats()
    (narrow,) = cpu.execute("cast", [x], {"dtype": BF16}, isa=isa)
    theirs = torch.from_numpy(x).bfloat16().view(torch.int16).numpy().view(TYPE)
    assert canonical(narrow).tobytes() == canonical(theirs).tobytes()


@pytest.mark.parametrize(("given", "wanted"), [(I64, BF16), (BOOL, BF16), (BF16, I64), (BF16, BOOL)])
def test_other_casts_are_refused(given, wanted):
    with pytest.raises(DtypeError, match="bf16 is cast from and to f32 only"):
        cpu.execute("cast", [np.zeros(3, NUMPY_DTYPE[given])], {"dtype": wanted})


@pytest.mark.parametrize("isa", ISAS)
def test_a_stochastic_cast_rounds_away_as_often_as_it_should(isa):
    random = np.arange(-3, (1 << 16) - 3)  # every number modulo 2^16, once
    for x in (1.0, -1.0, 1.0000001, -3.14159, 1e-40, -1e-45, 65504.1, 3.3895314e38, -3.4e38):
        a = np.float32(x)
        (found,) = cpu.execute("cast_stochastic", [np.array(a), random], {}, isa=isa)
        bits = int(np.array(a).view(np.uint32))
        towards, away = bits >> 16, (bits >> 16) + 1
        got, counts = np.unique(found.view(np.uint16), return_counts=True)
        want = {towards: (1 << 16) - (bits & 0xFFFF), away: bits & 0xFFFF}
        assert dict(zip(got.tolist(), counts.tolist(), strict=True)) == {k: v for k, v in want.items() if v}


def test_a_stochastic_cast_keeps_infinities_and_nan():
    a = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0], np.float32)
    (found,) = cpu.execute("cast_stochastic", [a, np.full(5, 0xFFFF)], {})
    assert canonical(found).view(np.uint16).tolist() == [0x7F80, 0xFF80, 0x7FC0, 0, 0x8000]


def check_rounded(name, inputs, attrs, threads=(2,)):
    """Compare with the same contraction of f32, whose results are cast."""
    narrow = [cpu.execute("cast", [x], {"dtype": BF16})[0] if x.dtype == np.float32 else x for x in inputs]
    wide = [cpu.execute("cast", [x], {"dtype": F32})[0] for x in narrow]
    (want,) = cpu.execute("cast", cpu.execute(name, wide, attrs), {"dtype": BF16})
    for isa, count in itertools.product(ISAS, threads):
        (got,) = cpu.execute(name, narrow, attrs, threads=count, isa=isa)
        assert got.dtype == TYPE
        assert canonical(got).tobytes() == canonical(want).tobytes()


@pytest.mark.parametrize("name", CONTRACTIONS)
def test_a_contraction_is_that_of_f32_rounded(name):
    for seed in range(12):
        check_rounded(name, *random_call(name, f"bf16 {seed}", "usual"))


@pytest.mark.parametrize("side", [1, 2, 3, 4, 7, 8, 16])
@pytest.mark.parametrize(("kernel", "stride"), [(1, 1), (1, 2), (3, 1), (3, 2), (5, 3)])
def test_convolutions_of_networks(side, kernel, stride):
    """Runs of every length, in panels and in results; several chunks; special values among the factors."""
    rng = np.random.default_rng(side)
    geometry = {"stride": (stride, stride), "padding": (kernel // 2,) * 2, "dilation": (1, 1)}
    out = (side + kernel // 2 * 2 - kernel) // stride + 1
    for images, channels, filters, groups in ((9, 130, 26, 1), (3, 13, 130, 2), (2, 1, 1, 5)):
        x = rng.standard_normal((images, channels * groups, side, side)).astype(np.float32)
        y = rng.standard_normal((images, filters * groups, out, out)).astype(np.float32)
        w = rng.standard_normal((filters * groups, channels, kernel, kernel)).astype(np.float32)
        for array in (x, y, w) if images < 9 else ():
            places = rng.integers(0, array.size, 2)
            array.reshape(-1)[places] = rng.choice(SPECIAL_F32.view(np.float32), 2)
        attrs = {**geometry, "groups": groups}
        check_rounded("conv2d", [x, w], attrs, (1, 3))
        check_rounded("conv2d_input_grad", [y, w], {**attrs, "input_hw": (side, side)}, (1, 3))
        check_rounded("conv2d_weight_grad", [y, x], {**attrs, "kernel_hw": (kernel, kernel)}, (1, 3))


def test_the_mode_exact_rounds_once():
    # 1 + 2^-8 is a midpoint of bf16; 2^-30 above it is lost in f32, where the midpoint then goes to the even neighbour.
    a = np.array([[1.0, 2.0**-4, 2.0**-15]], np.float32).astype(TYPE)
    b = a.reshape(3, 1)
    (once,) = reference.execute_exact("mm", [a, b], {})
    (twice,) = reference.execute("mm", [a, b], {})
    real = sum(Fraction(float(x)) ** 2 for x in a[0])
    assert Fraction(1) + Fraction(1, 256) < real
    assert (float(once[0, 0]), float(twice[0, 0])) == (1.0 + 2.0**-7, 1.0)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("k", [1, 2, 5, 70])
@pytest.mark.parametrize(
    "exponent",
    [
        *(-134, -133, -126, -110),  # what is half of the smallest value, subnormal, just normal, cancelled
        *(0, 120, 127),  # far from any end, near the largest value, beyond it
    ],
)
def test_the_mode_exact_at_the_ends_of_the_range(exponent, k, isa):
    """Sums of few bits, so that many are midpoints, of both signs, and zeros, which are +0."""
    draw = np.random.default_rng([abs(exponent), k])
    half = exponent // 2

    def operand(shape, scale):
        whole = draw.integers(-20, 21, shape) * 2.0 ** draw.integers(-4, 3, shape)
        return np.ldexp(whole, scale).astype(np.float32).astype(TYPE)

    a, b = operand((9, k), half), operand((k, 37), exponent - half - 4)
    for left, right in ((a, b), (a, b[:, :3].copy())):
        (want,) = reference.execute_exact("mm", [left, right], {})
        (got,) = cpu.execute("mm", [left, right], {}, isa=isa, sums=SumMode.EXACT)
        assert canonical(got).tobytes() == canonical(want).tobytes()


def test_no_other_operator_takes_it():
    """Elementwise arithmetic, comparisons, sums of values, maxima and pooling are f32."""
    taking = set()
    for op in OPS:
        inputs, attrs = random_call(op.name, 0, "tiny")
        for dtypes in itertools.product(Dtype, repeat=len(inputs)):
            specs = [(dtype, array.shape) for dtype, array in zip(dtypes, inputs, strict=True)]
            try:
                op.infer(specs, {**attrs, "dtype": F32} if op.name == "cast" else attrs)
            except DtypeError:
                continue
            if BF16 in dtypes:
                taking.add(op.name)
    assert taking == {"reshape", "permute", "expand", "slice", "cat", "take", "where", "cast", *CONTRACTIONS}


def test_torch_tensors_share_their_memory():
    a = torch.arange(6.0).reshape(2, 3).bfloat16()
    found = repops.mm(a, a.t().contiguous())
    assert found.dtype == torch.bfloat16
    assert torch.equal(found, a @ a.t())
    out = torch.zeros(3, 2, dtype=torch.bfloat16)
    repops.permute(a, dims=(1, 0), out=out)
    assert torch.equal(out, a.t())


def test_every_nan_is_committed_alike():
    kind = TreeKind(1, 2, bytes(32))
    x = np.tile(ALL, 3)
    nan = np.isnan(x.astype(np.float32))
    assert nan.any()
    bits = np.where(nan, np.uint16(0x7FC0), x.view(np.uint16))
    assert canonical(x).view(np.uint16).tolist() == bits.tolist()
    for isa in ISAS:
        assert (
            tree_root(x, kind, isa=isa) == tree_root(bits.view(TYPE), kind) == tree_root(canonical(x), kind)
        )
