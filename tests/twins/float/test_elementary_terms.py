"""The error bounds of truncated fractions and series in docs/float-elementary.md, at the worst arguments; and the
constants of the contracts.
"""

from __future__ import annotations

import runpy
from pathlib import Path

import gmpy2
import numpy as np
import pytest
from gmpy2 import mpfr

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def precise() -> object:
    with gmpy2.context(precision=600) as context:
        yield context


def fraction(square: mpfr, levels: int) -> mpfr:
    """Return 2 + square / (6 + square / (10 + ... / (4 levels + 2))): r coth(r / 2) for r^2, r cot(r / 2) for -r^2."""
    c = mpfr(4 * levels + 2)
    for j in range(levels - 1, -1, -1):
        c = (4 * j + 2) + square / c
    return c


def log2(x: mpfr) -> float:
    return float(gmpy2.log2(abs(x)))


def test_constants_are_what_the_script_writes() -> None:
    script = runpy.run_path(str(ROOT / "scripts/make_float_constants.py"))
    assert script["TARGET"].read_text() == script["text"]()


def test_exp() -> None:
    r = gmpy2.const_log2() / 2
    c = fraction(r * r, 11)
    assert log2((c + r) / (c - r) / gmpy2.exp(r) - 1) < -143


def test_tanh() -> None:
    x = mpfr(1) / 8
    assert log2(2 * x / fraction(4 * x * x, 10) / gmpy2.tanh(x) - 1) < -137


def test_sin_and_cos() -> None:
    r = gmpy2.const_pi() / 4
    c = fraction(-r * r, 13)
    assert log2(2 * r * c / (c * c + r * r) / gmpy2.sin(r) - 1) < -138
    assert log2((c * c - r * r) / (c * c + r * r) / gmpy2.cos(r) - 1) < -138


def test_log() -> None:
    """24 terms of atanh(s) / s for the largest s."""
    s = (gmpy2.sqrt(mpfr(2)) - 1) / (gmpy2.sqrt(mpfr(2)) + 1)
    series = sum((s * s) ** k / (2 * k + 1) for k in range(25))
    assert log2(series * s / gmpy2.atanh(s) - 1) < -132


@pytest.mark.parametrize(
    "x", [*np.geomspace(2.0**-60, 0.05, 40), *np.arange(0.05, 3.5, 0.05), np.nextafter(3.5, 0)]
)
def test_erf_by_its_series(x: float) -> None:
    """16 + 20 x terms, rounded down, of sqrt(pi)/2 erf(x) e^(x^2) / x. The error grows with x between two counts."""
    z, sum_, term = mpfr(x) ** 2, mpfr(1), mpfr(1)
    for k in range(1, 16 + int(20 * x) + 1):
        term *= 2 * z / (2 * k + 1)
        sum_ += term
    whole = gmpy2.sqrt(gmpy2.const_pi()) / 2 * gmpy2.erf(mpfr(x)) * gmpy2.exp(z) / x
    assert log2(sum_ / whole - 1) < -127


@pytest.mark.parametrize("x", [*np.arange(3.5, 8.875, 0.01), 8.875])
def test_erf_by_its_fraction(x: float) -> None:
    """2 + 1000 / x^2 levels, rounded down, of sqrt(pi) e^(x^2) erfc(x) = 1 / (x + (1/2) / (x + 1 / (x + ...)))."""
    c = mpfr(x)
    for level in range(2 + int(1000 / x**2), 0, -1):
        c = x + mpfr(level) / 2 / c
    assert log2(gmpy2.exp(-(mpfr(x) ** 2)) / gmpy2.sqrt(gmpy2.const_pi()) / c - gmpy2.erfc(mpfr(x))) < -127
