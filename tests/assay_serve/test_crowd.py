"""Attack: two thousand connections that ask for nothing, slowly, or half, and readers of metrics by the hundred. The
server's files and memory stay bounded, and whoever asks for an answer gets it, from the same address too."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pytest
from prometheus_client import generate_latest

from assay_serve import web
from assay_serve.model import Model
from trainer_node.network import shared_reading
from trainer_node.network.bounded_http import MAX_CONNECTIONS

from . import tiny
from .test_hostile import chat, post, reference
from .tiny import HTTP

CROWD, WITHOUT = 2000, 600
MIB = 1 << 20
SENT = (
    b"",
    b"GET /healthz HTTP/1.1\r\nHost: a\r\nX: ",
    post(MIB) + b" " * 1000,
    post(MIB) + b'{"model": "tiny", "messages": "' + b"x" * 60_000,
)
"""What a connection of the crowd has sent: nothing, half a head, the beginning of a body, a large part of it."""


@dataclass(frozen=True)
class Process:
    """A server in a process of its own."""

    address: str
    folder: Path

    @property
    def files(self) -> int:
        return len(list((self.folder / "fd").iterdir()))

    @property
    def memory(self) -> int:
        """The bytes that are resident."""
        told = dict(line.split(":", 1) for line in (self.folder / "status").read_text().splitlines())
        return int(told["VmRSS"].split()[0]) << 10

    def connect(self) -> socket.socket:
        place = urlsplit(self.address)
        return socket.create_connection((place.hostname, place.port), WITHOUT)


@pytest.fixture
def process(folder: Path, tmp_path: Path) -> Iterator[Process]:
    command = [str(Path(sys.executable).parent / "assay"), "serve", str(folder), "--port", "0"]
    with (tmp_path / "errors").open("wb") as errors:
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
    with server, contextlib.ExitStack() as ended:
        ended.callback(server.kill)
        assert server.stdout is not None
        address = server.stdout.readline().strip().removesuffix("/v1")
        assert address, (tmp_path / "errors").read_text()
        yield Process(address, Path(f"/proc/{server.pid}"))


def test_a_crowd_that_does_not_end_its_requests_keeps_nobody_from_an_answer(process: Process) -> None:
    wanted = reference(process.address)
    files, memory = process.files, process.memory
    most_files = most_memory = 0
    with contextlib.ExitStack() as held:
        crowd = []
        for number in range(CROWD):
            made = held.enter_context(process.connect())
            with contextlib.suppress(ConnectionError):  # NOTE: it may be cut off before it has sent all
                made.sendall(SENT[number % len(SENT)])
            crowd.append(made)
            if number % 100 == 99:
                for slow in crowd[-200:]:
                    with contextlib.suppress(OSError):
                        slow.send(b"x", socket.MSG_DONTWAIT)
                assert reference(process.address) == wanted
                most_files, most_memory = max(most_files, process.files), max(most_memory, process.memory)
    # NOTE: connections that are accepted before the next look at their number come on top.
    assert most_files - files < MAX_CONNECTIONS + 100
    assert most_memory - memory < 100 * MIB, "of the heads and bodies of as many as are held"
    print(f"{most_files - files} files and {(most_memory - memory) / MIB:.0f} MiB more")


def test_many_who_read_metrics_have_them_computed_for_all(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, count = 0.0, 0

    def counted(*given: Any) -> bytes:
        nonlocal now, count
        now, count = now + 0.02, count + 1  # as long as it takes for a few hundred series
        return generate_latest(*given)

    monkeypatch.setattr(web, "generate_latest", counted)
    monkeypatch.setattr(shared_reading, "time", SimpleNamespace(monotonic=lambda: now))
    with tiny.service(model) as (_, address):
        texts = {HTTP.get(f"{address}/metrics").text for _ in range(100)}
        assert count == len(texts) == 1
        now += 1.0
        HTTP.get(f"{address}/metrics")
        assert count == 2


def test_a_body_in_pieces_is_served_while_there_are_places(process: Process) -> None:
    """Promise: only where places are short is a slow body worth less than a new connection."""
    body = chat()
    with process.connect() as slow:
        slow.sendall(post(len(body)))
        for k in range(len(body)):
            slow.sendall(body[k : k + 1])
        assert slow.recv(12) == b"HTTP/1.1 200"
