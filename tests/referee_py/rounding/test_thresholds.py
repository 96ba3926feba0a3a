"""Dense logs as in the paper: a threshold adds entries to the band, and changes no value."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from referee_py.rounding import Bounds, Form, Rounding
from referee_py.rounding.backend import Rounded
from referee_py.rounding.follow import follow, write
from referee_py.rounding.log_source import MemoryLogs
from referee_py.rounding.primitives import FIXED_TAU
from referee_py.rounding.thresholds import terms_by_shape

from .operators import Definition, ambiguous, cancelling, cases, evaluations, of_terms, same_bits, special


@pytest.mark.parametrize("b", [26, 32])
@pytest.mark.parametrize("tau_of_half", [0.0, 0.5, 0.999])
def test_a_threshold_changes_no_value_and_looks_forged_to_nobody(b: int, tau_of_half: float) -> None:
    """Every evaluation follows every trainer to its bits, which are the defined ones under its log."""
    rng = np.random.default_rng(b)
    rounding, tau = Rounding(b, Bounds.PROVEN, Form.DENSE), tau_of_half * 2.0 ** (8 - b)
    entries = corrections = 0
    terms = [ambiguous(rng, 8, 6, b), cancelling(rng, 6, 6), special(rng, 6, 6)]
    for case in (case for t in terms for case in of_terms(t)):
        operator = case.name, case.inputs, case.attrs
        sides = list(evaluations(case, rounding.bounds, rng))
        definition = Definition(case, sides[0].x.shape, rounding)
        for trainer in sides:
            values, log = write(*operator, trainer, rounding, tau=tau)
            assert same_bits(values.astype(np.float64), definition.under(log)), case
            entries += log.narrow.size
            for auditor in sides:
                found = follow(*operator, auditor, log, rounding)
                assert same_bits(found.values, values), case
                assert found.forged is None, case
                corrections += found.corrections
    assert entries > 500
    assert corrections > 20


def test_directions_the_other_way_are_ignored_and_told_of() -> None:
    """Honest trainers write none of them away from midpoints; entries within reach of the exact value are followed."""
    rng = np.random.default_rng(7)
    rounding = Rounding(32, Bounds.PROVEN, Form.DENSE)
    told = 0
    for case in of_terms(ambiguous(rng, 12, 6, 32)):
        operator = case.name, case.inputs, case.attrs
        sides = list(evaluations(case, rounding.bounds, rng))
        values, log = write(*operator, sides[0], rounding)
        turned = replace(log, up=~log.up)
        want = Definition(case, values.shape, rounding).under(turned)
        for auditor in sides:
            found = follow(*operator, auditor, turned, rounding)
            assert same_bits(found.values.astype(np.float64), want), case
            told += found.forged is not None
    assert told > 20


@pytest.mark.parametrize("b", [26, 32])
def test_terms_by_shape_are_as_many_as_there_are_slots(b: int) -> None:
    """Compared with the terms that `decide_exactly` gathers; an element has fewer where taps are absent."""
    from referee_py.rounding.evaluate import ELEMENTARY
    from referee_py.rounding.summands import summands_of

    seen = set()
    for case in cases(np.random.default_rng(1), b):
        found = terms_by_shape(case.name, case.inputs, case.attrs)
        size = case.evaluation(Bounds.PROVEN).x.size
        seen.add(case.name)
        if case.name in ELEMENTARY:
            assert found == 1
        elif size:
            counts = summands_of(case.name, case.inputs, case.attrs, np.arange(size)).counts
            assert counts.max() <= found, case
            if case.attrs.get("padding", (0, 0)) == (0, 0) and case.name in ("sum", "mm", "bmm", "conv2d"):
                assert counts.max() == found, case
    assert {"sum", "mm", "bmm", "scatter_add", "conv2d", "conv2d_input_grad", "conv2d_weight_grad"} <= seen


def test_a_trainer_asks_for_the_threshold_of_each_node() -> None:
    """By bits, operator and terms, in the dense form only; the threshold determines the number of entries."""
    from trainer_node.rounded.evaluators import NumpyEvaluator

    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((64, 48), (48, 32)))
    asked: list[tuple[int, str, int]] = []
    sizes = {}
    for form, tau in ((Form.DENSE, FIXED_TAU), (Form.DENSE, 1.6 * FIXED_TAU), (Form.SPARSE, FIXED_TAU)):

        def thresholds(bits: int, operator: str, terms: int, tau: float = tau) -> float:
            asked.append((bits, operator, terms))
            return tau

        log_source = MemoryLogs()
        rounded = Rounded(Rounding(32, form=form), log_source, NumpyEvaluator(), thresholds=thresholds)
        rounded.begin(1)
        (values,) = rounded.execute(0, "mm", [a, b], {})
        rounded.end()
        written = log_source.get(1)
        assert written is not None
        sizes[form, tau] = written.entries(0, values.size).count
    assert asked == [(32, "mm", 48)] * 2
    assert 950 < sizes[Form.DENSE, FIXED_TAU] < 1100, "half of 2048"
    assert 330 < sizes[Form.DENSE, 1.6 * FIXED_TAU] < 490, "a fifth"
    assert sizes[Form.SPARSE, FIXED_TAU] < 10
