"""What a node tells about its run: bounded, about that run only, and believed by nobody."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from referee_py.program import SlotSource
from tests.support.local_server import LocalServer
from trainer_node.cli.watch import _row, _words
from trainer_node.client import watched_job
from trainer_node.client.watched_job import standing
from trainer_node.network.artifact_server import ArtifactServer
from trainer_node.observe.run_reports import (
    MAX_POINTS,
    MAX_REPORT_BYTES,
    MAX_REPORTS,
    Board,
    Reporter,
    told_outputs,
)
from trainer_node.storage.database import Database
from trainer_node.storage.store import Store

from ..cli.growing import growing
from ..desk import TERMS, job, runner, serving, until


def test_numbers_that_nothing_reads_are_told() -> None:
    assert told_outputs(growing(1, (1,)).program) == {"1.0": SlotSource(1, 0)}


def test_a_long_run_is_told_in_bounded_space() -> None:
    sources = {f"{node}.0": SlotSource(node, 0) for node in range(8)}
    reporter = Reporter((1 << 64) - 1, b"\xff" * 32, sources, 0, 1 << 47)
    latest = {name: np.array(-1.2345678e-30, np.float32) for name in sources}
    for step in range(0, 1 << 47, 1 << 36):
        reporter.note(step)
        report = reporter.report(latest, step)
        assert len(report.history) <= MAX_POINTS
        assert report.history[-1].step == step
    assert len(report.model_dump_json()) < MAX_REPORT_BYTES
    steps = [point.step for point in report.history]
    assert steps == sorted(set(steps))
    assert steps[0] == 0
    assert len(steps) > MAX_POINTS / 4


def test_only_the_last_runs_are_told() -> None:
    board = Board()
    for number in range(MAX_REPORTS + 3):
        board.put(Reporter(number, bytes(32), {}, 0, 5).report({}, 0))
    assert board.get(2) is None
    assert board.get(3) is not None


def test_a_client_sees_the_run_of_a_node(tmp_path: Path) -> None:
    board, database = Board(), Database(None)
    with (
        serving(tmp_path / "client") as uri,
        runner(tmp_path / "node", database, board=board) as works,
        ArtifactServer(Store(tmp_path / "node"), board=board) as server,
    ):
        assert "no run is known there yet" in standing(job(), server.uri).reason
        until(lambda: works.train(job(uri=uri)))
        found = standing(job(), server.uri)
        assert found.report is not None, found.reason
        assert (found.report.step, found.report.steps, found.report.kept) == (12, 12, 8)
        assert httpx.get(f"{server.uri}/v1/progress/1").headers["cache-control"] == "no-store"
        assert httpx.get(f"{server.uri}/v1/progress/x").status_code == 422
    database.close()


@contextmanager
def _answering(body: bytes, status: int = 200) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Location", "/v1/progress/1")
            self.end_headers()
            self.wfile.write(body)

    with LocalServer(Handler) as server:
        yield server.uri


def _report(**changes: Any) -> bytes:
    point = {"step": 3, "numbers": ["NaN", 2.5]}
    report = {"job": 1, "program": TERMS.hash().hex(), "step": 3, "steps": 12, "kept": 0, "rate": 2.0}
    return json.dumps({**report, "nodes": [[4, 0], [5, 0]], "history": [point], **changes}).encode()


def test_numbers_are_named_by_the_bundle_or_by_their_nodes() -> None:
    with _answering(_report()) as uri:
        found = standing(job(), uri)
    numbers = found.numbers({SlotSource(5, 0): "loss"})
    assert list(numbers) == ["node 4.0", "loss"]
    assert numbers["loss"] == 2.5
    assert np.isnan(numbers["node 4.0"])
    assert found.left_s == 4.5


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (_report(job=2), 200, "another run"),
        (_report(program="00" * 32), 200, "another run"),
        (_report(steps=13), 200, "another run"),
        (_report(step=13), 200, "more than the 12 steps"),
        (_report(history=[{"step": 99, "numbers": []}]), 200, "more than the 12 steps"),
        (_report(step=-1), 200, "errors"),
        (_report(rate=float("nan")), 200, "errors"),
        (_report(rate=-1), 200, "errors"),
        (_report(more=1), 200, "errors"),
        (_report(nodes=[[0, 0]] * 9), 200, "errors"),
        (_report(history=[{"step": 1, "numbers": [1] * 9}]), 200, "errors"),
        (_report(history=[{"step": 1, "numbers": []}] * (MAX_POINTS + 1)), 200, "errors"),
        (b"[" * 50_000, 200, "errors"),
        (b"", 200, "errors"),
        (b"\xff", 200, "errors"),
        (b" " * (MAX_REPORT_BYTES + 1), 200, "larger than"),
        (_report(), 302, "answers 302"),
        (_report(), 500, "answers 500"),
    ],
)
def test_a_report_that_cannot_be_is_not_shown(body: bytes, status: int, words: str) -> None:
    with _answering(body, status) as uri:
        found = standing(job(), uri)
    assert found.report is None
    assert words in found.reason


@pytest.mark.parametrize("uri", ["ftp://x", "http://user@x", "http://127.0.0.1:9", "nonsense"])
def test_an_address_may_be_anything(uri: str) -> None:
    found = standing(job(), uri)
    assert found.report is None
    assert found.reason


@pytest.mark.parametrize("nodes", [[[4, 0], [4, 0]], [[4, 0]], []])
def test_numbers_and_nodes_need_not_fit(nodes: list[list[int]]) -> None:
    with _answering(_report(nodes=nodes)) as uri:
        assert len(standing(job(), uri).numbers({})) <= 1


@pytest.mark.parametrize("rate", [5e-324, 1e-300, 1.7e308])
def test_any_rate_can_be_shown(rate: float) -> None:
    with _answering(_report(rate=rate)) as uri:
        found = standing(job(), uri)
    assert found.report is not None
    assert len(_words(found, {})) < 200
    row = json.loads(json.dumps(_row(job(), [found], {}), allow_nan=False))
    assert row["runs"][0]["history"] == [{"step": 3, "numbers": ["NaN", 2.5]}]


@pytest.mark.parametrize("answer", [b"HTTP/1.1 100 Continue\r\n\r\n", b"x", b"HTTP/1.1 200 OK\r\n\r\n "])
def test_a_server_that_drips_bytes_does_not_hold_us_up(
    answer: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watched_job, "TIMEOUT_S", 0.5)
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_drip, args=(server, answer, over), daemon=True).start()
        found = standing(job(), f"http://127.0.0.1:{server.getsockname()[1]}")
    over.set()
    assert "took longer than 1 s" in found.reason


def _drip(server: socket.socket, answer: bytes, over: threading.Event) -> None:
    """Answer without end: whoever waits for the end waits as long as the test may last."""
    connection, _ = server.accept()
    with connection, contextlib.suppress(OSError):
        connection.sendall(b"HTTP/1.1 200 OK\r\nX: " if answer == b"x" else b"")
        while not over.wait(0.1):
            connection.sendall(answer)
