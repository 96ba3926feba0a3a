"""A million elements of every operator in the mode exact, compared with integers of any length."""

import numpy as np
import pytest
from repops import reference
from repops.host import exact
from repops.host.library import BEST_ISA
from repops.reference.exact import SUM_UNIT, rounded
from repops.tensors import canonical

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

STYLES = ("ordinary", "few bits", "wide", "tiny", "special")
MILLION = 1 << 20


def draw(rng, style, *shape):
    x = rng.standard_normal(shape, dtype=np.float32)
    if style == "few bits":
        x = rng.integers(-40, 41, shape).astype(np.float32)
    elif style == "wide":
        x *= np.exp2(rng.integers(-60, 60, shape)).astype(np.float32)
    elif style == "tiny":
        x *= np.exp2(rng.integers(-149, -100, shape)).astype(np.float32)
    elif style == "special":
        beside = np.array([np.inf, -np.inf, np.nan, -0.0, 3e38, -3e38, 1e-45], np.float32)
        x = np.where(rng.random(shape) < 1e-3, rng.choice(beside, shape), x)
    return np.ascontiguousarray(x)


def calls(rng, style):
    """One call of each operator with a fifth of a million elements, so that all styles have a million."""
    window = {"stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "groups": 1}
    side = 458
    yield "mm", [draw(rng, style, side, 17), draw(rng, style, 17, side)], {}
    yield "bmm", [draw(rng, style, 50, 65, 14), draw(rng, style, 50, 14, 65)], {}
    yield "conv2d", [draw(rng, style, 4, 2, 40, 41), draw(rng, style, 32, 2, 3, 3)], window
    inputs = [draw(rng, style, 4, 2, 40, 41), draw(rng, style, 2, 32, 3, 3)]
    yield "conv2d_input_grad", inputs, {**window, "input_hw": (40, 41)}
    inputs = [draw(rng, style, 2, 160, 3, 3), draw(rng, style, 2, 148, 3, 3)]
    yield "conv2d_weight_grad", inputs, {**window, "kernel_hw": (3, 3)}
    yield "sum", [draw(rng, style, 105_000, 15)], {"dims": (1,), "keepdim": 0}
    yield "sum", [draw(rng, style, 16, 105_000)], {"dims": (0,), "keepdim": 0}
    index = rng.integers(-1, 300, 900)
    yield "scatter_add", [draw(rng, style, 300, 700), index[:12], draw(rng, style, 12, 700)], {}


@pytest.mark.parametrize("style", STYLES)
def test_every_operator(style):
    rng = np.random.default_rng(STYLES.index(style))
    for name, inputs, attrs in calls(rng, style):
        (want,) = reference.execute_exact(name, inputs, attrs)
        assert want.size * len(STYLES) >= MILLION or name == "sum", name
        for isa in range(BEST_ISA + 1):
            (got,) = exact.execute(name, inputs, attrs, threads=2, isa=isa)
            assert canonical(got).tobytes() == canonical(want).tobytes(), (name, isa)


LIMB, LIMBS = 12, 3


def limbs_of(x):
    """Split integers below 2^36 into limbs of 12 bits with the integer's sign. Binary64 holds sums of products."""
    size = np.abs(x)
    return [np.sign(x) * (size >> LIMB * i & (1 << LIMB) - 1) for i in range(LIMBS)]


@pytest.mark.parametrize(("m", "k", "n"), [(700, 768, 750), (700, 3072, 750), (64, 20_000, 64)])
def test_long_sums_of_products(m, k, n):
    """Elements with 24 bits at any of 12 exponents, as integers: their products are sums of products of limbs."""
    rng = np.random.default_rng(k)
    a, b = (rng.integers(-(2**24), 2**24, shape) << rng.integers(0, 12, shape) for shape in ((m, k), (k, n)))
    total = np.zeros((m, n), dtype=object)
    for i, high in enumerate(limbs_of(a)):
        for j, low in enumerate(limbs_of(b)):
            total = total + (
                (high.astype(float) @ low.astype(float)).astype(np.int64).astype(object) << LIMB * (i + j)
            )
    want = np.frompyfunc(lambda value: rounded(value << SUM_UNIT), 1, 1)(total).astype(np.float32)
    for isa in range(BEST_ISA + 1):
        (got,) = exact.execute("mm", [a.astype(np.float32), b.astype(np.float32)], {}, threads=2, isa=isa)
        assert got.tobytes() == want.tobytes(), isa
