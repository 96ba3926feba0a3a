"""Thresholds found by comparing evaluators: what they cover, and the logs written with them."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assay_lab.evaluators import VARIATIONS
from referee_py.errors import InvalidEncoding, InvalidInput
from referee_py.rounding import NOT_LOGGED, Bounds, Evaluation, Form, Radius, Rounding, log, rnd, threshold
from referee_py.rounding.backend import OnForged, Rounded
from referee_py.rounding.band import NARROW
from referee_py.rounding.log_source import MemoryLogs
from referee_py.rounding.primitives import FIXED_TAU, quantum
from referee_py.rounding.thresholds import fixed
from tests.referee_py.rounding.operators import ambiguous, cases, of_terms
from trainer_node.rounded.calibration import MAX_BYTES, Calibration, Threshold
from trainer_node.rounded.divergence import Compared, Fetched, Tally
from trainer_node.rounded.evaluators import evaluator_of

from .orders import both
from .places import PLACES, device_of

TERMS = 512


def products(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return matrices with a product of 16,000 elements, some of 160 of them rounded differently by the two orders."""
    rng = np.random.default_rng(seed)
    a = rng.standard_normal((2000, TERMS)).astype(np.float32)
    a[::100] = ambiguous(rng, 20, TERMS, 32)
    return a, np.repeat(2.0 ** np.arange(-4, 4, dtype=np.float32)[None], TERMS, axis=0)


class TestATally:
    @pytest.mark.parametrize("bits", [26, 32])
    def test_its_threshold_covers_every_divergence(self, bits: int) -> None:
        """Each evaluator as trainer logs every element that any other rounds differently, in every operator."""
        evaluators = (*both(), *map(evaluator_of, ("numpy", "halves", "permuted", "blocked")))
        apart = 0
        for case in of_terms(ambiguous(np.random.default_rng(bits), 400, 40, bits)):
            operator = case.name, case.inputs, case.attrs
            found: list[Any] = [e.evaluate(*operator, Bounds(k > 0)) for k, e in enumerate(evaluators)]
            tally = Tally(case.name, 40, bits)
            tally.look(found)
            met = next((e.rows for e in found if e.rows is not None), slice(None))
            values = [(e.x if e.rows is not None else e.x[met]).reshape(-1) for e in found]
            radius = found[0].radius.array(found[0].x.shape)[met].reshape(-1)
            directed = radius < NARROW * quantum(values[0], bits)
            different = [
                (y1, y2, directed & (rnd(y1, bits) != rnd(y2, bits))) for y1, y2 in combinations(values, 2)
            ]
            for y1, y2, where in different:
                for y in (y1, y2):
                    assert (log(y, bits, tally.tau)[where] != NOT_LOGGED).all(), case
            assert tally.tau == min(threshold(y1[k], y2[k], bits) for y1, y2, k in different)
            assert tally.apart == np.any([k for _, _, k in different], axis=0).sum()
            assert tally.elements == values[0].size
            apart += tally.apart
        assert apart > 100

    @pytest.mark.parametrize("place", PLACES)
    def test_a_device_is_compared_as_any_other(self, place: str) -> None:
        """Every operator, with rows that are left out and non-finite operands; either evaluator may be first."""
        from trainer_node.rounded.device import TensorEvaluator

        fetched = Fetched("there", TensorEvaluator(device_of(place), place))
        met = 0
        for case in cases(np.random.default_rng(5), 26):
            operator = case.name, case.inputs, case.attrs
            orders: tuple[tuple[Any, ...], ...] = ((fetched, *both()), (*both(), fetched))
            for sides in orders:
                tally = Tally(case.name, 1 << 20, 26)
                tally.look([side.evaluate(*operator, Bounds(k > 0)) for k, side in enumerate(sides)])
                met += tally.of_proven > 0
        assert met > 40, "forwards and backwards"

    def test_shares_are_those_of_the_algorithms(self) -> None:
        a, b = products(1)
        found = [e.evaluate("mm", [a, b], {}, Bounds(k)) for k, e in enumerate(both())]
        tally = Tally("mm", TERMS, 32)
        tally.look(found)
        assert tally.at_fixed == (log(found[0].x, 32, FIXED_TAU) != NOT_LOGGED).sum()
        for tau in (tally.tau, 1.5 * FIXED_TAU, 1.99 * FIXED_TAU):
            tally.tau = tau
            want = (log(found[0].x, 32, tau) != NOT_LOGGED).sum()
            assert abs(tally.at_tau - want) <= 3 + 0.05 * want
        assert tally.in_probable < tally.in_proven
        assert 0 < tally.of_proven < tally.of_probable < 2
        apart = np.abs(found[0].x - found[1].x)
        assert tally.of_proven == (apart / found[0].radius.array(apart.shape)).max()

    def test_what_no_order_gives_is_told_of(self) -> None:
        x = np.array([1.0, 2.0])
        sides = [Evaluation(y, Radius((np.full(2, 2.0**-45),))) for y in (x, x * (1 + 2.0**-42))]
        with pytest.raises(
            InvalidInput, match=r"mm of 7 terms.*leave out the one that does not add in binary64"
        ):
            Tally("mm", 7, 32).look(sides)

    def test_values_that_are_not_finite_say_nothing(self) -> None:
        x = np.array([np.inf, np.nan, 1.0, -np.inf])
        tally = Tally("sum", 3, 32)
        tally.look([Evaluation(x, Radius((np.array([np.inf, np.inf, 1e-15, 0.0]),)))] * 2)
        assert (tally.elements, tally.apart, tally.quanta, int(tally.cells.sum())) == (4, 0, 0.0, 1)


def calibrated(seed: int) -> Calibration:
    """Calibrate on one product, on its sum, and on a scatter_add of its rows."""
    compared = Compared(32, both())
    execute(compared, seed)
    return compared.calibration(bytes(32), 1)


def execute(backend: Rounded, seed: int) -> list[np.ndarray]:
    a, b = products(seed)
    backend.begin(1)
    (product,) = backend.execute(0, "mm", [a, b], {})
    index = np.arange(2000) % 7
    (added,) = backend.execute(1, "scatter_add", [np.zeros((9, 8), np.float32), index, product], {})
    (total,) = backend.execute(2, "sum", [product], {"dims": (0,), "keepdim": 0})
    backend.end()
    return [product, added, total]


def test_a_run_has_the_values_of_its_first_evaluator() -> None:
    log_source = MemoryLogs()
    compared = Compared(32, [evaluator_of(name) for name in ("blocked", "numpy", "torch")])
    want = execute(Rounded(Rounding(32), log_source, evaluator_of("blocked")), 3)
    for ours, theirs in zip(execute(compared, 3), want, strict=True):
        assert np.array_equal(ours, theirs)
    assert [(t.operator, t.terms) for t in compared.tallies] == [
        ("mm", 512),
        ("scatter_add", 2001),
        ("sum", 2000),
    ]


def test_one_evaluator_has_nothing_to_be_compared_with() -> None:
    with pytest.raises(InvalidInput, match="one evaluator, numpy"):
        Compared(32, [evaluator_of("numpy")])


def told_of(ignored: list[tuple[int, int, int]]) -> OnForged:
    return lambda *at: ignored.append(at)


@pytest.mark.parametrize("follower", VARIATIONS)
def test_a_calibrated_trainer_is_followed_to_its_values(follower: str) -> None:
    """Its dense logs are a fraction of those with the fixed threshold, and work as well."""
    calibration, rounding = calibrated(1), Rounding(32, form=Form.DENSE)
    assert {t.operator for t in calibration.thresholds} == {"mm", "scatter_add", "sum"}
    for trainer in both():
        written: dict[str, int] = {}
        for name, thresholds in (("fixed", fixed), ("calibrated", calibration.tau)):
            log_source, ignored = MemoryLogs(), list[tuple[int, int, int]]()
            want = execute(Rounded(rounding, log_source, trainer, thresholds=thresholds), 2)
            auditor = Rounded(rounding, log_source, evaluator_of(follower), told_of(ignored))
            for ours, theirs in zip(execute(auditor, 2), want, strict=True):
                assert np.array_equal(ours, theirs)
            assert not ignored
            log = log_source.get(1)
            assert log is not None
            written[name] = len(log.encode())
        assert written["calibrated"] < written["fixed"] / 10


@pytest.mark.parametrize("follower", VARIATIONS)
def test_whatever_adds_otherwise_is_corrected(follower: str) -> None:
    """NOTE: a library may add as one of the trainers does; then its log corrects nothing. It cannot add as both."""
    corrections, products_ = 0, []
    for trainer in both():
        log_source = MemoryLogs()
        products_.append(execute(Rounded(Rounding(32), log_source, trainer), 2)[0])
        auditor = Rounded(Rounding(32), log_source, evaluator_of(follower))
        execute(auditor, 2)
        corrections += auditor.corrections
    apart = int((products_[0] != products_[1]).sum())
    assert corrections >= apart > 10


def test_what_was_not_compared_has_the_fixed_threshold() -> None:
    calibration = calibrated(1)
    tau = calibration.tau(32, "mm", TERMS)
    assert tau > 1.9 * FIXED_TAU
    for other in ((32, "mm", TERMS + 1), (32, "bmm", TERMS), (31, "mm", TERMS)):
        assert calibration.tau(*other) == FIXED_TAU


ENTRY = {"operator": "mm", "terms": 768, "elements": 10, "tau": 5.5e-8}
GOOD: dict[str, Any] = {
    "format": 1,
    "bits": 32,
    "program": "ab" * 32,
    "steps": 3,
    "evaluators": ["torch", "numpy"],
    "thresholds": [ENTRY],
}


class TestTheFile:
    def test_is_read_as_it_was_written(self, tmp_path: Path) -> None:
        calibration = calibrated(1)
        calibration.write(tmp_path / "new" / "c.json")
        assert Calibration.read(tmp_path / "new" / "c.json") == calibration
        assert [file.name for file in (tmp_path / "new").iterdir()] == ["c.json"]

    def test_the_example_is_one(self, tmp_path: Path) -> None:
        (tmp_path / "c.json").write_text(json.dumps(GOOD))
        assert Calibration.read(tmp_path / "c.json").thresholds == [
            Threshold(operator="mm", terms=768, elements=10, tau=5.5e-8)
        ]

    @pytest.mark.parametrize(
        ("change", "why"),
        [
            ({"format": 2}, "format"),
            ({"bits": 25}, "bits"),
            ({"bits": "32"}, "bits"),
            ({"steps": 0}, "steps"),
            ({"program": "ab"}, "program"),
            ({"evaluators": ["torch"]}, "evaluators"),
            ({"evaluators": ["torch", "\x1b[2J"]}, "evaluators"),
            ({"more": 1}, "more"),
            ({"thresholds": [ENTRY] * 2}, "two thresholds"),
            ({"thresholds": [{**ENTRY, "terms": k} for k in range(4097)]}, "thresholds"),
            *(
                ({"thresholds": [{**ENTRY, **wrong}]}, "thresholds|tau")
                for wrong in (
                    {"tau": 6e-8},
                    {"tau": FIXED_TAU / 2},
                    {"tau": -5.5e-8},
                    {"tau": True},
                    {"tau": "5.5e-8"},
                    {"tau": None},
                    {"terms": -1},
                    {"terms": 1 << 40},
                    {"operator": "add"},
                    {"operator": "x" * 100_000},
                    {"path": "/etc/passwd"},
                )
            ),
        ],
    )
    def test_another_content_is_refused(self, change: dict[str, Any], why: str, tmp_path: Path) -> None:
        (tmp_path / "c.json").write_text(json.dumps({**GOOD, **change}))
        with pytest.raises(
            InvalidEncoding, match=f"is not a calibration: .*({why}).*; see `assay calibrate --help`"
        ) as told:
            Calibration.read(tmp_path / "c.json")
        assert len(str(told.value)) < 600

    @pytest.mark.parametrize(
        "data",
        [
            b"",
            b"[]",
            b"null",
            b"{",
            b"[" * 100_000,
            b"\xff\xfe",
            json.dumps(GOOD).replace("5.5e-08", "NaN").encode(),
            json.dumps(GOOD).replace("5.5e-08", "Infinity").encode(),
            json.dumps(GOOD).replace("5.5e-08", "1e-9999").encode(),
            json.dumps(GOOD).encode() + b" " * MAX_BYTES,
        ],
    )
    def test_bytes_that_are_none_are_refused(self, data: bytes, tmp_path: Path) -> None:
        (tmp_path / "c.json").write_bytes(data)
        with pytest.raises(InvalidEncoding, match="is not a calibration"):
            Calibration.read(tmp_path / "c.json")
