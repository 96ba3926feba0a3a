"""Every alert fires for the one target of two that is ill, and for no other; the dashboard tells both apart."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.conftest import Anvil
from tests.deployment import promtool
from tests.deployment.promtool import Case, Target, cases, parsed, rules, scraped
from tests.trainer_node.daemon.test_service import Idle, deploy_on
from trainer_node.daemon.keys import create_key
from trainer_node.daemon.loop import Loop
from trainer_node.daemon.service import Service, open_daemon
from trainer_node.monitor.gauges import TABLE as OF_MONITOR
from trainer_node.observe.metrics import TABLE, Metrics
from trainer_node.settings.settings import Settings, load_settings

ROWS = {row.exported: row for row in (*TABLE, *OF_MONITOR)}
OF_OTHERS = {"up", "process_start_time_seconds", "process_open_fds", "process_max_fds"}
"""Series of the scrape itself, and of the system."""
by_rule = pytest.mark.parametrize("case", cases(), ids=lambda case: case.rule)
needs_promtool = pytest.mark.skipif(not promtool.installed(), reason=promtool.MISSING)


def test_every_rule_has_what_makes_it_fire_and_what_keeps_it_silent() -> None:
    table = {case.rule: case for case in cases()}
    assert set(table) == set(rules())
    for case in table.values():
        assert case.fires, case.rule
        assert case.silent or case.no_target, case.rule
        assert case.fires != case.silent, case.rule


@by_rule
def test_the_table_has_series_that_are_exported(case: Case) -> None:
    for series in {**promtool.healthy(case.of), **case.fires, **case.silent}:
        name, labels = parsed(series)
        if name in OF_OTHERS:
            assert not labels
            continue
        assert set(labels) == set(ROWS[name].labels), series
        assert set(labels) & {"job", "instance"} == set(), "a scrape renames these"
        if ROWS[name].known:
            assert set(labels.values()) <= set(ROWS[name].known), series


@needs_promtool
@by_rule
def test_a_rule_fires_for_the_target_that_is_ill_alone(case: Case) -> None:
    assert promtool.fired(case) == ""


@needs_promtool
@by_rule
def test_a_rule_is_silent_for_targets_that_are_well(case: Case) -> None:
    assert promtool.silent(case) == ""


@needs_promtool
def test_the_player_notices_a_rule_that_does_not_fire() -> None:
    case = next(case for case in cases() if case.rule == "AssayBug")
    quiet = Case(**{name: getattr(case, name) for name in Case.__slots__} | {"fires": case.silent})
    assert "AssayBug" in promtool.fired(quiet)
    loud = Case(**{name: getattr(case, name) for name in Case.__slots__} | {"silent": case.fires})
    assert "AssayBug" in promtool.silent(loud)


def test_a_scrape_renames_our_job() -> None:
    told = scraped('assay_steps{job="7"}', Target("assay", "a:1"))
    assert told == 'assay_steps{exported_job="7",job="assay",instance="a:1"}'


# ---------------------------------------------------------------------- what a node really exports


@pytest.fixture
def settings(anvil: Anvil, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.chdir(tmp_path)
    deploy_on(anvil.url, anvil.keys[0], tmp_path / "deployments" / "31337.json")
    create_key(tmp_path / ".assay" / "key.json", "secret", key=anvil.keys[1], work_factor=16)
    monkeypatch.setenv("ASSAY_PASSWORD", "secret")
    return load_settings(rpc_url=anvil.url, poll_s=0.02, log_level="error")


def exported(text: str) -> Iterator[tuple[str, float]]:
    """Yield the series of an exporter and their values."""
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if not sample.name.endswith("_created"):
                labels = ",".join(f'{name}="{value}"' for name, value in sample.labels.items())
                yield f"{sample.name}{{{labels}}}" if labels else sample.name, sample.value


@pytest.fixture
def fresh(settings: Settings) -> dict[str, float]:
    """The series of a daemon with a key after its first round, as a scrape reads them."""
    with open_daemon(settings, "test") as node:
        Service(node, Loop(node, Idle()).tick).round()
        return dict(exported(httpx.get(node.server.uri + "/metrics").text))


def test_a_fresh_node_has_the_series_that_rules_ask_for(fresh: dict[str, float]) -> None:
    names = {parsed(series)[0] for series in fresh}
    assert {"process_resident_memory_bytes", "process_start_time_seconds", "assay_build_info"} <= names
    known = {(parsed(series)[0], value) for series in fresh for value in parsed(series)[1].values()}
    for name, rule in rules().items():
        if "monitor" in rule["expr"]:
            continue
        for metric, _, label in re.findall(r'(assay_\w+_total)(\{\w+=~?"([^"]*)"\})?', rule["expr"]):
            wanted = [(metric, one) for one in label.split("|") if one]
            assert metric in names, f"{name}: {metric} is not there from the start"
            assert set(wanted) <= known, f"{name}: {wanted}"
    assert "assay_signer_up" not in names, "no signer is asked"


@needs_promtool
def test_a_fresh_node_keeps_every_rule_silent(fresh: dict[str, float]) -> None:
    series = {name: f"{value!r}x300" for name, value in fresh.items()}
    series['assay_ticks_total{result="ok"}'] = "1+30x300"
    series["up"] = "1x300"
    targets = dict.fromkeys(promtool.NODES, series)
    silent = [
        {"eval_time": f"{at}m", "alertname": name, "exp_alerts": []}
        for name in rules()
        for at in (10, 100, 290)
    ]
    assert promtool.play({"input_series": promtool.input_of(targets), "alert_rule_test": silent}) == ""


def test_gauges_are_not_shown_before_they_have_a_value() -> None:
    metrics = Metrics()
    assert metrics.registry.get_sample_value("assay_signer_up") is None
    metrics.set("signer_up", 0)
    metrics.set("signer_up", 1)
    assert metrics.registry.get_sample_value("assay_signer_up") == 1


@pytest.mark.skipif(shutil.which("prometheus") is None, reason=promtool.MISSING)
def test_prometheus_reads_the_rules_with_the_guide_s_configuration(tmp_path: Path) -> None:
    """The scrape that the guide shows is one that Prometheus takes, and its names are those that the rules ask for."""
    guide = (promtool.ROOT / "docs" / "operating.md").read_text()
    (block,) = re.findall(r"```yaml\n(rule_files:.*?)```", guide, re.DOTALL)
    names = {scrape["job_name"] for scrape in yaml.safe_load(block)["scrape_configs"]}
    assert "assay-monitor" in names
    assert all(name.startswith("assay") for name in names)
    shutil.copy(promtool.RULES, tmp_path)
    (tmp_path / "prometheus.yml").write_text(block)
    assert promtool.check_config(tmp_path / "prometheus.yml") == ""


# ---------------------------------------------------------------------- the dashboard

QUERIES = list(promtool.queries())


@needs_promtool
@pytest.mark.parametrize("query", QUERIES, ids=lambda query: f"{query.panel}: {query.legend}")
def test_a_query_of_the_dashboard_shows_both_targets_and_tells_them_apart(query: promtool.Query) -> None:
    """Each query gives as many lines as the two targets have series, no two with the same text."""
    assert promtool.shown(query, ROWS) == ""
