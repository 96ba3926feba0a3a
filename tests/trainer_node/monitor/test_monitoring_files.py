"""The alert rules, the dashboard and the guide name the metrics and labels that a node exports, and no others."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import generate_latest

from trainer_node.monitor.gauges import TABLE as OF_MONITOR
from trainer_node.observe.metrics import TABLE, Metrics

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "deploy" / "monitoring"
NODE = {row.exported: row for row in TABLE}
ROWS = NODE | {row.exported: row for row in OF_MONITOR}
_METRIC = re.compile(r"\b(assay_\w+)(?:\{([^}]*)\})?")
_LABEL = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")
_SHOWN = re.compile(r"\{\{\s*\$?(?:labels\.)?(\w+)\s*\}\}")
ADDED = {"instance", "job"}
"""Labels that Prometheus itself adds to everything that it scrapes."""


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    board = json.loads((FOLDER / "dashboard.json").read_text())
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def expressions() -> Iterator[tuple[str, str, str]]:
    """Yield where an expression stands, the expression, and the text that shows its labels."""
    for rule in rules():
        told = " ".join(rule["annotations"].values())
        yield rule["alert"], rule["expr"], told
    for panel in panels():
        for target in panel["targets"]:
            yield panel["title"], target["expr"], target["legendFormat"]


def test_every_name_and_label_is_one_that_a_node_exports() -> None:
    for where, expression, shown in expressions():
        found = _METRIC.findall(expression)
        assert found or "process_" in expression, f"{where}: {expression} is about no metric"
        labels = set(ADDED)
        for name, matchers in found:
            assert name in ROWS, f"{where}: {name} is not a metric of a node"
            labels |= set(ROWS[name].labels)
            assert set(_LABEL.findall(matchers)) <= ADDED | set(ROWS[name].labels), f"{where}: {matchers}"
        assert set(_SHOWN.findall(shown)) - {"value"} <= labels, f"{where}: {shown}"


def test_the_dashboard_shows_every_metric() -> None:
    shown = {name for panel in panels() for t in panel["targets"] for name, _ in _METRIC.findall(t["expr"])}
    assert shown == set(ROWS)
    numbers = [panel["id"] for panel in panels()]
    assert len(set(numbers)) == len(numbers)


def test_rules_are_complete_and_their_names_distinct() -> None:
    names = [rule["alert"] for rule in rules()]
    assert len(set(names)) == len(names)
    for rule in rules():
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert set(rule["annotations"]) == {"summary", "description"}


def test_what_prometheus_sees_is_what_the_table_says() -> None:
    metrics = Metrics()
    for row in TABLE:
        labels = ["x"] * len(row.labels)
        if row.exported.endswith("_total"):
            metrics.add(row.name, *labels)
        else:
            metrics.set(row.name, 1, *labels)
    text = generate_latest(metrics.registry).decode()
    samples = {line.partition("{")[0].partition(" ")[0] for line in text.splitlines() if line[:1] != "#"}
    seen = {name for name in samples if not name.endswith("_created") and not name.startswith("process_")}
    assert seen == set(NODE)


def test_the_guide_has_a_row_for_each_metric() -> None:
    guide = (ROOT / "docs" / "operating.md").read_text()
    # NOTE: those of `assay monitor` are not a node's; they have a table of their own.
    told = re.findall(r"^\| `(assay_(?!monitor_)\w+)(?:\{([^}]*)\})?` \|", guide, re.MULTILINE)
    assert {name: {label.strip() for label in labels.split(",") if label} for name, labels in told} == {
        name: set(row.labels) for name, row in NODE.items()
    }


@pytest.mark.parametrize("path", sorted(FOLDER.iterdir()), ids=lambda path: path.name)
def test_the_files_name_no_address(path: Path) -> None:
    assert not re.search(r"https?://", path.read_text())


def test_the_guide_names_every_metric_of_the_monitor() -> None:
    guide = (ROOT / "docs" / "operating.md").read_text()
    section = guide[guide.index("## 15. Monitoring a deployment") :]
    assert set(re.findall(r"`(assay_monitor_\w+)", section)) == set(ROWS) - set(NODE)
