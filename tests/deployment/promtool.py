"""Alert rules and dashboard, played by Prometheus' own promtool on series as they are after a scrape.

    tests/deployment/alerts.yaml     what makes each rule fire, and what keeps it silent
    deploy/monitoring/               the rules, the dashboard

`python -m tests.deployment.promtool` prints what promtool says of each rule; `make alerts` does. promtool is part of
Debian's package `prometheus`; no package of Python or npm has it.
"""

from __future__ import annotations

import functools
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from trainer_node.observe.metrics import Row

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy" / "monitoring"
RULES = FOLDER / "alerts.yml"
CASES = Path(__file__).with_name("alerts.yaml")
MISSING = "promtool is not installed; on Debian or Ubuntu: apt install prometheus"
NOT_EXPORTED = "-"
_SERIES = re.compile(r"(\w+)(?:\{(.*)\})?")
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_IN_TEXT = re.compile(r"\{\{\s*(?:\$labels\.(\w+)|(\$value)[^}]*)\s*\}\}")


@dataclass(frozen=True, slots=True)
class Target:
    """What a scrape adds to all series of one process."""

    job: str
    instance: str


NODES = Target("assay-trainer", "a:7000"), Target("assay-challenger", "b:7000")
MONITORS = Target("assay-monitor", "a:9101"), Target("assay-monitor", "b:9101")


@dataclass(frozen=True, slots=True)
class Case:
    """A row of the table (tests/deployment/alerts.yaml). ``at``, ``before``: minutes."""

    rule: str
    of: str
    fires: dict[str, str]
    silent: dict[str, str]
    at: int
    before: int
    labels: dict[str, str] = field(default_factory=dict)
    value: str = ""
    no_target: bool = False

    @property
    def targets(self) -> tuple[Target, Target]:
        return MONITORS if self.of == "monitor" else NODES


def parsed(series: str) -> tuple[str, dict[str, str]]:
    """Return name and labels of `name{label="value",...}`."""
    found = _SERIES.fullmatch(series)
    assert found, series
    return found[1], dict(_LABEL.findall(found[2] or ""))


def scraped(series: str, target: Target) -> str:
    """Return a series as Prometheus keeps it: labels of the target win, and ours of the same name are renamed."""
    name, labels = parsed(series)
    added = {"job": target.job, "instance": target.instance}
    kept = {f"exported_{label}" if label in added else label: value for label, value in labels.items()}
    told = ",".join(f'{label}="{value}"' for label, value in {**kept, **added}.items())
    return f"{name}{{{told}}}"


@functools.cache
def rules() -> dict[str, dict[str, Any]]:
    """Return the rules by name."""
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


@functools.cache
def _table() -> dict[str, Any]:
    # NOTE: all scalars stay text, or 0x30 would be a number.
    found: dict[str, Any] = yaml.load(CASES.read_text(), Loader=yaml.BaseLoader)
    return found


def healthy(of: str) -> dict[str, str]:
    """Return the series of a well process: `node` or `monitor`."""
    return dict(_table()["healthy"][of])


def cases() -> list[Case]:
    """Return the rows of the table."""
    found = []
    for rule, row in _table()["rules"].items():
        row = dict(row)
        found.append(
            Case(
                rule,
                row.pop("of", "node"),
                dict(row.pop("fires")),
                dict(row.pop("silent")),
                int(row.pop("at")),
                int(row.pop("before")),
                dict(row.pop("labels", {})),
                row.pop("value", ""),
                row.pop("no_target", "") == "true",
            )
        )
        assert not row, f"{rule}: unknown {sorted(row)}"
    return found


# ---------------------------------------------------------------------- promtool


def installed() -> bool:
    return shutil.which("promtool") is not None


def check_config(path: Path) -> str:
    """Let promtool check a configuration of Prometheus with its rules; return what it finds wrong, or nothing."""
    done = subprocess.run(["promtool", "check", "config", path], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def play(test: Mapping[str, Any]) -> str:
    """Let promtool play one test of rules; return what it finds wrong, or nothing."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "test.yml"
        told = {
            "rule_files": [str(RULES)],
            "evaluation_interval": "1m",
            "tests": [{"interval": "1m", **test}],
        }
        path.write_text(yaml.safe_dump(told))
        done = subprocess.run(
            ["promtool", "test", "rules", path], capture_output=True, text=True, check=False
        )
    return "" if done.returncode == 0 else done.stdout + done.stderr


def input_of(targets: Mapping[Target, Mapping[str, str]]) -> list[dict[str, str]]:
    """Return the input series of some targets."""
    return [
        {"series": scraped(series, target), "values": values}
        for target, found in targets.items()
        for series, values in found.items()
        if values != NOT_EXPORTED
    ]


def fired(case: Case) -> str:
    """Play a rule on a target that makes it fire beside one that does not; return what is wrong."""
    ill, well = case.targets
    base = healthy(case.of)
    targets = {ill: {**base, **case.fires}, well: {**base, **(case.fires if case.no_target else case.silent)}}
    expected = [{"exp_labels": _labels(case, ill), "exp_annotations": _texts(case, ill)}]
    tests = [
        {"eval_time": f"{at}m", "alertname": case.rule, "exp_alerts": alerts}
        for at, alerts in ((case.before, []), (case.at, expected))
    ]
    return play({"input_series": input_of(targets), "alert_rule_test": tests})


def silent(case: Case) -> str:
    """Play a rule on two targets that keep it silent, one of them merely well; return what is wrong."""
    one, other = case.targets
    targets = {one: {**healthy(case.of), **case.silent}, other: healthy(case.of)}
    instants = sorted({5, case.before, case.at, case.at + 5})
    tests = [{"eval_time": f"{at}m", "alertname": case.rule, "exp_alerts": []} for at in instants]
    return play({"input_series": input_of(targets), "alert_rule_test": tests})


def _labels(case: Case, target: Target) -> dict[str, str]:
    where = {} if case.no_target else {"job": target.job, "instance": target.instance}
    return {**rules()[case.rule]["labels"], **where, **case.labels}


def _texts(case: Case, target: Target) -> dict[str, str]:
    """Return the texts of the alert. Raises KeyError for a label that the alert does not have."""
    labels = _labels(case, target)

    def shown(found: re.Match[str]) -> str:
        if found[2]:
            assert case.value, f"{case.rule} shows a value: the table has to name it"
            return case.value
        return labels[found[1]]

    annotations: dict[str, str] = rules()[case.rule]["annotations"]
    return {name: _IN_TEXT.sub(shown, text) for name, text in annotations.items()}


# ---------------------------------------------------------------------- the dashboard


@dataclass(frozen=True, slots=True)
class Query:
    """A query of the dashboard, with what it shows of the labels."""

    panel: str
    expression: str
    legend: str

    @property
    def shown(self) -> list[str]:
        """The labels in its legend."""
        return re.findall(r"\{\{(\w+)\}\}", self.legend)


def queries() -> Iterator[Query]:
    """Yield the queries of all panels, with every node chosen."""
    for panel in json.loads((FOLDER / "dashboard.json").read_text())["panels"]:
        for target in panel.get("targets", ()):
            expression = target["expr"].replace("$node", ".+")
            yield Query(panel["title"], expression, target["legendFormat"])


def shown(query: Query, rows: Mapping[str, Row]) -> str:
    """Play a query on two targets, each with two series of every metric in it; return what is wrong.

    It must give a line for each series, and not 0: what rises rises, what is a gauge is 3 (or 0 where it is taken from
    1). And the labels that the legend shows must differ between any two lines.
    """
    names = list(dict.fromkeys(re.findall(r"\b(?:assay|process)_\w+", query.expression)))
    targets: dict[Target, dict[str, str]] = {target: {} for target in NODES}
    lines = 0
    for name in names:
        labels = rows[name].labels if name in rows else ()
        made = [",".join(f'{label}="{label}-{k}"' for label in labels) for k in range(2 if labels else 1)]
        lines = len(targets) * len(made)
        value = "0+60x60" if name.endswith("_total") else "0x60" if "1 - " in query.expression else "9999x60"
        for target in targets:
            targets[target] |= {f"{name}{{{one}}}" if one else name: value for one in made}
    told = f"count(({query.expression}) != 0)"
    apart = f"count(count by ({','.join(query.shown)}) ({query.expression}))"
    tests = [
        {"expr": expression, "eval_time": "30m", "exp_samples": [{"labels": "{}", "value": lines}]}
        for expression in (told, apart)
    ]
    return play({"input_series": input_of(targets), "promql_expr_test": tests})


def main() -> int:
    """Print what promtool says of each rule. Return 1 if one does not do what the table says, or has no row."""
    if not installed():
        print(MISSING, file=sys.stderr)
        return 2
    bad = set(rules()) ^ {case.rule for case in cases()}
    for name in sorted(bad):
        print(f"{name}: not in both of {RULES.name} and {CASES.name}")
    print(f"{'rule':24} {'of':8} {'severity':9} {'for':5} {'fires':9} silent")
    for case in cases():
        wrong = fired(case), silent(case)
        words = f"at {case.at} m", "yes"
        told = ["WRONG" if found else word for found, word in zip(wrong, words, strict=True)]
        rule = rules()[case.rule]
        columns = f"{case.of:8} {rule['labels']['severity']:9} {rule.get('for', '-'):5} {told[0]:9} {told[1]}"
        print(f"{case.rule:24} {columns}")
        for found in filter(None, wrong):
            bad.add(case.rule)
            print(found)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
