"""The mode tc16: every kernel gives the reference's bits, on every instruction set, for any number of threads."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from repops import reference
from repops.block_data import DRAWERS, KINDS, drawn, factors, of_bits, rounded
from repops.host import cpu, tensor_core
from repops.host.environment import Standard
from repops.host.library import BEST_ISA, ISA_NAMES
from repops.host.strided import Matrices, product
from repops.opset import BF16, F32, DtypeError
from repops.random_calls import random_call
from repops.reference.tensor_core import TERMS, in_binary32, padded
from repops.sums import SumMode
from repops.tensors import NUMPY_DTYPE, canonical

TYPE = NUMPY_DTYPE[BF16]
OPERATORS = ("mm", "bmm", "conv2d", "conv2d_input_grad", "conv2d_weight_grad")
WINDOW = {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1), "groups": 1}


def same(got, want, context):
    assert got.dtype == want.dtype, context
    differ = canonical(got).view(f"u{got.itemsize}") != canonical(want).view(f"u{got.itemsize}")
    assert not differ.any(), (context, np.argwhere(differ)[:3], int(differ.sum()), got.size)


def check(name, inputs, attrs, threads=(1, 2)):
    """Compare results of both types with the reference's."""
    with np.errstate(all="ignore"):
        want = in_binary32(name, *inputs, **attrs)
        (narrow,) = reference.execute_tc16(name, inputs, attrs)
    for isa in range(BEST_ISA + 1):
        for count in threads:
            context = (name, [x.shape for x in inputs], attrs, ISA_NAMES[isa], count)
            same(tensor_core.in_binary32(name, inputs, attrs, threads=count, isa=isa), want, context)
            same(tensor_core.execute(name, inputs, attrs, threads=count, isa=isa)[0], narrow, context)


@pytest.mark.parametrize("kind", KINDS)
def test_products(kind):
    rng = np.random.default_rng(KINDS.index(kind))
    for m, k, n in ((3, 16, 64), (5, 47, 70), (2, 199, 33), (1, 31, 1), (40, 33, 3), (2, 1100, 9)):
        check("mm", factors(rng, kind, m, k, n), {})


@pytest.mark.parametrize("k", [0, 1, 15, 16, 17, 511, 512, 513, 1024, 1040, 1536])
def test_lengths(k):
    rng = np.random.default_rng(k)
    for kind in ("ordinary", "special values"):
        check("mm", factors(rng, kind, 3, k, 19), {})


@pytest.mark.parametrize("shape", [(0, 3, 4), (4, 0, 3), (4, 3, 0), (0, 0, 0)])
def test_empty_dimensions(shape):
    m, k, n = shape
    check("mm", [np.ones((m, k), TYPE), np.ones((k, n), TYPE)], {})
    check("bmm", [np.ones((2, m, k), TYPE), np.ones((2, k, n), TYPE)], {})


def test_without_terms_the_result_is_plus_zero():
    """In repops-f32 it is -0."""
    inputs = [np.ones((2, 0), TYPE), np.ones((0, 3), TYPE)]
    assert not tensor_core.execute("mm", inputs, {})[0].view(np.uint16).any()
    assert (cpu.execute("mm", inputs, {})[0].view(np.uint16) == 0x8000).all()


@pytest.mark.parametrize("scale", ["tiny", "usual"])
@pytest.mark.parametrize("name", OPERATORS)
def test_random_calls(name, scale):
    for seed in range(30 if scale == "tiny" else 5):
        inputs, attrs = random_call(name, f"tc16 {seed}", scale)
        rng = np.random.default_rng(seed)
        kind = list(DRAWERS)[seed % len(DRAWERS)]
        inputs = [
            drawn(rng, kind, x.shape) if seed % 2 else rounded(np.nan_to_num(x.astype(np.float32)))
            for x in inputs
        ]
        check(name, inputs, attrs, threads=(1, 3))


def test_tiles_and_threads():
    """Several tiles of rows, panels and chunks: every split gives the same bits, and sampled elements are right."""
    rng = np.random.default_rng(7)
    a, b = factors(rng, "wide", 301, 1100, 1100)
    want = in_binary32("mm", a[::100].copy(), b[:, ::90].copy())
    for isa in range(1, BEST_ISA + 1):
        for threads in (1, 2, 5):
            got = tensor_core.in_binary32("mm", [a, b], {}, threads=threads, isa=isa)
            same(np.ascontiguousarray(got[::100, ::90]), want, (ISA_NAMES[isa], threads))
            if (isa, threads) == (1, 1):
                first = got
            same(got, first, (ISA_NAMES[isa], threads))


def test_products_of_views():
    """Operands with strides of their own: every permutation of rows, columns and batch."""
    rng = np.random.default_rng(11)
    batch, m, k, n = 3, 21, 530, 40
    for order_a, order_b in itertools.product(itertools.permutations(range(3)), repeat=2):
        views = []
        for shape, order in (((batch, m, k), order_a), ((batch, k, n), order_b)):
            held = drawn(rng, "wide", tuple(shape[d] for d in order))
            views.append(held.transpose(np.argsort(order)))
        got = np.empty((batch, m, n), TYPE)
        operands = [
            Matrices((strides[0],), strides[1], strides[2], BF16)
            for strides in ([stride // 2 for stride in x.strides] for x in (*views, got))
        ]
        addresses = [x.ctypes.data for x in (*views, got)]
        product((batch,), m, k, n, operands, addresses, SumMode.TC16)(2, BEST_ISA)
        (want,) = tensor_core.execute("bmm", [np.ascontiguousarray(x) for x in views], {})
        same(got, want, (order_a, order_b))


def test_a_product_of_views_has_one_dtype():
    with pytest.raises(DtypeError, match="several dtypes in the mode tc16"):
        product((), 1, 1, 1, [Matrices((), 1, 1, d) for d in (BF16, BF16, F32)], [0, 0, 0], SumMode.TC16)


# --------------------------------------------------------------------------------------------- order of terms


def patches(x, r, s, attrs, y_size, x_size):
    """Return x's windows as [n, y, x, r, s, padded c], zero outside the image."""
    (n, c, h, w), (stride, padding, dilation) = (
        x.shape,
        (attrs[name] for name in ("stride", "padding", "dilation")),
    )
    found = np.zeros((n, y_size, x_size, r, s, padded(c)), TYPE)
    for place in np.ndindex(y_size, x_size, r, s):
        at = [place[i] * stride[i] - padding[i] + place[2 + i] * dilation[i] for i in (0, 1)]
        if 0 <= at[0] < h and 0 <= at[1] < w:
            found[:, place[0], place[1], place[2], place[3], :c] = x[:, :, at[0], at[1]]
    return found


@pytest.mark.parametrize("kernel", [(1, 1), (3, 2)])
def test_convolutions_are_products_of_patches(kernel):
    """Windows gathered here, with channels last and padded, multiplied by `mm`."""
    rng = np.random.default_rng(sum(kernel))
    r, s = kernel
    n, c, f, h, w = 2, 19, 5, 7, 6
    attrs = {"stride": (2, 1), "padding": (1, 1), "dilation": (1, 2), "groups": 1}
    y_size, x_size = (h + 2 - r) // 2 + 1, w + 2 - 2 * (s - 1)
    x, weights = drawn(rng, "wide", (n, c, h, w)), drawn(rng, "wide", (f, c, r, s))
    dy = drawn(rng, "wide", (n, f, y_size, x_size))
    gathered = patches(x, r, s, attrs, y_size, x_size)

    last = np.zeros((f, r, s, padded(c)), TYPE)
    last[..., :c] = weights.transpose(0, 2, 3, 1)
    rows = gathered.reshape(-1, r * s * padded(c))
    (got,) = tensor_core.execute("conv2d", [x, weights], attrs)
    (want,) = tensor_core.execute("mm", [rows, np.ascontiguousarray(last.reshape(f, -1).T)], {})
    same(got, np.ascontiguousarray(want.reshape(n, y_size, x_size, f).transpose(0, 3, 1, 2)), "conv2d")

    columns = np.ascontiguousarray(gathered[..., :c].reshape(n * y_size * x_size, -1))
    of_filters = np.ascontiguousarray(dy.transpose(1, 0, 2, 3).reshape(f, -1))
    (got,) = tensor_core.execute("conv2d_weight_grad", [dy, x], {**attrs, "kernel_hw": kernel})
    (want,) = tensor_core.execute("mm", [of_filters, columns], {})
    same(got, np.ascontiguousarray(want.reshape(f, r, s, c).transpose(0, 3, 1, 2)), "conv2d_weight_grad")

    # Each tap reads at most one output: [n, h, w, r, s, padded f].
    read = np.zeros((n, h, w, r, s, padded(f)), TYPE)
    for y, across, i, j in np.ndindex(y_size, x_size, r, s):
        place = y * 2 - 1 + i, across - 1 + 2 * j
        if 0 <= place[0] < h and 0 <= place[1] < w:
            read[:, place[0], place[1], i, j, :f] = dy[:, :, y, across]
    first = np.zeros((r, s, padded(f), c), TYPE)
    first[:, :, :f] = weights.transpose(2, 3, 0, 1)
    (got,) = tensor_core.execute("conv2d_input_grad", [dy, weights], {**attrs, "input_hw": (h, w)})
    (want,) = tensor_core.execute("mm", [read.reshape(n * h * w, -1), first.reshape(-1, c)], {})
    same(got, np.ascontiguousarray(want.reshape(n, h, w, c).transpose(0, 3, 1, 2)), "conv2d_input_grad")


@pytest.mark.parametrize("isa", range(BEST_ISA + 1))
def test_an_infinite_weight_that_meets_only_padding_has_no_effect(isa):
    """A zero in place of the missing value would make NaN of it."""
    weights = np.ones((1, 3, 3, 1), TYPE)
    weights[0, :, 0] = np.inf
    attrs = {**WINDOW, "padding": (1, 0)}
    (got,) = tensor_core.execute("conv2d", [np.ones((1, 3, 2, 70), TYPE), weights], attrs, isa=isa)
    assert (got[0, 0, 0] == 6).all()
    assert np.isposinf(got[0, 0, 1].astype(np.float32)).all()


# ------------------------------------------------------------------------------------------------------ the rule


@pytest.mark.parametrize("isa", range(BEST_ISA + 1))
@pytest.mark.parametrize(
    ("a", "b", "result"),
    [
        ([0x7F00, 0x3F80], [0, 0x0D00], 0x0D000000),  # a zero beside a large factor is no term
        ([0x7F80, 0x3F80], [0, 0x3F80], 0x7FC00000),  # zero times infinity
        ([0x7F80, 0xFF80], [0x3F80, 0x3F80], 0x7FC00000),  # infinities of both signs
        ([0x7FFF], [0], 0x7FC00000),  # a NaN with the bits that kernels use for what does not exist
        ([0x7F00] * 2, [0x7F00] * 2, 0x7F800000),  # overflow
        ([0x3F80, 0xBF80], [0x3F80] * 2, 0),  # what cancels is +0
        ([0x0080], [0x8080], 0),  # a negative result below the last subnormal is +0
        ([0x3F80] + [0xB380] * 15, [0x3F80] + [0x3F80] * 15, 0x3F7FFFF1),  # 15 times 2^-24 below 1
        (
            [0x3F80] + [0xB300] * 15,
            [0x3F80] + [0x3F80] * 15,
            0x3F7FFFF8,
        ),  # 15 times 2^-25, all kept, cut at the end
        ([0x3F80] + [0xB280] * 15, [0x3F80] + [0x3F80] * 15, 0x3F800000),  # each below 2^-25: cut one by one
    ],
)
def test_single_blocks(isa, a, b, result):
    left, right = (of_bits(np.array(x + [0] * (TERMS - len(x)))) for x in (a, b))
    got = tensor_core.in_binary32("mm", [left[None], right[:, None]], {}, isa=isa)
    assert canonical(got).view(np.uint32).item() == result


def test_results_of_bf16_are_rounded_totals():
    rng = np.random.default_rng(3)
    inputs = factors(rng, "ordinary", 30, 700, 30)
    wide = tensor_core.in_binary32("mm", inputs, {})
    (want,) = cpu.execute("cast", [wide], {"dtype": BF16})
    same(tensor_core.execute("mm", inputs, {})[0], want, "mm")


def test_everything_else_is_that_of_repops_f32():
    for name, seeds in (("mm", 3), ("sum", 3), ("exp", 2), ("scatter_add", 2)):
        for seed in range(seeds):
            inputs, attrs = random_call(name, f"else {seed}", "usual")
            inputs = [cpu.execute("cast", [x], {"dtype": F32})[0] if x.dtype == TYPE else x for x in inputs]
            (want,) = cpu.execute(name, inputs, attrs)
            same(tensor_core.execute(name, inputs, attrs)[0], want, name)
            same(
                reference.execute_tc16(name, inputs, attrs)[0],
                reference.execute(name, inputs, attrs)[0],
                name,
            )


@pytest.mark.parametrize("isa", range(BEST_ISA + 1))
def test_the_floating_point_environment_is_restored(isa):
    inputs = factors(np.random.default_rng(0), "ordinary", 9, 600, 70)
    with Standard() as inside:
        tensor_core.execute("mm", inputs, {}, threads=1, isa=isa)
        subnormal = np.float32(1e-40) * np.float32(0.5)
    assert inside.kept
    assert subnormal > 0


@pytest.mark.parametrize("isa", range(BEST_ISA + 1))
def test_chunks_are_added_to_nearest_with_subnormals(isa):
    """In the environment of the blocks the total would be rounded toward zero, or be flushed."""
    a = np.zeros((1, 1024), np.float32)
    a[0, 0], a[0, 512] = 1, 3 * 2.0**-25
    got = tensor_core.in_binary32("mm", [a.astype(TYPE), np.ones((1024, 2), TYPE)], {}, isa=isa)
    assert (got == 1 + 2.0**-23).all()
    a[0, 0], a[0, 512] = 2.0**-126, -(2.0**-127)
    got = tensor_core.in_binary32("mm", [a.astype(TYPE), np.ones((1024, 2), TYPE)], {}, isa=isa)
    assert (got.view(np.uint32) == 0x00400000).all()
