"""The mode exact: every kernel, run on the host from the same sources, gives real sums, rounded once."""

import numpy as np
import pytest
from repops import backend, reference
from repops.cuda.plan import Target
from repops.cuda.plans import differs, plan_of
from repops.host import cpu
from repops.opset import OPS
from repops.random_calls import random_call
from repops.selftest import digest
from repops.sums import SumMode
from repops.tensors import canonical, check

from tests.kernels.exact_cases import KINDS, draw_terms, total_of
from tests.kernels.test_exact import forms

from .calls import contractions, convolutions, normal, of_bf16, special
from .calls import rounded as to_bf16
from .emulation import EXACT, TARGET, Guarded, execute, needs_gcc, run

pytestmark = needs_gcc

OPERATORS = tuple(reference.exact.IMPLEMENTATION)
FORWARDS, BACKWARDS = 0, 3
BY_F64 = Target(1, least_by_bytes=1 << 62)  # test_exact_int8.py has the other way


def same(name, inputs, attrs, want, **options):
    (got,) = execute(name, inputs, attrs, sums=SumMode.EXACT, **options)
    context = (name, [array.shape for array in inputs], inputs[0].dtype, attrs, options)
    assert (got.dtype, got.shape) == (want.dtype, want.shape), context
    assert canonical(got).tobytes() == canonical(want).tobytes(), context


def agrees_with_the_reference(name, inputs, attrs, **options):
    (want,) = reference.execute_exact(name, inputs, attrs)
    same(name, inputs, attrs, want, order=FORWARDS, **options)
    same(name, inputs, attrs, want, order=BACKWARDS, shift=1, **options)


@pytest.mark.parametrize(
    ("scale", "seeds"), [("tiny", 60), pytest.param("usual", 20, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("name", OPERATORS)
def test_random_calls(name, scale, seeds):
    for seed in range(seeds):
        agrees_with_the_reference(name, *random_call(name, f"exact {seed}", scale))


def test_other_operators_are_those_of_the_other_mode():
    for op in OPS:
        inputs, attrs = random_call(op.name, 1)
        call = check(op.name, inputs, attrs)
        if op.name != "reshape" and not differs(call, SumMode.EXACT):
            assert plan_of(call, TARGET, sums=SumMode.EXACT) == plan_of(call, TARGET)
    call = check("sum", [np.arange(9)], {"dims": (0,), "keepdim": 0})
    assert plan_of(call, TARGET, sums=SumMode.EXACT) == plan_of(call, TARGET)  # i64


# -------------------------------------------------------------------------------------------------- long calls


def long_calls():
    """Yield the calls that reach every path, also more chunks than are summed at once, and longer sums."""
    yield from (*contractions(), *convolutions(), *of_bf16())
    yield "mm", [normal(5, 9000, seed=1), normal(9000, 40, seed=2)], {}
    yield "mm", to_bf16(normal(33, 9000, seed=1), normal(9000, 7, seed=2)), {}
    wild = np.ldexp(normal(2, 9001), np.random.default_rng(1).integers(-140, 120, (2, 9001))).astype(
        np.float32
    )
    for x in (normal(2, 9001), special(2, 9001), wild):  # the last needs exact digits
        yield "sum", [x], {"dims": (1,), "keepdim": 0}
        yield "sum", [x.reshape(-1, 2)], {"dims": (0,), "keepdim": 1}
        yield "sum", [x.reshape(2, 9001, 1)], {"dims": (0, 1), "keepdim": 0}
    yield "sum", [normal(3, 700, 5, seed=2)], {"dims": (1,), "keepdim": 0}
    yield "sum", [normal(5, 3, 700, seed=3)], {"dims": (0, 2), "keepdim": 0}
    few = np.random.default_rng(0).integers(-1, 9, 5000)
    yield "scatter_add", [normal(8, 70), few, normal(5000, 70, seed=1)], {}
    yield "scatter_add", [special(8, 3), few, special(5000, 3, seed=1)], {}


@pytest.mark.slow
@pytest.mark.parametrize("multiprocessors", [1, 4, 132])
def test_agrees_with_c_on_calls_that_reach_every_path(multiprocessors):
    for name, inputs, attrs in long_calls():
        (want,) = cpu.execute(name, inputs, attrs, sums=SumMode.EXACT)
        same(name, inputs, attrs, want, target=Target(multiprocessors), order=FORWARDS)
        same(name, inputs, attrs, want, target=Target(multiprocessors), order=BACKWARDS, shift=1)


@pytest.mark.parametrize("name", OPERATORS)
def test_agrees_with_c_on_long_tensors(name):
    for seed in range(6):
        inputs, attrs = random_call(name, f"exact {seed}", "long")
        (want,) = cpu.execute(name, inputs, attrs, sums=SumMode.EXACT)
        same(name, inputs, attrs, want, order=BACKWARDS)


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_infinities_and_nans(dtype):
    a, b = special(20, 70, seed=1), special(70, 20, seed=2)
    x, w = special(2, 3, 9, 8, seed=3), special(4, 3, 3, 3, seed=4)
    if dtype == "bf16":
        a, b, x, w = to_bf16(a, b, x, w)
    agrees_with_the_reference("mm", [a, b], {})
    window = {"stride": (2, 1), "padding": (2, 2), "dilation": (1, 1), "groups": 1}
    agrees_with_the_reference("conv2d", [x, w], window)


@pytest.mark.slow
@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_taps_that_do_not_exist_have_no_effect(value):
    """Not even beside operands that are not finite."""
    for name, inputs, attrs in convolutions():
        for place in (0, 1):
            changed = [array.copy() for array in inputs]
            changed[place].reshape(-1)[[0, inputs[place].size // 2, -1]] = value
            same(name, changed, attrs, cpu.execute(name, changed, attrs, sums=SumMode.EXACT)[0])


# -------------------------------------------------------------------------------- sums that are hard to round


@pytest.mark.parametrize("count", [8, 61, pytest.param(300, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", KINDS)
def test_hard_sums(kind, count):
    rng = np.random.default_rng([KINDS.index(kind), count, 1])
    for _ in range(4):
        a, b = draw_terms(rng, kind, count)
        if rng.random() < 0.5:  # values instead of products
            with np.errstate(all="ignore"):
                a, b = a * b, np.ones_like(b)
        want = np.float32(total_of(a, b))
        for name, inputs, attrs, at in forms(a, b):
            (got,) = execute(name, inputs, attrs, sums=SumMode.EXACT)
            assert canonical(got[at][None]).tobytes() == canonical(want[None]).tobytes(), (name, kind)


def cancelling(m, k, n, seed):
    """Return factors whose sums cancel down to their last bits, or to zero, over a range of 2^60."""
    rng = np.random.default_rng(seed)
    a = np.ldexp(rng.standard_normal((m, k)), rng.integers(-30, 30, (m, k))).astype(np.float32)
    b = rng.standard_normal((k, n)).astype(np.float32)
    half = k // 2
    a[:, half : 2 * half], b[half : 2 * half] = a[:, :half], -b[:half]
    b[half : 2 * half] += rng.choice(np.array([0, 0, 2.0**-24], np.float32), (half, n)) * b[:half]
    return a, b


def midpoints(m, k, n, seed):
    """Return factors of few bits, whose sums are often half-way between two results."""
    rng = np.random.default_rng(seed)
    a = rng.integers(-(2**12), 2**12, (m, k)).astype(np.float32)
    return a, rng.integers(-(2**12), 2**12, (k, n)).astype(np.float32)


@pytest.mark.parametrize("make", [cancelling, midpoints])
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_hard_products(make, dtype):
    for k in (2, 65, 200):
        factors = make(17, k, 12, k)
        agrees_with_the_reference("mm", to_bf16(*factors) if dtype == "bf16" else [*factors], {})


@pytest.mark.parametrize("exponents", [(-149, 127), (-100, 100), (-149, -120), (100, 127)])
def test_all_exponents(exponents):
    """Products from 2^-298 up, underflow to zero and subnormals, overflow that later terms take back."""
    rng = np.random.default_rng(149 + exponents[0])

    def draw(*shape):
        with np.errstate(over="ignore"):
            drawn = np.ldexp(rng.uniform(-2, 2, shape), rng.integers(*exponents, shape)).astype(np.float32)
        return np.where(np.isfinite(drawn), drawn, np.float32(1))

    a, b = draw(12, 40), draw(40, 9)
    agrees_with_the_reference("mm", [a, b], {})
    agrees_with_the_reference("mm", to_bf16(a, b), {})
    agrees_with_the_reference(
        "mm", [a[:, :20].copy(), np.where(b > 0, 1, -1).astype(np.float32)[:20].copy()], {}
    )
    agrees_with_the_reference("sum", [a], {"dims": (0,), "keepdim": 0})
    agrees_with_the_reference("sum", [a], {"dims": (1,), "keepdim": 1})
    agrees_with_the_reference("scatter_add", [a[:5].copy(), rng.integers(-1, 6, 40), draw(40, 40)], {})


def test_zeros_are_positive():
    """A sum of nothing, of negative zeros, of what cancels, and of what is too small."""
    minus, tiny = np.full((3, 4), -0.0, np.float32), np.full((3, 4), -1e-30, np.float32)
    for name, inputs in (
        ("mm", [minus[:, :0].copy(), minus[:0].copy()]),
        ("mm", [minus, -minus.T.copy()]),
        ("mm", [tiny, -tiny.T.copy()]),
        ("mm", to_bf16(tiny, -tiny.T.copy())),
    ):
        (got,) = execute(name, inputs, {}, sums=SumMode.EXACT)
        assert not np.asarray(got, np.float32).view(np.uint32).any()
    for attrs in ({"dims": (0, 1), "keepdim": 0}, {"dims": (), "keepdim": 0}):
        assert not execute("sum", [minus], attrs, sums=SumMode.EXACT)[0].view(np.uint32).any()


# ---------------------------------------------------------------------------------------------------- the radius


def open_share(inputs):
    """Return the share of the elements of a product that the sum of f64 does not decide."""
    call = check("mm", inputs, {})
    multiply = plan_of(call, BY_F64, sums=SumMode.EXACT)._replace(workspaces=())
    assert len(multiply.launches) == 2
    item = inputs[0].itemsize
    out = Guarded(item * call.outputs[0][1][0] * call.outputs[0][1][1])
    factors = [Guarded(array.nbytes, array.tobytes()) for array in inputs]
    run(multiply._replace(launches=multiply.launches[:1]), [*factors, out])
    marks = out.view.view(np.uint32 if item == 4 else np.uint16)
    return (marks == (0x7F800001 if item == 4 else 0x7F81)).mean()


def test_the_radius_leaves_few_elements_open():
    assert open_share([normal(128, 1024, seed=1), normal(1024, 128, seed=2)]) < 0.002
    assert open_share(to_bf16(normal(128, 1024, seed=1), normal(1024, 128, seed=2))) < 0.002
    # Sums of operands of few bits are exact, and often midpoints.
    assert open_share([*midpoints(128, 64, 128, 1)]) == 0
    assert open_share(to_bf16(*np.round(np.stack([normal(64, 64), normal(64, 64, seed=1)]) * 64))) == 0


def scale_of(value):
    return lambda *_: int(np.float64(value).view(np.uint64))


def test_a_larger_radius_changes_no_bit(monkeypatch):
    from repops.cuda import exact_contraction

    a, b = normal(20, 100, seed=1), normal(100, 20, seed=2)
    (want,) = execute("mm", [a, b], {}, sums=SumMode.EXACT)
    monkeypatch.setattr(exact_contraction, "_scale", scale_of(np.inf))
    same("mm", [a, b], {}, want)


def test_without_a_radius_bits_are_wrong(monkeypatch):
    """A control: the hard products are hard."""
    from repops.cuda import exact_contraction

    monkeypatch.setattr(exact_contraction, "_scale", scale_of(0.0))
    with pytest.raises(AssertionError):
        agrees_with_the_reference("mm", [*cancelling(17, 200, 12, 200)], {})


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name == "bmm" else name for name in OPERATORS]
)
def test_the_self_test_prints_the_same_digests(name):
    assert digest(EXACT, name) == digest(backend("cpu", SumMode.EXACT), name)
