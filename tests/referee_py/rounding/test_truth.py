"""Under a log every element has one right value, for every party, every order of additions and every log."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from referee_py.rounding import Bounds, Form, Log, Rounding, rnd, truth
from referee_py.rounding.evaluate import has_log
from referee_py.rounding.follow import follow, write

from .logs import log_of
from .operators import (
    Definition,
    cases,
    evaluations,
    same_bits,
)

ALL = [Rounding(*p) for p in itertools.product((26, 29, 32), Bounds, Form)]
NARROW = (Rounding().of_bf16, Rounding(32, Bounds.PROBABLE, Form.DENSE).of_bf16)
NAMES = [f"{r.mode:#x}" for r in ALL] + [f"bf16 {r.bounds.name}" for r in NARROW]


def modes(*quick: Rounding) -> list[Any]:
    """Return all modes, of which only these are quick."""
    return [
        pytest.param(rounding, marks=[] if rounding in quick else [pytest.mark.slow], id=name)
        for rounding, name in zip((*ALL, *NARROW), NAMES, strict=True)
    ]


@pytest.mark.parametrize("rounding", modes(Rounding(32), NARROW[1]))
def test_honest_trainer_expect_everybody_ends_at_its_bits(rounding: Rounding) -> None:
    """Trainer and auditors add in different orders; the log makes their results equal, and the defined ones."""
    rng = np.random.default_rng(rounding.bits + 64 * rounding.bounds)
    corrections = alone = 0
    for case in cases(rng, rounding.bits):
        several = list(evaluations(case, rounding.bounds, rng))
        definition = Definition(case, several[0].x.shape, rounding)
        for trainer in several[:1] + several[-1:]:
            values, log = write(case.name, case.inputs, case.attrs, trainer, rounding)
            assert same_bits(values, definition.under(log)), case
            for auditor in several:
                found = follow(case.name, case.inputs, case.attrs, auditor, log, rounding)
                assert same_bits(found.values, values), case
                assert found.forged is None, case
                corrections += found.corrections
            (judged,) = truth(case.name, case.inputs, case.attrs, log, rounding)
            assert same_bits(judged, values), case
            alone += not same_bits(write(case.name, case.inputs, case.attrs, several[1], rounding)[0], values)
    assert corrections > 100, "evaluations must have differed, and the log must have mattered"
    assert alone > 5


def binary32(values: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore", invalid="ignore"):
        return values.astype(np.float32).astype(np.float64)


def forgeries(rng: np.random.Generator, honest: Log, x: np.ndarray, b: int) -> Iterator[Log]:
    """Yield logs that no honest trainer has written, most of them at elements where an entry could count."""
    none = np.zeros(0, dtype=np.int64)
    size, flat = honest.elements, x.reshape(-1)
    yield Log.empty(size)
    yield Log(size, honest.narrow, ~honest.up, honest.wide, honest.values)
    everywhere = np.arange(size)
    for up in (True, False):
        yield Log(size, everywhere, np.full(size, up), none, np.zeros(0))
    with np.errstate(invalid="ignore", over="ignore"):
        own = rnd(flat, b)
        neighbours = own * (1 + rng.integers(-2, 3, size) * 2.0 ** (9 - b))
        for written in (own, -own, rnd(neighbours, b), neighbours + 2.0**-149, flat.astype(np.float32)):
            yield Log(size, none, np.zeros(0, dtype=np.bool_), everywhere, binary32(written))
    odd = rng.choice(np.array([-0.0, 0.0, np.nan, np.inf, -np.inf, 1e-45, 3.4028235e38]), size)
    mixed = rng.random(size) < 0.5
    narrow, wide = np.flatnonzero(mixed), np.flatnonzero(~mixed)
    yield Log(size, narrow, rng.random(narrow.size) < 0.5, wide, binary32(odd)[wide])
    shifted = np.unique(np.minimum(honest.narrow + 1, size - 1))
    yield Log(size, shifted, rng.random(shifted.size) < 0.5, none, np.zeros(0))


@pytest.mark.parametrize("rounding", modes(Rounding(32)))
def test_any_log_expect_the_value_of_the_definition(rounding: Rounding) -> None:
    """Under any log, every evaluation ends at the truth of each element, and forged entries are found."""
    rng = np.random.default_rng(1000 + rounding.bits + 64 * rounding.bounds)
    followed = forged = 0
    for case in cases(rng, rounding.bits):
        several = list(evaluations(case, rounding.bounds, rng))
        honest, log = write(case.name, case.inputs, case.attrs, several[0], rounding)
        definition = Definition(case, honest.shape, rounding)
        without = definition.under(Log.empty(honest.size))
        for forgery in forgeries(rng, log, several[0].x, rounding.bits):
            want = definition.under(forgery)
            for evaluation in (several[0], several[int(rng.integers(len(several)))]):
                found = follow(case.name, case.inputs, case.attrs, evaluation, forgery, rounding)
                assert same_bits(found.values, want), (case, forgery)
                forged += found.forged is not None
            followed += not same_bits(want, without)
    assert followed > 50, "admissible entries must have been among the forgeries, and changed results"
    assert forged > 200


def test_a_forged_log_expect_its_outputs_to_be_wrong() -> None:
    """Why forging has no point: outputs that follow an entry outside the band are not the truth of that log."""
    t = np.array([[1.0, 2.0**-25, 0.0, 0.0]], dtype=np.float32)
    rounding = Rounding()
    (alone,) = truth("sum", [t], {"dims": (1,), "keepdim": 0}, None, rounding)
    for entry in (
        Log(1, np.array([0]), np.array([False]), np.zeros(0, np.int64), np.zeros(0)),
        Log(1, np.array([0]), np.array([True]), np.zeros(0, np.int64), np.zeros(0)),
        Log(1, np.zeros(0, np.int64), np.zeros(0, np.bool_), np.array([0]), np.array([1 + 2.0**-23])),
    ):
        (judged,) = truth("sum", [t], {"dims": (1,), "keepdim": 0}, entry, rounding)
        assert judged[0] == alone[0] == 1.0


def test_an_element_on_a_midpoint_goes_either_way_and_no_further() -> None:
    """Four terms, exactly 1 + 2^-24: three orders of a trainer may round up or down; two quanta are too far."""
    t = np.array([[1.0, 2.0**-24, 2.0**-80, -(2.0**-80)]], dtype=np.float32)
    attrs = {"dims": (1,), "keepdim": 0}
    up, none = 1 + 2.0**-23, np.zeros(0, dtype=np.int64)

    def judged(log: Log | None) -> float:
        return float(truth("sum", [t], attrs, log, Rounding())[0][0])

    def wide(value: float) -> Log:
        return Log(1, none, np.zeros(0, dtype=np.bool_), np.array([0]), np.array([value]))

    assert judged(None) == 1.0, "a tie goes to the even neighbour"
    assert judged(Log(1, np.array([0]), np.array([True]), none, np.zeros(0))) == up
    assert judged(Log(1, np.array([0]), np.array([False]), none, np.zeros(0))) == 1.0
    assert judged(wide(up)) == up
    for far in (1 + 2.0**-22, 1 - 2.0**-24, -1.0, 0.0, np.inf, np.nan):
        assert judged(wide(far)) == 1.0


def test_operators_without_a_log_ignore_it() -> None:
    rng = np.random.default_rng(3)
    x, y = (rng.standard_normal(50).astype(np.float32) for _ in "xy")
    junk = log_of(50, dict.fromkeys(range(25), True), dict.fromkeys(range(25, 50), 2.0))
    for b in (26, 32):
        rounding = Rounding(b)
        for name, operation in (
            ("add", np.add),
            ("sub", np.subtract),
            ("mul", np.multiply),
            ("div", np.divide),
        ):
            assert not has_log(name, [x, y], {}, b)
            want = rnd(operation(x.astype(np.float64), y.astype(np.float64)), b)
            assert same_bits(truth(name, [x, y], {}, junk, rounding)[0], want)
        assert np.array_equal(truth("neg", [x], {}, junk, rounding)[0], -x), (
            "moved values are not rounded again"
        )
        assert np.array_equal(truth("maximum", [x, y], {}, junk, rounding)[0], np.maximum(x, y))
        integers = np.arange(6).reshape(2, 3)
        assert truth("sum", [integers], {"dims": (1,), "keepdim": 0}, junk, rounding)[0].tolist() == [3, 12]
    assert np.signbit(
        truth("mul", [np.array([-0.0], np.float32), np.array([1.0], np.float32)], {}, None, Rounding(26))[0]
    )


def test_single_operations_at_32_bits_are_those_of_binary32() -> None:
    """Rounding twice, from 53 bits to 24, is innocuous for one operation (Figueroa 1995)."""
    rng = np.random.default_rng(4)
    x, y = (rng.integers(0, 2**32, 200_000, dtype=np.uint32).view(np.float32) for _ in "xy")
    with np.errstate(all="ignore"):
        for name, operation in (
            ("add", np.add),
            ("sub", np.subtract),
            ("mul", np.multiply),
            ("div", np.divide),
        ):
            assert same_bits(truth(name, [x, y], {}, None, Rounding())[0], operation(x, y)), name
        assert same_bits(truth("sqrt", [x], {}, None, Rounding())[0], np.sqrt(x))


def test_a_cast_of_large_integers_is_rounded_twice_by_definition() -> None:
    n = np.array([2**60 + 2**36 + 1, 2**60 + 3 * 2**36 - 1, -5, 2**24 + 1])
    (got,) = truth("cast", [n], {"dtype": 1}, None, Rounding())
    assert got.tolist() == n.astype(np.float64).astype(np.float32).tolist()
    assert got[0] != np.float32(2**60 + 2**37), "the crumb above the midpoint is lost in binary64"
