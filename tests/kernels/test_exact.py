"""The mode exact: every operator gives the reference's bits, on every instruction set, for any number of threads."""

import math

import numpy as np
import pytest
from repops import reference
from repops.fuse import composites
from repops.fuse.expression import record
from repops.fuse.fusion import Fused
from repops.host import exact
from repops.host.library import BEST_ISA, ISA_NAMES
from repops.host.memory import address_of
from repops.host.strided import Matrices
from repops.opset import F32
from repops.random_calls import random_call
from repops.reference.exact import SUM_UNIT, rounded
from repops.tensors import canonical, spec_of

from tests.kernels.exact_cases import KINDS, draw_terms, nearest, total_of
from tests.kernels.fuse.fused import draw, one_by_one, same
from tests.kernels.test_contractions import random_convolution, random_product

OPERATORS = tuple(reference.exact.IMPLEMENTATION)
THREADS = (1, 2, 3)
WINDOW = {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1), "groups": 1}


def assert_bits(name, inputs, attrs, want, threads=THREADS):
    for isa in range(BEST_ISA + 1):
        for count in threads:
            (got,) = exact.execute(name, inputs, attrs, threads=count, isa=isa)
            context = (name, [array.shape for array in inputs], attrs, ISA_NAMES[isa], count)
            assert canonical(got).tobytes() == canonical(want).tobytes(), context


def check(name, inputs, attrs, threads=THREADS):
    assert_bits(name, inputs, attrs, *reference.execute_exact(name, inputs, attrs), threads)


@pytest.mark.parametrize("scale", ["tiny", "usual"])
@pytest.mark.parametrize("name", OPERATORS)
def test_random_calls(name, scale):
    for seed in range(40 if scale == "tiny" else 6):
        check(name, *random_call(name, f"exact {seed}", scale))


@pytest.mark.parametrize("name", ["bmm", "conv2d", "conv2d_input_grad", "conv2d_weight_grad"])
def test_random_shapes(name):
    rng = np.random.default_rng(len(name))
    for _ in range(12):
        check(*(random_product(rng) if name == "bmm" else random_convolution(rng, name)), threads=(1, 3))


# ------------------------------------------------------------------------------------------- sums that are hard


def forms(a, b):
    """Yield calls of every operator with the sum of a_k b_k as an element; and the indices of these elements.

    Operators without factors add the products, where these are values.
    """
    k = len(a)
    rng = np.random.default_rng(k)
    more = rng.standard_normal((k, 2), dtype=np.float32)
    wide = np.stack([more[:, 0], b, more[:, 1]], axis=1)
    tall = np.stack([more[:, 1], a])
    yield "mm", [tall, wide], {}, (1, 1)
    yield "mm", [a[None], b[:, None]], {}, (0, 0)
    yield "bmm", [np.stack([tall, tall[::-1]]), np.stack([wide, wide])], {}, (1, 0, 1)
    yield "conv2d", [b.reshape(1, k, 1, 1), a.reshape(1, k, 1, 1)], WINDOW, (0, 0, 0, 0)
    grad = {**WINDOW, "input_hw": (1, 1)}
    yield "conv2d_input_grad", [a.reshape(1, k, 1, 1), b.reshape(k, 1, 1, 1)], grad, (0, 0, 0, 0)
    grad = {**WINDOW, "kernel_hw": (1, 1)}
    yield "conv2d_weight_grad", [a.reshape(k, 1, 1, 1), b.reshape(k, 1, 1, 1)], grad, (0, 0, 0, 0)
    with np.errstate(all="ignore"):
        values = a.astype(np.float64) * b.astype(np.float64)
        x = values.astype(np.float32)
    if not np.array_equal(x.astype(np.float64), values, equal_nan=True):
        return
    yield "sum", [np.stack([x, x[::-1]])], {"dims": (1,), "keepdim": 0}, (1,)
    yield "sum", [np.stack([more[:, 0], x], axis=1)], {"dims": (0,), "keepdim": 0}, (1,)
    yield "sum", [np.repeat(x[:, None], 40, axis=1)], {"dims": (0,), "keepdim": 1}, (0, 39)
    index = np.ones(k - 1, np.int64)
    base, source = np.stack([more[0], [x[0], 1]]), np.stack([x[1:], more[1:, 0]], axis=1)
    yield "scatter_add", [base.astype(np.float32), index, source.astype(np.float32)], {}, (1, 0)


@pytest.mark.parametrize("count", [8, 61, 300])
@pytest.mark.parametrize("kind", KINDS)
def test_hard_sums(kind, count):
    rng = np.random.default_rng([KINDS.index(kind), count])
    for _ in range(20 if kind == "a little beside a tie" else 6):
        a, b = draw_terms(rng, kind, count)
        if rng.random() < 0.5:  # values instead of products
            with np.errstate(all="ignore"):
                a, b = a * b, np.ones_like(b)
        want = np.float32(total_of(a, b))
        for name, inputs, attrs, at in forms(a, b):
            for isa in range(BEST_ISA + 1):
                (got,) = exact.execute(name, inputs, attrs, threads=int(rng.integers(1, 4)), isa=isa)
                assert canonical(got[at]) == canonical(want[None])[0] or (
                    np.isnan(want) and np.isnan(got[at])
                ), (
                    name,
                    ISA_NAMES[isa],
                )
                assert np.isnan(want) or np.signbit(got[at]) == np.signbit(want)


def test_the_rounding_of_the_reference():
    """By another way: the nearest of three candidates."""
    from fractions import Fraction

    rng = np.random.default_rng(0)
    for _ in range(3000):
        total = int(rng.integers(-(2**62), 2**62)) << int(rng.integers(0, 380)) >> int(rng.integers(0, 60))
        assert rounded(total) == nearest(Fraction(total, 2**SUM_UNIT))


@pytest.mark.parametrize("k", [0, 1, 63, 64, 65, 255, 256, 257, 512, 513, 1023, 1025, 4095, 4096, 4097])
def test_lengths(k):
    rng = np.random.default_rng(k)
    a, b = rng.standard_normal((3, k), dtype=np.float32), rng.standard_normal((k, 2), dtype=np.float32)
    check("mm", [a, b], {}, threads=(1, 2))
    check("sum", [a], {"dims": (1,), "keepdim": 0}, threads=(1, 2))
    check("sum", [b], {"dims": (0,), "keepdim": 0}, threads=(1, 2))
    check("sum", [b], {"dims": (0, 1), "keepdim": 1}, threads=(1, 2))


def integer_total(values):
    return sum(int(math.ldexp(value, SUM_UNIT)) for value in values.tolist())


@pytest.mark.parametrize(
    ("k", "style"), [(16383, "wide"), (16385, "normal"), (70_000, "wide"), (1_000_000, "normal")]
)
def test_long_sums(k, style):
    rng = np.random.default_rng(k)
    a, b = rng.standard_normal((2, k), dtype=np.float32)
    if style == "wide":
        a *= np.exp2(rng.integers(-60, 60, k)).astype(np.float32)
    total = np.float32(rounded(integer_total(a.astype(np.float64) * b.astype(np.float64))))
    of_a = np.float32(rounded(integer_total(a.astype(np.float64))))
    assert_bits("mm", [a[None], b[:, None]], {}, total.reshape(1, 1), threads=(1, 3))
    assert_bits("sum", [a], {"dims": (0,), "keepdim": 0}, of_a.reshape(()), threads=(1, 3))
    columns = np.ascontiguousarray(np.broadcast_to(a[:, None], (k, 2)))
    assert_bits("sum", [columns], {"dims": (0,), "keepdim": 0}, np.full(2, of_a), threads=(1, 3))
    index = np.zeros(k, np.int64)
    assert_bits("scatter_add", [np.zeros(1, np.float32), index, a], {}, of_a.reshape(1), threads=(1, 3))


@pytest.mark.parametrize("workers", [1, 2, 4, 8])
def test_any_order_and_any_workers(workers):
    """Permuted terms, and partial sums joined in random order before the rounding, give the same bits."""
    rng = np.random.default_rng(workers)
    a, b = rng.standard_normal((5, 1000), dtype=np.float32), rng.standard_normal((1000, 7), dtype=np.float32)
    a *= np.exp2(rng.integers(-20, 20, 1000)).astype(np.float32)
    (want,) = exact.execute("mm", [a, b], {})
    order = rng.permutation(1000)
    shuffled = [np.ascontiguousarray(a[:, order]), np.ascontiguousarray(b[order])]
    assert exact.execute("mm", shuffled, {})[0].tobytes() == want.tobytes()
    parts = np.array_split(order, workers)
    for i in range(5):
        for j in range(7):
            sums = [
                integer_total(a[i, part].astype(np.float64) * b[part, j].astype(np.float64)) for part in parts
            ]
            total = 0
            for part in rng.permutation(workers):
                total += sums[part]
            assert np.float32(rounded(total)) == want[i, j]
    x = np.ascontiguousarray(a[0])
    (want,) = exact.execute("sum", [x], {"dims": (0,), "keepdim": 0})
    assert exact.execute("sum", [x[order]], {"dims": (0,), "keepdim": 0})[0] == want


# ------------------------------------------------------------------------------------ what is not a number


@pytest.mark.parametrize("name", ["conv2d", "conv2d_input_grad", "conv2d_weight_grad"])
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_taps_that_do_not_exist_have_no_effect(name, value):
    """Not even beside operands that are not finite: only elements that a tap reaches are affected."""
    rng = np.random.default_rng(1)
    for stride in (1, 2):
        for where in ((0, 0), (2, 2), (1, 0)):
            x = rng.standard_normal((2, 3, 6, 7), dtype=np.float32)
            w = rng.standard_normal((14, 3, 3, 3), dtype=np.float32)
            dy = rng.standard_normal((2, 14, (6 - 1) // stride + 1, (7 - 1) // stride + 1), dtype=np.float32)
            w[5, 1, where[0], where[1]] = value
            dy[1, 3, where[0], where[1]] = value
            attrs = {**WINDOW, "padding": (1, 1), "stride": (stride, stride)}
            if name == "conv2d":
                check(name, [x, w], attrs)
            elif name == "conv2d_input_grad":
                check(name, [dy, w], {**attrs, "input_hw": (6, 7)})
            else:
                check(name, [dy, x], {**attrs, "kernel_hw": (3, 3)})


def test_a_row_that_is_not_finite_leaves_the_others():
    rng = np.random.default_rng(2)
    a, b = rng.standard_normal((30, 90), dtype=np.float32), rng.standard_normal((90, 40), dtype=np.float32)
    a[3, 7], a[14, 0], b[5, 6], b[89, 39] = np.inf, np.nan, -np.inf, np.inf
    a[20], b[:, 11] = 0, 0
    check("mm", [a, b], {})


def test_copied_rows_keep_no_negative_zero():
    base = np.array([[-0.0, 1.5], [-0.0, -0.0], [np.nan, -np.inf]], np.float32)
    (got,) = exact.execute("scatter_add", [base, np.array([1, 7, -1]), np.zeros((3, 2), np.float32)], {})
    np.testing.assert_array_equal(
        got.view(np.uint32)[:2], np.array([[0.0, 1.5], [0, 0]], np.float32).view(np.uint32)
    )
    assert np.isnan(got[2, 0])
    assert got[2, 1] == -np.inf


def test_rows_without_an_element_take_no_memory():
    """A tensor without elements may have 2^39 rows, and every trainer must be able to compute with it."""
    base, source = np.empty((1 << 39, 1, 0), np.float32), np.empty((2, 1, 0), np.float32)
    (got,) = exact.execute("scatter_add", [base, np.array([0, 1 << 38]), source], {})
    assert got.shape == base.shape


# ------------------------------------------------------------------------------- bound calls, views, fused kernels


def test_a_bound_call():
    (x, w), attrs = random_call("conv2d", 5, "usual")
    (want,) = exact.execute("conv2d", [x, w], attrs)
    got = np.full_like(want, np.nan)
    exact.bind("conv2d", [spec_of(x), spec_of(w)], attrs, [*map(address_of, (x, w, got))])(2, BEST_ISA)
    assert canonical(got).tobytes() == canonical(want).tobytes()


@pytest.mark.parametrize("shape", [(3, 40, 70, 50), (2, 1, 300, 33), (1, 65, 3, 1)])
def test_a_product_of_views(shape):
    batch, m, k, n = shape
    rng = np.random.default_rng(m)
    a = rng.standard_normal((m, batch, k), dtype=np.float32).transpose(1, 0, 2)
    b = rng.standard_normal((batch, n, k), dtype=np.float32).transpose(0, 2, 1)
    got = np.full((batch, n, m), np.nan, np.float32).transpose(0, 2, 1)
    strides = [tuple(stride // 4 for stride in view.strides) for view in (a, b, got)]
    operands = [Matrices(each[:-2], *each[-2:], F32) for each in strides]
    addresses = [array.__array_interface__["data"][0] for array in (a, b, got)]
    exact.product((batch,), m, k, n, operands, addresses)(2, BEST_ISA)
    (want,) = exact.execute("bmm", [np.ascontiguousarray(a), np.ascontiguousarray(b)], {})
    np.testing.assert_array_equal(got.view(np.uint32), want.view(np.uint32))


@pytest.mark.parametrize("shape", [(3, 7), (2, 3, 1025), (17, 4097), (2, 9000), (40, 64)])
@pytest.mark.parametrize("special", [False, True])
def test_fused_rows(shape, special):
    x, weight, bias = draw(shape, 1, special), draw(shape[-1:], 2, special), draw(shape[-1:], 3, special)
    for function, inputs, options in (
        (composites.softmax, [x], {}),
        (composites.log_softmax, [x], {}),
        (composites.layer_norm, [x, weight, bias], {"eps": 1e-5}),
    ):
        want = one_by_one(function, inputs, options, exact.execute)
        kernel = Fused(record(function, [spec_of(array) for array in inputs], **options), exact=True)
        for isa in range(BEST_ISA + 1):
            for threads in (1, 3):
                same(kernel(inputs, threads=threads, isa=isa), want)
