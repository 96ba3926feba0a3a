"""Sums that no order can change: how they are found, and their entries in a log."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from referee_py.rounding import Bounds, Rounding
from referee_py.rounding.additions import ADDITIONS, exact, is_exact
from referee_py.rounding.follow import follow, write
from tests.referee_py.rounding.exact import added_exactly

from .operators import Case, all_terms, cancelling, cases, midpoints, of_terms, same_bits, special

TIE = Case(
    "sum", [np.array([[2.0**24 + 2, 1.0], [2.0**24, 1.0]], dtype=np.float32)], {"dims": (1,), "keepdim": 0}
)
"""Two sums half-way between two binary32 values; the nearest even value is above one and below the other."""


def test_found_are_those_of_the_definition() -> None:
    rng = np.random.default_rng(3)
    found = np.zeros(2, dtype=np.int64)
    tables = [
        midpoints(rng, 200, 6, 32),
        midpoints(rng, 200, 6, 26),
        cancelling(rng, 100, 8),
        special(rng, 100, 6),
    ]
    for case in (case for t in tables for case in of_terms(t) if case.name in ADDITIONS):
        operator = case.name, case.inputs, case.attrs
        terms = all_terms(case, case.evaluation(Bounds.PROVEN).x.size)
        want = [bool(np.isfinite(t).all()) and added_exactly(t.tolist()) for t in terms]
        assert exact(*operator, np.arange(len(terms))).tolist() == want
        for t, one in zip(terms, want, strict=True):
            if np.isfinite(t).all():
                sizes = [abs(v) for v in t.tolist() if v]
                magnitude = sum(map(Fraction, sizes)) * 2**298
                assert magnitude == int(magnitude)
                assert is_exact(int(magnitude), min(sizes, default=np.inf)) == one
        found += np.bincount(want, minlength=2)
    assert found.min() > 100


def test_every_order_of_such_a_sum_has_its_exact_value() -> None:
    rng = np.random.default_rng(4)
    for case in cases(rng, 32):
        if case.name in ADDITIONS and (elements := case.evaluation(Bounds.PROVEN).x.size):
            chosen = exact(case.name, case.inputs, case.attrs, np.arange(elements))
            terms = all_terms(case, elements)[chosen]
            for _ in range(4):
                total = np.zeros(len(terms))
                for k in rng.permutation(terms.shape[1]):
                    total = total + terms[:, k]
                assert total.tolist() == [float(sum(map(Fraction, t))) for t in terms.tolist()]


def test_no_product_is_one() -> None:
    a = np.ones((1, 1), dtype=np.float32)
    assert not exact("mm", [a, a], {}, np.arange(1)).any()


def test_ties_of_such_sums_have_no_entries_and_an_entry_that_says_otherwise_is_forged() -> None:
    operator, rounding = (TIE.name, TIE.inputs, TIE.attrs), Rounding(32)
    evaluation = TIE.evaluation(Bounds.PROVEN)
    values, log = write(*operator, evaluation, rounding)
    assert values.tolist() == [2.0**24 + 4, 2.0**24]
    assert log.count == 0
    entries = write("sum", None, TIE.attrs, evaluation, rounding)[1]
    assert entries.narrow.tolist() == [0, 1], "who does not look at operands says what nobody needs to hear"
    for log, forged in ((entries, None), (replace(entries, up=~entries.up), 0)):
        found = follow(*operator, evaluation, log, rounding)
        assert same_bits(found.values, values)
        assert (found.corrections, found.forged) == (0, forged)
