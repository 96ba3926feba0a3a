"""Intervals that are drawn: the stated chance is the share found."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from referee_py.errors import InvalidInput
from trainer_node.audit.selection import missed, needed, select


@pytest.mark.parametrize(
    ("count", "lies", "drawn"), [(10, 1, 5), (10, 3, 4), (100, 5, 44), (7, 7, 1), (5, 2, 4)]
)
def test_the_chance_is_that_of_the_hypergeometric_distribution(count: int, lies: int, drawn: int) -> None:
    want = math.comb(count - lies, drawn) / math.comb(count, drawn) if drawn <= count - lies else 0.0
    assert missed(count, lies, drawn) == pytest.approx(want, rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("detect", [0.01, 0.5, 0.9, 0.99, 0.999999])
def test_as_few_as_needed_are_drawn(detect: float) -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        count = int(rng.integers(1, 3000))
        lies = int(rng.integers(1, count + 1))
        drawn = needed(count, lies, detect)
        assert 1 - missed(count, lies, drawn) >= detect
        assert drawn == 0 or 1 - missed(count, lies, drawn - 1) < detect


def test_the_share_of_runs_found_is_the_chance_that_is_told() -> None:
    """2,000 runs with wrong intervals at random places, each sampled from another seed: a binomial test at 1 %."""
    rng = np.random.default_rng(1)
    for count, lies, detect in ((100, 1, 0.5), (60, 4, 0.8), (12, 2, 0.6)):
        found = 0
        for seed in range(2000):
            wrong = set(rng.choice(np.arange(1, count + 1), lies, replace=False).tolist())
            found += bool(wrong & set(select("sample", count, detect, lies, seed).intervals))
        told = 1 - missed(count, lies, needed(count, lies, detect))
        assert stats.binomtest(found, 2000, told).pvalue > 0.01


def test_intervals_are_named_by_number_and_range() -> None:
    assert select("3,7-9,8", 10, 0.9, 1, None).intervals == (3, 7, 8, 9)
    assert select("all", 3, 0.9, 1, None).intervals == (1, 2, 3)
    assert select("1", 1, 0.9, 1, None).intervals == (1,)
    first = select("sample", 1000, 0.9, 10, 5)
    assert first == select("sample", 1000, 0.9, 10, 5)
    assert (
        first.why
        == f"{len(first.intervals)} of 1000 intervals find at least one of 10 wrong intervals with the "
        + (first.why[first.why.index("chance") :])
    )


@pytest.mark.parametrize(
    "text",
    ["", "0", "11", "3-2", "1-11", "a", "-1", "1,,2", "1;2", "٣", "9" * 400, "1-" + "9" * 30, "9" * 5000],
)
def test_other_words_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="name some of 1 to 10"):
        select(text, 10, 0.9, 1, None)


@pytest.mark.parametrize(("detect", "lies"), [(0.0, 1), (1.0, 1), (float("nan"), 1), (0.5, 0), (0.5, 11)])
def test_samples_of_nothing_are_refused(detect: float, lies: int) -> None:
    with pytest.raises(InvalidInput, match=r"--detect|--lies"):
        select("sample", 10, detect, lies, None)


def test_a_chance_is_not_rounded_up_to_certainty() -> None:
    assert select("sample", 100, 0.999999, 50, 1).why.endswith("with the chance 1 - 5.9e-07")
    assert select("sample", 10, 0.95, 1, 1).why.endswith("with the chance 1")
