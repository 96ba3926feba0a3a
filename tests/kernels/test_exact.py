"""The mode exact: every operator gives the reference's bits, on every instruction set, for any number of threads."""

import numpy as np
import pytest
from repops import composites, exact, reference
from repops.calls import random_call
from repops.expression import record
from repops.fusion import Fused
from repops.library import BEST_ISA, ISA_NAMES
from repops.memory import address_of
from repops.opset import F32
from repops.strided import Matrices
from repops.tensors import canonical, spec_of

from tests.kernels.test_fusion import draw, one_by_one, same

OPERATORS = tuple(reference.exact.IMPLEMENTATION)
THREADS = (1, 2, 3)


def check(name, inputs, attrs, threads=THREADS):
    (want,) = reference.execute_exact(name, inputs, attrs)
    for isa in range(BEST_ISA + 1):
        for count in threads:
            (got,) = exact.execute(name, inputs, attrs, threads=count, isa=isa)
            context = (name, [array.shape for array in inputs], attrs, ISA_NAMES[isa], count)
            assert canonical(got).tobytes() == canonical(want).tobytes(), context


@pytest.mark.parametrize("scale", ["tiny", "usual"])
@pytest.mark.parametrize("name", OPERATORS)
def test_random_calls(name, scale):
    for seed in range(40 if scale == "tiny" else 6):
        check(name, *random_call(name, f"exact {seed}", scale))


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
    operands = [Matrices(each[:-2], *each[-2:]) for each in strides]
    addresses = [array.__array_interface__["data"][0] for array in (a, b, got)]
    exact.product((batch,), m, k, n, operands, F32, addresses)(2, BEST_ISA)
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
