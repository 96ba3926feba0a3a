"""Rates and times left, the health of metrics, and the file of metrics."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from referee_py.errors import InvalidInput
from trainer_node.local.metric_warnings import GROWTH, SPAN, Health
from trainer_node.local.metrics_file import MetricsFile
from trainer_node.observe.pace import WINDOW_S, Pace, left_words, rate_words


def test_the_rate_is_that_of_the_last_while() -> None:
    pace = Pace(100, 1000, 50.0)
    assert (pace.rate, pace.left_s) == (None, None)
    pace.note(101, 50.0)
    assert pace.rate is None, "no time has passed"
    for second in range(1, 101):
        pace.note(100 + second, 50.0 + second)
    assert pace.rate == 1
    assert pace.left_s == 800
    for second in range(1, int(WINDOW_S) + 2):
        pace.note(200 + 10 * second, 150.0 + second)
    assert pace.rate == pytest.approx(10, rel=0.1), "earlier steps do not count"


def test_many_short_steps_take_little_memory() -> None:
    pace = Pace(0, 10**6, 0.0)
    for step in range(1, 100_001):
        pace.note(step, step / 1000)
    assert pace.rate == pytest.approx(1000)
    assert len(pace._samples) < 100


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, "- left"),
        (0.4, "0 s left"),
        (59.7, "1 min 0 s left"),
        (200, "3 min 20 s left"),
        (5 * 3600 + 7 * 60, "5 h 7 min left"),
        (4 * 86400 + 3 * 3600 + 59, "4 d 3 h left"),
    ],
)
def test_time_left_in_words(seconds: float | None, words: str) -> None:
    assert left_words(seconds) == words


def test_rates_in_words() -> None:
    assert [rate_words(r) for r in (None, 0.0123, 45.67, 12345.6)] == [
        "- steps/s",
        "0.0123 steps/s",
        "45.7 steps/s",
        "12,346 steps/s",
    ]


def test_each_metric_that_is_not_finite_is_reported_once() -> None:
    health = Health()
    assert health.see(1, {"loss": 1.0, "norm": 2.0}) == []
    assert health.see(2, {"loss": math.nan, "norm": 2.0}) == ["loss is nan in step 2"]
    assert health.see(3, {"loss": math.nan, "norm": -math.inf}) == ["norm is -inf in step 3"]
    assert health.broken == "loss is nan in step 2"


def test_a_loss_that_grows_is_reported_once() -> None:
    def warnings(losses: list[float]) -> list[str]:
        health = Health()
        return [words for step, loss in enumerate(losses, 1) for words in health.see(step, {"loss": loss})]

    began = [2.0] * SPAN
    assert warnings(began + [2.0 / step for step in range(1, 500)]) == []
    assert warnings([*began, 100.0, *[1.0] * 100]) == [], "a single step says little"
    assert len(warnings(began + [2.1 * GROWTH * 2.0] * 3 * SPAN)) == 1
    assert warnings([-1.0] * SPAN + [5.0] * SPAN) == [], "nothing is known of a loss below zero"


@pytest.mark.parametrize(
    "rest", [b"", b'{"step": 4', b"[]\n", b'{"step": 3, "seconds": 1}\n', b"\0" * 100, b"[" * 99_999 + b"\n"]
)
def test_lines_after_a_step_or_without_sense_are_cut(tmp_path: Path, rest: bytes) -> None:
    path = tmp_path / "metrics.jsonl"
    for step in (1, 2, 3):
        file = MetricsFile(path)
        file.append(step, step / 2, {"loss": [math.nan, math.inf, -math.inf][step - 1]})
        file.close()
    with path.open("ab") as raw:
        raw.write(rest)
    file, seen = MetricsFile(path), list[int]()
    assert file.cut(3, lambda step, _: seen.append(step)) == (3, 1.5)
    assert seen == [1, 2, 3]
    assert file.cut(2) == (2, 1.0)
    file.append(3, 9, {})
    assert path.read_text().splitlines() == [
        '{"step": 1, "seconds": 0.5, "loss": "NaN"}',
        '{"step": 2, "seconds": 1.0, "loss": "Infinity"}',
        '{"step": 3, "seconds": 9}',
    ]
    with pytest.raises(InvalidInput, match="seconds"):
        file.append(4, 1, {"seconds": 1.0})
    file.close()


def test_a_line_with_an_endless_step_is_torn(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "seconds": 0.5}\n{"step": 1e400, "seconds": 1}\n')
    assert MetricsFile(tmp_path / "metrics.jsonl").cut(5) == (1, 0.5)
