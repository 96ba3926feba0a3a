"""Evaluators of other libraries: within the bounds of a job, so that with a trainer's log all of them agree."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from assay_lab.evaluators import VARIATIONS
from referee_py.rounding import Bounds, Form, Rounding
from referee_py.rounding.evaluate import Evaluation
from referee_py.rounding.follow import follow, write
from tests.referee_py.rounding.operators import cases, same_bits
from trainer_node.rounded.evaluators import evaluator_of

from .orders import both

DENSE = Rounding(26, Bounds.PROVEN, Form.DENSE)
ROUNDINGS = (Rounding(26), Rounding(32, Bounds.PROBABLE), DENSE)


def pairs() -> list[Any]:
    """Return each library with each rounding. The quick tests have every library, and every rounding."""
    names = [name for name in VARIATIONS if name != "numpy"]
    return [
        pytest.param(name, rounding, marks=[] if place % len(ROUNDINGS) == number else [pytest.mark.slow])
        for place, name in enumerate(names)
        for number, rounding in enumerate(ROUNDINGS)
    ]


@pytest.mark.parametrize(("name", "rounding"), pairs())
def test_either_side_follows_the_other(name: str, rounding: Rounding) -> None:
    """Ambiguous and cancelling sums, paddings, non-finite operands, and sizes of 0 and 1."""
    library, others = evaluator_of(name), (evaluator_of("numpy"), *both())
    rng = np.random.default_rng(rounding.mode)
    logged = corrections = apart = 0
    for case in cases(rng, rounding.bits):
        operator = case.name, [v.copy() for v in case.inputs], case.attrs
        followed = []
        for other in others:
            ours, theirs = (side.evaluate(*operator, rounding.bounds) for side in (library, other))
            for trainer, auditor in ((ours, theirs), (theirs, ours)):
                values, log = write(*operator, trainer, rounding)
                found = follow(*operator, auditor, log, rounding)
                assert same_bits(found.values, values), case
                assert found.forged is None, case
                logged += log.count > 0
            followed.append(found)
        _, forwards, backwards = followed
        corrections += forwards.corrections + backwards.corrections
        apart += int((np.isfinite(forwards.values) & (forwards.values != backwards.values)).sum())
    assert logged > 100
    assert corrections >= apart > 100, "of two that differ it differs from one"


@pytest.mark.parametrize("name", ["torch", "unfolded", "direct"])
def test_a_stranger_s_dilation_takes_no_memory(name: str) -> None:
    """Taps a million apart, all outside except the middle one: zeros around the gradients would be terabytes."""
    far = 1 << 20
    attrs = {"stride": (1, 1), "padding": (far, far), "dilation": (far, far), "groups": 1}
    rng = np.random.default_rng(1)
    x, w = (rng.standard_normal(shape).astype(np.float32) for shape in ((1, 2, 3, 3), (2, 2, 3, 3)))
    numpy_s = evaluator_of("numpy").evaluate("conv2d", [x, w], attrs, Bounds.PROVEN)
    assert isinstance(numpy_s, Evaluation)
    shape = numpy_s.x.shape
    assert shape == (1, 2, 3, 3)
    dy = rng.standard_normal(shape).astype(np.float32)
    for operator, inputs, more in (
        ("conv2d", [x, w], {}),
        ("conv2d_input_grad", [dy, w], {"input_hw": (3, 3)}),
        ("conv2d_weight_grad", [dy, x], {"kernel_hw": (3, 3)}),
    ):
        found, readable = (
            evaluator_of(which).evaluate(operator, inputs, {**attrs, **more}, Bounds.PROVEN)
            for which in (name, "numpy")
        )
        assert isinstance(found, Evaluation)
        assert isinstance(readable, Evaluation)
        assert np.allclose(found.x, readable.x)
        assert found.x.any()
