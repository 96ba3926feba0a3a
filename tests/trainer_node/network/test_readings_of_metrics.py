"""Attack: whoever reads /metrics of the artifact server, which has to be public, has all of it computed for each
request, in up to 40 threads at once, which share one interpreter lock with the loop, moves and runs: 300 small
requests a second make steps three times as slow with a fresh node's metrics, and hundreds of times with as many series
as are kept."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client import generate_latest

from trainer_node.network import artifact_server
from trainer_node.network.artifact_server import ArtifactServer
from trainer_node.observe.metrics import Metrics
from trainer_node.storage.store import Store

READERS, READINGS = 32, 8


def test_many_readers_have_metrics_computed_by_one_thread_and_not_for_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, now, most, count = threading.Lock(), 0, 0, 0
    compute = generate_latest

    def counted(*given: Any) -> bytes:
        nonlocal now, most, count
        with lock:
            now, count = now + 1, count + 1
            most = max(most, now)
        time.sleep(0.02)  # as long as it takes for a few hundred series
        try:
            return compute(*given)
        finally:
            with lock:
                now -= 1

    monkeypatch.setattr(artifact_server, "generate_latest", counted)
    with ArtifactServer(Store(tmp_path, sync=False), registry=Metrics().registry) as server:

        def read(_: int) -> None:
            with httpx.Client() as client:
                for _ in range(READINGS):
                    assert client.get(f"{server.uri}/metrics").status_code == 200

        with ThreadPoolExecutor(READERS) as readers:
            list(readers.map(read, range(READERS)))
    assert most == 1, f"{most} threads computed at the same time"
    assert count < READERS * READINGS / 4, f"{count} times for {READERS * READINGS} readings"
