"""Evaluators of other libraries: within the bounds of a job, so that a trainer's log makes all of them one."""

from __future__ import annotations

import numpy as np
import pytest

from referee_py.rounding import Bounds, Form, Rounding
from referee_py.rounding.follow import follow, write
from tests.referee_py.rounding.operators import cases, same_bits
from trainer_node.rounded.variations import VARIATIONS, evaluator_of

DENSE = Rounding(26, Bounds.PROVEN, Form.DENSE)


def test_images_too_large_to_be_unfolded_are_within_the_bounds_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainer_node.rounded.images.MAX_UNFOLDED", 0)
    test_either_side_follows_the_other("torch", Rounding(32))


@pytest.mark.parametrize("rounding", [Rounding(26), Rounding(32, Bounds.PROBABLE), DENSE])
@pytest.mark.parametrize("name", [n for n in VARIATIONS if n != "numpy"])
def test_either_side_follows_the_other(name: str, rounding: Rounding) -> None:
    """Ambiguous and cancelling sums, paddings, operands that are not finite, and sizes of 0 and 1."""
    library, readable = evaluator_of(name), evaluator_of("numpy")
    rng = np.random.default_rng(rounding.mode)
    corrections = logged = 0
    for case in cases(rng, rounding.bits):
        operator = case.name, [v.copy() for v in case.inputs], case.attrs
        sides = [side.evaluate(*operator, rounding.bounds) for side in (library, readable)]
        for trainer, auditor in (sides, sides[::-1]):
            values, log = write(trainer, rounding)
            found = follow(*operator, auditor, log, rounding)
            assert same_bits(found.values, values), case
            assert found.forged is None, case
            corrections += found.corrections
            logged += log is not None
    assert logged > 40
    assert corrections > 10
