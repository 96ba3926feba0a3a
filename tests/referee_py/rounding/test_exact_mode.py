"""The mode exact is rounded-f64 without a log: both give the value of the grid that is nearest to the real sum."""

from __future__ import annotations

import numpy as np
import pytest
from repops import reference
from repops.opset import BF16, F32, Dtype
from repops.random_calls import random_call
from repops.tensors import NUMPY_DTYPE, canonical

from referee_py.program.modes import BF16_BITS
from referee_py.rounding import Rounding
from referee_py.rounding.truth import truth

from .operators import cases

OPERATORS = tuple(reference.exact.IMPLEMENTATION)


@pytest.mark.parametrize("name", OPERATORS)
def test_random_calls(name: str) -> None:
    narrow = 0
    for seed in range(30):
        inputs, attrs = random_call(name, f"truth {seed}", "tiny")
        (found,) = truth(name, inputs, attrs, None, Rounding())
        (exact,) = reference.execute_exact(name, inputs, attrs)
        assert found.dtype == exact.dtype
        assert canonical(found).tobytes() == canonical(exact).tobytes(), (seed, attrs)
        narrow += found.dtype == NUMPY_DTYPE[BF16]
    assert bool(narrow) == (name not in ("sum", "scatter_add"))


@pytest.mark.parametrize("dtype", [F32, BF16])
def test_the_hardest_roundings(dtype: Dtype) -> None:
    """Sums near midpoints of f32 and of bf16, sums that cancel, infinities and NaN, convolutions, empty dimensions."""
    bits = 32 if dtype == F32 else BF16_BITS
    for case in cases(np.random.default_rng(bits), bits):
        if case.name not in OPERATORS or (dtype == BF16 and case.name in ("sum", "scatter_add")):
            continue
        inputs = [np.asarray(x, NUMPY_DTYPE[dtype]) if x.dtype == np.float32 else x for x in case.inputs]
        (exact,) = reference.execute_exact(case.name, inputs, case.attrs)
        (found,) = truth(case.name, inputs, case.attrs, None, Rounding())
        assert canonical(found).tobytes() == canonical(exact).tobytes(), case
