"""A real Ray cluster of two machines (processes of this one), of which one is killed in the middle of an audit."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from referee_py.errors import InvalidInput
from trainer_node.audit.engine import IntervalReport
from trainer_node.audit.engine_ray import reports_by_ray
from trainer_node.audit.interval import Verdict
from trainer_node.audit.pool import Task
from trainer_node.audit.published import PublishedRun

from .runs import opened, publish

if TYPE_CHECKING:
    from ray.cluster_utils import Cluster

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install '.[ray]'")

pytestmark = pytest.mark.slow
STEPS, STRIDE, LIE = 100_000, 5_000, 65_005


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twenty intervals of 5,000 steps: enough to do for a while; the 14th lies."""
    return publish(tmp_path_factory.mktemp("run") / "run", STEPS, STRIDE, lie=LIE)


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster whose head has no cores, so that only members compute. Their cache is in a folder of ours."""
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("workers")))
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
        yield made
        made.shutdown()


@pytest.fixture
def cluster(head: Cluster) -> Iterator[Cluster]:
    """The cluster with one member that has one core."""
    head.add_node(num_cpus=1)
    yield head
    ray.shutdown()
    for node in list(head.worker_nodes):
        head.remove_node(node, allow_graceful=False)


@pytest.fixture
def run(folder: Path, tmp_path: Path) -> PublishedRun:
    return opened(folder, tmp_path / "cache")


def task_of(folder: Path, run: PublishedRun, tmp_path: Path) -> Task:
    return Task(str(folder), tmp_path / "unused", run.claim.root, 1 << 30)


def by_interval(found: list[IntervalReport]) -> dict[int, Verdict]:
    assert len({report.finding.interval for report in found}) == len(found), "an interval is told twice"
    return {report.finding.interval: report.finding.verdict for report in found}


def expected(run: PublishedRun) -> dict[int, Verdict]:
    wrong = -(-LIE // STRIDE)
    return {k: Verdict.DIFFERS if k == wrong else Verdict.MATCH for k in range(1, run.count + 1)}


def test_a_machine_that_is_killed_loses_nothing(
    cluster: Cluster, folder: Path, run: PublishedRun, tmp_path: Path
) -> None:
    other = cluster.add_node(num_cpus=1)
    found: list[IntervalReport] = []
    task = task_of(folder, run, tmp_path)
    for report in reports_by_ray(run, task, range(1, run.count + 1), 1, cluster.address):
        found.append(report)
        if len(found) == 3:
            assert sum(node["Alive"] and node["Resources"].get("CPU", 0) > 0 for node in ray.nodes()) == 2
            cluster.remove_node(other, allow_graceful=False)
    assert by_interval(found) == expected(run)
    assert not (tmp_path / "unused").exists(), "workers use no cache of this process"
    assert (Path(os.environ["XDG_CACHE_HOME"]) / "assay" / "audit" / run.claim.root).is_dir()


def test_workers_that_die_each_time_are_given_up(
    cluster: Cluster, folder: Path, run: PublishedRun, tmp_path: Path
) -> None:
    """Workers are killed as soon as they compute: each interval is begun twice, and then told as UNCHECKED."""
    stop = tmp_path / "stop"
    code = (
        "import os, pathlib, signal, sys, time\n"
        "while not pathlib.Path(sys.argv[1]).exists():\n"
        "    time.sleep(0.005)\n"
        "    for place in pathlib.Path('/proc').glob('[0-9]*'):\n"
        "        try:\n"
        "            if (place / 'cmdline').read_bytes().startswith(b'ray::check') and sys.argv[2].encode() in (\n"
        "                place / 'environ').read_bytes():\n"
        "                os.kill(int(place.name), signal.SIGKILL)\n"
        "        except OSError:\n"
        "            pass\n"
    )
    # NOTE: only workers of this test's cluster, by their environment.
    mine = os.environ["XDG_CACHE_HOME"]
    killer = subprocess.Popen([sys.executable, "-c", code, str(stop), mine])
    try:
        found = list(reports_by_ray(run, task_of(folder, run, tmp_path), [3, 4], 1, cluster.address))
    finally:
        stop.touch()
        killer.wait(60)
    assert by_interval(found) == {3: Verdict.UNCHECKED, 4: Verdict.UNCHECKED}
    assert all("failed 2 times" in report.finding.reason for report in found)
    assert [(report.finding.start, report.finding.end) for report in found] == [run.span(3), run.span(4)]


def test_what_workers_cannot_open_is_unchecked(
    cluster: Cluster, folder: Path, run: PublishedRun, tmp_path: Path
) -> None:
    task = task_of(tmp_path / "not-on-this-machine", run, tmp_path)
    (found,) = reports_by_ray(run, task, [5], 1, cluster.address)
    assert found.finding.verdict is Verdict.UNCHECKED
    assert "cannot open the run" in found.finding.reason


def test_a_cluster_without_a_gpu_is_refused(
    cluster: Cluster, folder: Path, run: PublishedRun, tmp_path: Path
) -> None:
    task = Task(str(folder), tmp_path, run.claim.root, 1 << 30, "cuda")
    with pytest.raises(InvalidInput, match="0 GPUs"):
        list(reports_by_ray(run, task, [1], 1, cluster.address))


def test_no_cluster_is_one_line_of_error(folder: Path, run: PublishedRun, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="nobody answers there"):
        list(reports_by_ray(run, task_of(folder, run, tmp_path), [1], 1, "127.0.0.1:9"))


def test_ctrl_c_stops_the_tasks_and_the_audit_goes_on(
    cluster: Cluster, folder: Path, run: PublishedRun, tmp_path: Path
) -> None:
    arguments = ["audit", str(folder), "--intervals", "all", "--out", "out", "--engine", "ray", "--address"]
    command = [sys.executable, "-m", "trainer_node.cli", *arguments, cluster.address]
    log = tmp_path / "out" / "findings.jsonl"
    for _ in range(5):  # NOTE: on a busy machine it may be at its end before the signal comes
        code, errors = interrupted(command, log)
        if code != 1:
            break
    assert (code, "Traceback" in errors) == (130, False), errors
    before = log.read_bytes()
    count = before.count(b"\n")
    assert 2 <= count < run.count
    ray.init(cluster.address, log_to_driver=False)
    wait(lambda: ray.available_resources().get("CPU") == 1.0)
    ray.shutdown()
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert (done.returncode, f"{count} were checked before" in done.stdout) == (1, True), done.stderr
    assert log.read_bytes().startswith(before)
    told = [json.loads(line) for line in log.read_bytes().splitlines()]
    assert {row["interval"]: row["verdict"] for row in told} == expected(run)


def interrupted(command: list[str], log: Path) -> tuple[int, str]:
    """Begin an audit anew and interrupt it after two findings. Returns exit code and what it said."""
    shutil.rmtree(log.parent, ignore_errors=True)
    process = subprocess.Popen(
        command, cwd=log.parent.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    wait(lambda: process.poll() is not None or (log.exists() and log.read_bytes().count(b"\n") >= 2))
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    return process.returncode, errors


def wait(for_: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not for_():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.02)
