"""Ten million elements in the mode tc16, of all kinds of data, by each instruction set, compared with the reference."""

from __future__ import annotations

import numpy as np
import pytest
from repops.block_data import CANCELLING, DRAWERS, KINDS, drawn, factors
from repops.host import tensor_core
from repops.host.library import BEST_ISA, ISA_NAMES
from repops.reference.tensor_core import in_binary32
from repops.tensors import canonical

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

EACH = 600_000
"""Elements of each kind, so that all kinds have more than ten million."""
WINDOWS = ((1, 1), (3, 3), (5, 2))


def calls(rng, kind):
    """Yield calls until they have that many elements: products with 0 to 199 terms, some of three chunks, and now
    and then a convolution."""
    count = 0
    while count < EACH:
        m, n = (int(v) for v in rng.integers(40, 200, 2))
        k = int(rng.integers(0, 200)) if rng.random() < 0.9 else int(rng.integers(1000, 1300))
        m = 12 if k > 200 else m
        yield "mm", factors(rng, kind, m, k, n), {}
        count += m * n
        if kind == CANCELLING or rng.random() < 0.7:
            continue
        r, s = WINDOWS[rng.integers(len(WINDOWS))]
        images, c, f, h, w = (
            2,
            int(rng.integers(1, 20)),
            int(rng.integers(1, 20)),
            9,
            int(rng.integers(6, 24)),
        )
        attrs = {
            "stride": (1, int(rng.integers(1, 3))),
            "padding": (r // 2, 1),
            "dilation": (1, 1),
            "groups": 1,
        }
        y, x = h + 2 * (r // 2) - r + 1, (w + 2 - s) // attrs["stride"][1] + 1
        image, dy = drawn(rng, kind, (images, c, h, w)), drawn(rng, kind, (images, f, y, x))
        weights = drawn(rng, kind, (f, c, r, s))
        yield "conv2d", [image, weights], attrs
        yield "conv2d_input_grad", [dy, weights], {**attrs, "input_hw": (h, w)}
        yield "conv2d_weight_grad", [dy, image], {**attrs, "kernel_hw": (r, s)}
        count += dy.size + image.size + weights.size


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind(kind, capsys):
    assert EACH * len(KINDS) > 10_000_000
    assert set(DRAWERS) < set(KINDS)
    rng = np.random.default_rng([99, KINDS.index(kind)])
    elements, wrong = 0, dict.fromkeys(ISA_NAMES[: BEST_ISA + 1], 0)
    for name, inputs, attrs in calls(rng, kind):
        with np.errstate(all="ignore"):
            want = canonical(in_binary32(name, *inputs, **attrs)).view(np.uint32)
        elements += want.size
        for isa, of in enumerate(wrong):
            threads = int(rng.integers(1, 4))
            got = tensor_core.in_binary32(name, inputs, attrs, threads=threads, isa=isa)
            wrong[of] += int((canonical(got).view(np.uint32) != want).sum())
    with capsys.disabled():
        print(f"\n{kind}: {elements} elements, wrong {wrong}")
    assert not any(wrong.values())
