"""The mode exact: every kernel, run on the host from the same sources, gives real sums, rounded once."""

from fractions import Fraction

import numpy as np
import pytest
from repops import reference
from repops.calls import random_call
from repops.cuda.plan import Target
from repops.cuda.plans import differs, plan_of
from repops.opset import BF16, OPS
from repops.reference.exact import DIGITS, rounded
from repops.tensors import DTYPE_CODE, NUMPY_DTYPE, canonical, check

from .calls import contractions, convolutions, normal, of_bf16, special
from .calls import rounded as to_bf16
from .emulation import EXACT, TARGET, Guarded, execute, needs_gcc, run

pytestmark = needs_gcc

OPERATORS = tuple(reference.exact.IMPLEMENTATION)
FORWARDS, BACKWARDS = 0, 3


def same(name, inputs, attrs, want, **options):
    (got,) = execute(name, inputs, attrs, exact=True, **options)
    context = (name, [array.shape for array in inputs], inputs[0].dtype, attrs, options)
    assert (got.dtype, got.shape) == (want.dtype, want.shape), context
    assert canonical(got).tobytes() == canonical(want).tobytes(), context


def agrees_with_the_reference(name, inputs, attrs, **options):
    (want,) = reference.execute_exact(name, inputs, attrs)
    same(name, inputs, attrs, want, order=FORWARDS, **options)
    same(name, inputs, attrs, want, order=BACKWARDS, shift=1, **options)


@pytest.mark.parametrize(("scale", "seeds"), [("tiny", 60), ("usual", 20)])
@pytest.mark.parametrize("name", OPERATORS)
def test_random_calls(name, scale, seeds):
    for seed in range(seeds):
        agrees_with_the_reference(name, *random_call(name, f"exact {seed}", scale))


def test_other_operators_are_those_of_the_other_mode():
    for op in OPS:
        inputs, attrs = random_call(op.name, 1)
        call = check(op.name, inputs, attrs)
        if op.name != "reshape" and not differs(call):
            assert plan_of(call, TARGET, exact=True) == plan_of(call, TARGET)
    call = check("sum", [np.arange(9)], {"dims": (0,), "keepdim": 0})
    assert plan_of(call, TARGET, exact=True) == plan_of(call, TARGET)  # i64


# ------------------------------------------------------------------------------------------- long contractions


def exact_rows(terms):
    """Round the sum of each row of a matrix of f64, whose elements are products, to f32."""
    return np.array([rounded(int(sum(map(Fraction, row)) * 2**298)) for row in terms.tolist()], np.float32)


def probe(name, inputs, attrs, place, dtype):
    """Return an element of a contraction, from the fractions that it consists of."""
    wide = [np.asarray(array, np.float64) for array in inputs]
    if name in ("mm", "bmm"):
        *batch, m, n = place
        a, b = wide[0][(*batch, m)], wide[1][(*batch, slice(None), n)]
        total = sum(map(Fraction, (a * b).tolist()))
    else:
        total = convolved(name, wide, attrs, place)
    return np.asarray(rounded(int(total * 2**298), DIGITS[dtype]), np.float32).astype(NUMPY_DTYPE[dtype])


def convolved(name, inputs, attrs, place):
    """Return an element of a convolution as a fraction, term by term as docs/opset.md lists them."""
    (s0, s1), (p0, p1), (d0, d1) = attrs["stride"], attrs["padding"], attrs["dilation"]
    total, groups = Fraction(0), attrs["groups"]

    def tap(y, x, r, s):
        return y * s0 - p0 + r * d0, x * s1 - p1 + s * d1

    if name == "conv2d":
        x, w = inputs
        n, f, y, column = place
        first = f // (w.shape[0] // groups) * w.shape[1]
        for c, r, s in np.ndindex(*w.shape[1:]):
            h, v = tap(y, column, r, s)
            if 0 <= h < x.shape[2] and 0 <= v < x.shape[3]:
                total += Fraction(x[n, first + c, h, v] * w[f, c, r, s])
    elif name == "conv2d_input_grad":
        dy, w = inputs
        n, c, h, v = place
        filters, channels = w.shape[0] // groups, w.shape[1]
        first = c // channels * filters
        for f, r, s in np.ndindex(filters, *w.shape[2:]):
            (y, y_rest), (column, x_rest) = divmod(h + p0 - r * d0, s0), divmod(v + p1 - s * d1, s1)
            if not (y_rest or x_rest) and 0 <= y < dy.shape[2] and 0 <= column < dy.shape[3]:
                total += Fraction(dy[n, first + f, y, column] * w[first + f, c % channels, r, s])
    else:
        dy, x = inputs
        f, c, r, s = place
        first = f // (dy.shape[1] // groups) * (x.shape[1] // groups)
        for n, y, column in np.ndindex(dy.shape[0], *dy.shape[2:]):
            h, v = tap(y, column, r, s)
            if 0 <= h < x.shape[2] and 0 <= v < x.shape[3]:
                total += Fraction(dy[n, f, y, column] * x[n, first + c, h, v])
    return total


def long_calls():
    """Yield the calls with finite operands that reach every path, also more chunks than are summed at once."""
    for name, inputs, attrs in (*contractions(), *convolutions(), *of_bf16()):
        if all(np.isfinite(np.asarray(array, np.float32)).all() for array in inputs):
            yield name, inputs, attrs
    yield "mm", [normal(5, 9000, seed=1), normal(9000, 40, seed=2)], {}
    yield "mm", to_bf16(normal(33, 9000, seed=1), normal(9000, 7, seed=2)), {}


@pytest.mark.parametrize("multiprocessors", [1, 4, 132])
def test_probes_of_long_contractions(multiprocessors):
    rng = np.random.default_rng(multiprocessors)
    for name, inputs, attrs in long_calls():
        (got,) = execute(name, inputs, attrs, exact=True, target=Target(multiprocessors), order=BACKWARDS)
        for _ in range(6):
            place = tuple(int(rng.integers(size)) for size in got.shape)
            want = probe(name, inputs, attrs, place, DTYPE_CODE[got.dtype])
            context = (name, [array.shape for array in inputs], inputs[0].dtype, attrs, place)
            assert canonical(got[place]).tobytes() == canonical(want).tobytes(), context


def test_every_cut_of_the_work_gives_the_same_bits():
    for name, inputs, attrs in long_calls():
        (want,) = execute(name, inputs, attrs, exact=True, target=Target(1))
        for multiprocessors in (4, 132):
            same(name, inputs, attrs, want, target=Target(multiprocessors), shift=1)


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_infinities_and_nans(dtype):
    a, b = special(20, 70, seed=1), special(70, 20, seed=2)
    x, w = special(2, 3, 9, 8, seed=3), special(4, 3, 3, 3, seed=4)
    if dtype == "bf16":
        a, b, x, w = to_bf16(a, b, x, w)
    agrees_with_the_reference("mm", [a, b], {})
    window = {"stride": (2, 1), "padding": (2, 2), "dilation": (1, 1), "groups": 1}
    agrees_with_the_reference("conv2d", [x, w], window)


# -------------------------------------------------------------------------------- sums that are hard to round


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
        (got,) = execute(name, inputs, {}, exact=True)
        assert not np.asarray(got, np.float32).view(np.uint32).any()
    for attrs in ({"dims": (0, 1), "keepdim": 0}, {"dims": (), "keepdim": 0}):
        assert not execute("sum", [minus], attrs, exact=True)[0].view(np.uint32).any()


# ------------------------------------------------------------------------------------------------------- sums


def long_sums():
    """Yield sums of several blocks over rows and over columns: ordinary ones, and ones that need exact digits."""
    wild = np.ldexp(normal(2, 9001), np.random.default_rng(1).integers(-140, 120, (2, 9001))).astype(
        np.float32
    )
    for x in (normal(2, 9001), wild):
        yield x, (1,)
        yield x.reshape(-1, 2), (0,)
        yield x.reshape(2, 9001, 1), (0, 1)
    yield normal(3, 700, 5, seed=2), (1,)
    yield normal(5, 3, 700, seed=3), (0, 2)


def test_long_sums():
    for x, dims in long_sums():
        kept = [d for d in range(x.ndim) if d not in dims]
        rows = x.transpose([*kept, *dims]).reshape(int(np.prod([x.shape[d] for d in kept])), -1)
        want = exact_rows(rows.astype(np.float64)).reshape([x.shape[d] for d in kept])
        for order in (FORWARDS, BACKWARDS):
            same("sum", [x], {"dims": dims, "keepdim": 0}, want, order=order)


# ---------------------------------------------------------------------------------------------------- the radius


def open_share(inputs):
    """Return the share of the elements of a product that the sum of f64 does not decide."""
    call = check("mm", inputs, {})
    multiply = plan_of(call, Target(1), exact=True)._replace(workspaces=())
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
    (want,) = execute("mm", [a, b], {}, exact=True)
    monkeypatch.setattr(exact_contraction, "_scale", scale_of(np.inf))
    same("mm", [a, b], {}, want)


def test_without_a_radius_bits_are_wrong(monkeypatch):
    """A control: the hard products are hard."""
    from repops.cuda import exact_contraction

    monkeypatch.setattr(exact_contraction, "_scale", scale_of(0.0))
    with pytest.raises(AssertionError):
        agrees_with_the_reference("mm", [*cancelling(17, 200, 12, 200)], {})


def test_the_self_test_calls():
    """The backend that scripts/gpu_check compares with the processor."""
    assert EXACT.exact
    inputs, attrs = random_call("mm", 3)
    (got,), (want,) = EXACT.execute("mm", inputs, attrs), reference.execute_exact("mm", inputs, attrs)
    assert canonical(got).tobytes() == canonical(want).tobytes()
    assert BF16 in DIGITS
