"""Matrix products and convolutions of any shape: every path of the C kernels gives the reference's bits."""

import numpy as np
import pytest
from repops import reference
from repops.host import cpu, exact
from repops.host.library import BEST_ISA, ISA_NAMES
from repops.opset import BF16
from repops.tensors import NUMPY_DTYPE, canonical

SPECIAL = np.array([0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 1e-40, -1e-45, 3e38, -3e38], np.float32)
MOST_WORK = 600_000  # multiply-adds of a random case; the reference is slow


def draw(rng, *shape):
    """Draw ordinary numbers, or numbers that reveal a tap too many, too few or in the wrong order."""
    kind = rng.integers(5)
    x = rng.standard_normal(shape, dtype=np.float32)
    if kind == 0:
        x = rng.integers(0, 2**32, shape, dtype=np.uint32).view(np.float32)
    elif kind == 1:
        x = np.where(rng.random(shape) < 0.3, rng.choice(SPECIAL, shape), x)
    elif kind == 2:
        x = np.where(rng.random(shape) < 0.7, np.float32(-0.0), x * np.float32(1e-38))
    return np.ascontiguousarray(x)


def check(name, inputs, attrs, threads=(1, 2, 3)):
    with np.errstate(all="ignore"):
        (want,) = reference.execute(name, inputs, attrs)
    for isa in range(BEST_ISA + 1):
        for count in threads:
            (got,) = cpu.execute(name, inputs, attrs, threads=count, isa=isa)
            context = (name, [array.shape for array in inputs], attrs, ISA_NAMES[isa], count)
            assert canonical(got).tobytes() == canonical(want).tobytes(), context


def random_product(rng):
    batch = rng.integers(0, 4)
    m, n = (int(rng.choice([0, 1, 2, rng.integers(1, 20), rng.integers(20, 140)])) for _ in "mn")
    k = int(rng.choice([0, 1, rng.integers(2, 40), rng.integers(505, 520), rng.integers(1020, 1030)]))
    if m * n * k > MOST_WORK:
        k %= 40
    return "bmm", [draw(rng, batch, m, k), draw(rng, batch, k, n)], {}


def random_convolution(rng, name):
    while True:
        groups = int(rng.choice([1, 1, rng.integers(1, 4)]))
        c, f = int(rng.choice([rng.integers(0, 6), rng.integers(20, 70)])), int(rng.integers(1, 16))
        r, s = (
            int(v) for v in (rng.choice([1, 3], 1).repeat(2) if rng.random() < 0.5 else rng.integers(1, 5, 2))
        )
        stride = tuple(int(v) for v in rng.choice([1, 1, 2, 2, 3, 40], 2))
        dilation = tuple(int(v) for v in rng.choice([1, 1, 2, 3], 2))
        padding = (
            (r // 2, s // 2) if rng.random() < 0.5 else tuple(int(v) for v in rng.choice([0, 1, 3, 15], 2))
        )
        n, h, w = (int(rng.integers(0 if rng.random() < 0.05 else 1, most)) for most in (4, 12, 40))
        y, x = (
            (size + 2 * p - d * (kernel - 1) - 1) // step + 1
            for size, kernel, step, p, d in zip((h, w), (r, s), stride, padding, dilation, strict=True)
        )
        if min(x, y) >= 1 and n * groups * f * y * x * c * r * s <= MOST_WORK:
            break
    attrs = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    image, weight, grad = (n, groups * c, h, w), (groups * f, c, r, s), (n, groups * f, y, x)
    if name == "conv2d":
        return name, [draw(rng, *image), draw(rng, *weight)], attrs
    if name == "conv2d_input_grad":
        return name, [draw(rng, *grad), draw(rng, *weight)], {**attrs, "input_hw": (h, w)}
    return name, [draw(rng, *grad), draw(rng, *image)], {**attrs, "kernel_hw": (r, s)}


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("name", ["bmm", "conv2d", "conv2d_input_grad", "conv2d_weight_grad"])
def test_random_shapes(name, seed):
    rng = np.random.default_rng([seed, len(name)])
    for _ in range(20):
        check(*(random_product(rng) if name == "bmm" else random_convolution(rng, name)))


def random_depthwise(rng, name):
    """Draw a convolution with one channel and one filter in a group; some rows of results fill several chunks."""
    long = rng.random() < 0.2
    while True:
        groups = int(rng.integers(1, 5))
        r, s = (int(v) for v in rng.choice([1, 3, 4, 5, 7, 8, 9, 16, 17], 2))
        stride, dilation = ((int(rng.choice([1, 1, 1, 2, 3])),) * 2 for _ in "sd")
        padding = tuple(int(rng.choice([0, 1, size // 2, 2 * size])) for size in (r, s))
        n = int(rng.integers(0 if rng.random() < 0.05 else 1, 4))
        h, w = (int(rng.integers(1, most)) for most in ((3, 1300) if long else (20, 60)))
        y, x = (
            (size + 2 * p - d * (kernel - 1) - 1) // step + 1
            for size, kernel, step, p, d in zip((h, w), (r, s), stride, padding, dilation, strict=True)
        )
        if min(x, y) >= 1 and n * groups * y * x * r * s <= MOST_WORK:
            break
    attrs = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    image, weight, grad = (n, groups, h, w), (groups, 1, r, s), (n, groups, y, x)
    if name == "conv2d":
        return [draw(rng, *image), finite(rng, draw(rng, *weight))], attrs
    if name == "conv2d_input_grad":
        return [draw(rng, *grad), finite(rng, draw(rng, *weight))], {**attrs, "input_hw": (h, w)}
    return [finite(rng, draw(rng, *grad)), draw(rng, *image)], {**attrs, "kernel_hw": (r, s)}


def finite(rng, x):
    """Usually without infinities and NaN, for which these convolutions take another way."""
    return np.where(np.isfinite(x) | (rng.random() < 0.1), x, np.float32(-0.0))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", ["conv2d", "conv2d_input_grad", "conv2d_weight_grad"])
def test_depthwise(name, seed):
    rng = np.random.default_rng([seed, 7, len(name)])
    for _ in range(20):
        inputs, attrs = random_depthwise(rng, name)
        check(name, inputs, attrs)
        with np.errstate(invalid="ignore"):
            narrow = [x.astype(NUMPY_DTYPE[BF16]) for x in inputs]
        check(name, narrow, attrs)


@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 33, 64, 65])
@pytest.mark.parametrize("m", [0, 1, 4, 5, 12, 13, 65])
def test_edges_of_panels(m, n):
    rng = np.random.default_rng(m * 100 + n)
    for k in (0, 3, 16, 37, 513):
        check("mm", [draw(rng, m, k), draw(rng, k, n)], {}, threads=(1, 4))


@pytest.mark.parametrize(
    "shape",
    [
        *((1, 1030, 1100), (1100, 1030, 1), (250, 70, 40), (40, 70, 2100)),
        *((1030, 5, 520), (27, 520, 600), (13, 9, 4200), (130, 130, 120)),
    ],
)
def test_several_tiles_and_blocks(shape):
    m, k, n = shape
    rng = np.random.default_rng(m)
    check("mm", [draw(rng, m, k), draw(rng, k, n)], {}, threads=(1, 3))


@pytest.mark.parametrize("side", [1, 4, 7, 8, 16, 33])
@pytest.mark.parametrize(("kernel", "stride"), [(1, 1), (1, 2), (3, 1), (3, 2), (4, 4), (7, 2)])
def test_convolutions_of_networks(side, kernel, stride):
    rng = np.random.default_rng(side * 10 + kernel)
    c, f = 60 if side < 16 and kernel == 3 else 9, 14
    out = (side + 2 * (kernel // 2) - kernel) // stride + 1
    attrs = {"stride": (stride,) * 2, "padding": (kernel // 2,) * 2, "dilation": (1, 1), "groups": 1}
    x, w, dy = draw(rng, 2, c, side, side), draw(rng, f, c, kernel, kernel), draw(rng, 2, f, out, out)
    check("conv2d", [x, w], attrs, threads=(1, 2))
    check("conv2d_input_grad", [dy, w], {**attrs, "input_hw": (side, side)}, threads=(1, 2))
    check("conv2d_weight_grad", [dy, x], {**attrs, "kernel_hw": (kernel, kernel)}, threads=(1, 2))


def test_a_chunk_ends_at_its_tap_even_where_few_taps_exist():
    """With stride 2 a position meets 1, 2, 2 or 4 of 9 taps; the chunks are those of all 9."""
    rng = np.random.default_rng(1)
    w, dy = (rng.standard_normal(shape, dtype=np.float32) for shape in ((130, 3, 3, 3), (1, 130, 5, 5)))
    attrs = {"stride": (2, 2), "padding": (1, 1), "dilation": (1, 1), "groups": 1, "input_hw": (10, 10)}
    check("conv2d_input_grad", [dy, w], attrs)


@pytest.mark.parametrize("name", ["conv2d", "conv2d_input_grad", "conv2d_weight_grad"])
def test_far_outside_the_image(name):
    """Nearly all positions are in the padding, 2^31 - 1 lines away; places there are never read."""
    far = 2**31 - 1
    attrs = {"stride": (far, far), "padding": (far, far), "dilation": (far, 2), "groups": 1}
    rng = np.random.default_rng(3)
    (h, w), (r, s), (y, x) = (3, 4), (3, 2), (1, 3)
    image, weight, grad = draw(rng, 1, 2, h, w), draw(rng, 3, 2, r, s), draw(rng, 1, 3, y, x)
    inputs, more = {
        "conv2d": ([image, weight], {}),
        "conv2d_input_grad": ([grad, weight], {"input_hw": (h, w)}),
        "conv2d_weight_grad": ([grad, image], {"kernel_hw": (r, s)}),
    }[name]
    check(name, inputs, {**attrs, **more})
    narrow = [x.astype(NUMPY_DTYPE[BF16]) for x in inputs]
    check(name, narrow, {**attrs, **more})
    with np.errstate(all="ignore"):
        (want,) = reference.execute_exact(name, narrow, {**attrs, **more})
    (got,) = exact.execute(name, narrow, {**attrs, **more})
    assert canonical(got).tobytes() == canonical(want).tobytes()


def test_taps_of_a_stride_are_found_whatever_their_common_divisor():
    rng = np.random.default_rng(5)
    for stride, dilation, kernel, size in (
        (6, 4, 5, 9),
        (4, 6, 7, 11),
        (9, 6, 4, 10),
        (5, 10, 3, 7),
        (12, 8, 3, 13),
    ):
        out = max(1, (size + 2 * 20 - dilation * (kernel - 1) - 1) // stride + 1)
        attrs = {"stride": (stride, 2), "padding": (20, 1), "dilation": (dilation, 1), "groups": 1}
        dy, w = draw(rng, 1, 2, out, 3), draw(rng, 2, 2, kernel, 3)
        check("conv2d_input_grad", [dy, w], {**attrs, "input_hw": (size, 5)})


def test_a_stride_beyond_the_image_takes_no_search_of_every_tap():
    """2^36 pairs of a position and a tap, of which 2^16 exist."""
    dy, w = np.ones((1, 1, 1, 1), np.float32), np.ones((1, 1, 256, 256), np.float32)
    attrs = {
        "stride": (2**30,) * 2,
        "padding": (128,) * 2,
        "dilation": (1, 1),
        "groups": 1,
        "input_hw": (64, 64),
    }
    (found,) = cpu.execute("conv2d_input_grad", [dy, w], attrs)
    assert (found == 1).all()
