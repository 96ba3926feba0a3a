"""Powers of special values are those of the definition, with every library and for exponents of any layout.

Libraries have faster ways for some exponents that are the same for all bases, such as a root for 0.5, and these differ.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from referee_py.commit.tensor import Array
from referee_py.program.modes import Rounding
from referee_py.rounding.backend import Evaluator, Rounded
from referee_py.rounding.log_source import MemoryLogs
from referee_py.rounding.truth import truth
from tests.referee_py.rounding.exact import truth_of_element
from trainer_node.rounded.device import TensorEvaluator
from trainer_node.rounded.evaluators import EVALUATORS, evaluator_of

from .places import PLACES, device_of

ROUNDING = Rounding(30)
BASES = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 2.0, -3.0, 1e-45, -1e-45, 3.4e38]
EXPONENTS = [*(0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 3.0, 1 / 3, 1.5), math.inf, -math.inf, math.nan]


def layouts(exponent: float) -> list[list[Array]]:
    """Return the bases with an exponent for each, one for all, one of rank 0, and each base alone."""
    bases, one = np.array(BASES, np.float32), np.array(exponent, np.float32)
    calls = [[bases, other] for other in (np.full_like(bases, one), one.reshape(1), one)]
    return calls + [[np.array(base, np.float32), one] for base in BASES]


def judged(operands: list[Array]) -> Array:
    (values,) = truth("pow", operands, {}, None, ROUNDING)
    return values


def computed(evaluator: Evaluator, operands: list[Array]) -> Array:
    backend = Rounded(ROUNDING, MemoryLogs(), evaluator)
    backend.begin(1)
    device = backend.device
    (values,) = backend.execute(0, "pow", [x if device is None else device.place(x) for x in operands], {})
    return values if device is None else device.read(values)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("exponent", EXPONENTS)
def test_expect_the_definition_whatever_the_layout(exponent: float, place: str) -> None:
    evaluators = [*map(evaluator_of, EVALUATORS), TensorEvaluator(device_of(place), place)]
    for operands in layouts(exponent):
        shape = np.broadcast_shapes(*(x.shape for x in operands))
        want = [truth_of_element("pow", operands, {}, index, 1, 0.0, ROUNDING) for index in np.ndindex(shape)]
        for values in (judged(operands), *(computed(each, operands) for each in evaluators)):
            np.testing.assert_array_equal(np.ravel(values), np.array(want, np.float32))
            signs = np.signbit(np.ravel(values)) == np.signbit(want)
            assert (signs | np.isnan(want)).all()
