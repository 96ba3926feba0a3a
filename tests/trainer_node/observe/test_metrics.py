"""Metrics: values, bounded series whatever labels other parties choose."""

from __future__ import annotations

import pytest
from prometheus_client import generate_latest

from trainer_node.observe.metrics import MAX_SERIES, TABLE, Metrics, Type


def test_counters_and_gauges_are_exported_under_their_names() -> None:
    metrics = Metrics()
    metrics.add("ticks", "ok")
    metrics.add("ticks", "ok", by=2)
    metrics.set("balance_ether", 1.5)
    text = generate_latest(metrics.registry).decode()
    assert 'assay_ticks_total{result="ok"} 3.0' in text
    assert "assay_balance_ether 1.5" in text
    assert metrics.value("ticks", "ok") == 3
    assert metrics.value("ticks", "bug") == 0


def test_names_are_unique_and_documented() -> None:
    names = [row.exported for row in TABLE]
    assert len(set(names)) == len(names)
    for row in TABLE:
        assert row.text
        assert not row.name.endswith("_total")
        assert row.type is Type.COUNTER or "timestamp" not in row.name or row.name.endswith("_seconds")


def test_a_name_without_a_row_is_an_error() -> None:
    with pytest.raises(KeyError):
        Metrics().add("surprises")


def test_the_series_of_hostile_peers_are_bounded_and_the_oldest_give_way() -> None:
    metrics = Metrics()
    for number in range(10 * MAX_SERIES):
        metrics.add("fetch_failures", f"host-{number}:80")
        metrics.add("fetch_failures", "host-0:80")
    shown = [
        line
        for line in generate_latest(metrics.registry).decode().splitlines()
        if line.startswith("assay_fetch_failures_total{")
    ]
    assert len(shown) == MAX_SERIES
    assert metrics.value("fetch_failures", "host-0:80") == 10 * MAX_SERIES + 1, "it was changed last"
    assert metrics.value("fetch_failures", "host-1:80") == 0


def test_dropped_series_are_no_longer_shown() -> None:
    metrics = Metrics()
    for side in ("own", "opponent"):
        metrics.set("clock_seconds_left", 5, "1", "0x1", side)
        metrics.set("clock_seconds_left", 5, "12", "0x1", side)
    metrics.drop("clock_seconds_left", "1")
    text = generate_latest(metrics.registry).decode()
    assert 'assay_job="12"' in text
    assert 'assay_job="1"' not in text
    metrics.drop("clock_seconds_left")
    assert 'assay_job="12"' not in generate_latest(metrics.registry).decode()
