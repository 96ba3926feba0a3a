"""`assay monitor` as a person types it, on a chain where a lone liar has claimed a result."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from assay_capture.capture import Recipe, build, load_recipe
from assay_lab.faults import Fault
from tests.conftest import Anvil, Assay
from tests.e2e.arena import Arena
from tests.e2e.test_disputes import honest_root
from tests.trainer_node.chain.endpoint import Endpoint
from trainer_node.chain import JobPhase
from trainer_node.local.bundle import Bundle


@pytest.fixture(scope="module")
def small() -> Bundle:
    recipe = load_recipe("digits-mlp", steps=20, batch_size=8)
    assert isinstance(recipe, Recipe)
    return build(recipe)


@pytest.fixture(scope="module")
def deployed(module_anvil: Anvil, small: Bundle, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arena]:
    folder = tmp_path_factory.mktemp("monitor")
    liar = [Fault.WRONG_OP_OUTPUT]
    with Arena(module_anvil, folder, small, trainers=liar, challenger=None, verifiers=0) as arena:
        while arena.client.snapshot().job(arena.job_id).phase is not JobPhase.CHALLENGE:
            arena.turn()
        yield arena


@pytest.fixture
def flags(deployed: Arena) -> list[object]:
    chain = ["--rpc-url", deployed._anvil.url, "--chain-id", deployed._anvil.chain_id]
    return ["monitor", *chain, "--deployment", deployed._deployment, "--near", "1"]


def claimed(arena: Arena) -> bytes:
    return arena.client.snapshot().job(arena.job_id).groups[0].root


def test_the_exit_code_says_whether_an_alert_stands(
    assay: Assay, flags: list[object], deployed: Arena, small: Bundle
) -> None:
    code, output, errors = assay(*flags, "--once", "--trust", f"1={claimed(deployed).hex()}")
    assert code == 0, output + errors
    code, output, _ = assay(*flags, "--once", "--trust", f"1={honest_root(small).hex()}")
    assert code == 1
    assert "critical wrong_claim job 1" in output
    code, output, _ = assay(*flags, "--once", "--json", "--trust", f"1={honest_root(small).hex()}")
    told = json.loads(output)
    assert code == 1
    assert [alert["kind"] for alert in told["alerts"] if alert["level"] == "critical"] == ["wrong_claim"]
    assert told["unchecked"] == {}


def test_a_run_of_ones_own_and_a_challengers_log_are_believed(
    assay: Assay, flags: list[object], deployed: Arena, small: Bundle, tmp_path: Path
) -> None:
    small.write(tmp_path / "bundle")
    assert assay("program", "run", tmp_path / "bundle", "--out", tmp_path / "run")[0] == 0
    code, output, _ = assay(*flags, "--once", "--trust", f"1={tmp_path / 'run'}")
    assert (code, "wrong_claim" in output) == (1, True)
    log = tmp_path / "challenger.log"
    line = {"event": "claim.invalid", "job": 1, "claimed": claimed(deployed).hex()}
    log.write_text("no line of ours\n" + json.dumps({**line, "own": honest_root(small).hex()}) + "\n")
    code, output, _ = assay(*flags, "--once", "--findings", log)
    assert (code, "wrong_claim" in output) == (1, True)


def test_a_run_of_another_program_is_no_verdict(assay: Assay, flags: list[object], tmp_path: Path) -> None:
    other = load_recipe("digits-mlp", steps=20, batch_size=4)
    assert isinstance(other, Recipe)
    build(other).write(tmp_path / "bundle")
    assert assay("program", "run", tmp_path / "bundle", "--out", tmp_path / "run")[0] == 0
    code, output, _ = assay(*flags, "--once", "--trust", f"1={tmp_path / 'run'}")
    assert code == 3
    assert "is of program" in output


def test_an_endpoint_that_fails_is_unchecked_and_no_alert(assay: Assay, flags: list[object]) -> None:
    endpoint = Endpoint()
    try:
        broken = [endpoint.url if at == 2 else flag for at, flag in enumerate(flags)]
        code, _, errors = assay(*broken, "--once")
    finally:
        endpoint.close()
    assert code == 3, errors
    assert "unchecked: deployment" in errors


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (["--trust", "1"], "JOB=ROOT"),
        (["--trust", "0=ab"], "JOB=ROOT"),
        (["--trust", "1=nowhere"], "64 hex digits"),
        (["--fail-on", "sometimes"], "info, warning, critical"),
        (["--findings", "nowhere.log"], "nowhere.log"),
    ],
)
def test_wrong_flags_are_named(assay: Assay, flags: list[object], wrong: list[str], told: str) -> None:
    code, _, errors = assay(*flags, "--once", *wrong)
    assert code not in (0, 3)
    assert told in errors


def test_a_job_is_shown_as_json(assay: Assay, flags: list[object], deployed: Arena) -> None:
    where = flags[1:-2]
    code, output, errors = assay("job", "show", deployed.job_id, *where, "--json")
    assert code == 0, errors
    told = json.loads(output)
    assert (told["job"], told["phase"], told["claims"], told["matches"]) == (
        deployed.job_id,
        "challenge",
        1,
        [],
    )
    assert [claim["root"] for claim in told["claimed"]] == [claimed(deployed).hex()]
    (row,) = json.loads(assay("job", "list", *where, "--json")[1])
    assert row.items() <= told.items()


def test_metrics_are_served_while_it_runs(tmp_path: Path, flags: list[object]) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "trainer_node.cli", *map(str, flags)]
    with subprocess.Popen(
        [*command, "--json", "--interval", "0.2", "--metrics-port", str(port)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    ) as process:
        assert process.stdout is not None
        timer = threading.Timer(60, process.kill)
        timer.start()
        try:
            first = json.loads(process.stdout.readline())
            process.stdout.readline()
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
                shown = answer.read().decode()
        finally:
            process.terminate()
            timer.cancel()
    assert first["jobs"] == 1
    assert "assay_monitor_up 1.0" in shown
    assert 'assay_monitor_jobs{phase="challenge"} 1.0' in shown
    assert process.returncode == 0
