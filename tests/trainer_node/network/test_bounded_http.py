"""Attack: connections to a node's artifact server that ask for nothing, or take nothing, keep neither the process from
its files nor others from what it serves."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from trainer_node.network import bounded_http
from trainer_node.network.artifact_server import ArtifactServer
from trainer_node.storage.store import Store

LARGE = 16 << 20  # more than the buffers of both sides take
WITHOUT = 60.0


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ArtifactServer]:
    monkeypatch.setattr(bounded_http, "MAX_CONNECTIONS", 4)
    with ArtifactServer(Store(tmp_path)) as server:
        yield server


def places(server: ArtifactServer) -> int:
    return len(server._server.server_state.connections)


def until(done: Callable[[], bool]) -> None:
    end = time.monotonic() + WITHOUT
    while not done():
        assert time.monotonic() < end
        time.sleep(0.01)


class Peer(contextlib.ExitStack):
    """Opens connections from an address of this machine."""

    def __init__(self, server: ArtifactServer, address: str = "127.0.0.1") -> None:
        super().__init__()
        self._port, self._address = server.port, address

    def open(self, sends: bytes = b"") -> socket.socket:
        made = socket.create_connection(("127.0.0.1", self._port), WITHOUT, (self._address, 0))
        self.enter_context(made)
        made.sendall(sends)
        return made

    def asks(self, path: str = "/healthz") -> bytes:
        """Return the first bytes of an answer; nothing if the connection is cut off."""
        with contextlib.suppress(ConnectionError):
            return self.open(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode()).recv(12)
        return b""


def test_whoever_has_waited_longest_makes_room(server: ArtifactServer) -> None:
    with Peer(server) as crowd:
        first, *_ = [crowd.open() for _ in range(4)]
        until(lambda: places(server) == 4)
        for _ in range(20):
            assert httpx.get(f"{server.uri}/healthz").status_code == 200
            assert places(server) <= 4
        with contextlib.suppress(ConnectionResetError):
            assert first.recv(1) == b""


@pytest.mark.parametrize(
    "sent", [b"", b"GET /healthz HTTP/1.1\r\n", b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\nGET "]
)
def test_who_does_not_end_its_request_is_cut_off_however_often_it_sends(
    server: ArtifactServer, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(bounded_http, "REQUEST_S", 0.2)
    with Peer(server) as slow:
        made = slow.open(sent)
        until(lambda: places(server) == 1)
        with contextlib.suppress(ConnectionError):
            while places(server):
                made.sendall(b"x" if sent else b"")
                time.sleep(0.01)
        until(lambda: places(server) == 0)


def test_who_does_not_take_its_answer_is_cut_off(
    server: ArtifactServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_http, "STALL_S", 0.2)
    blob = Store(tmp_path).put_blob(os.urandom(LARGE))
    with Peer(server) as peer:
        assert peer.asks(f"/v1/blob/{blob.hex()}") == b"HTTP/1.1 200"
        until(lambda: places(server) == 0)
    assert len(httpx.get(f"{server.uri}/v1/blob/{blob.hex()}").content) == LARGE


def test_an_address_with_all_places_gives_one_to_another_address(
    server: ArtifactServer, tmp_path: Path
) -> None:
    """An answer that is taken slowly enough lasts; but it is for one address to share its places."""
    path = f"/v1/blob/{Store(tmp_path).put_blob(os.urandom(LARGE)).hex()}"
    with Peer(server, "127.0.0.2") as theirs, Peer(server, "127.0.0.3") as ours:
        assert {theirs.asks(path) for _ in range(4)} == {b"HTTP/1.1 200"}
        assert theirs.asks(path) == b""
        assert ours.asks(path) == ours.asks(path) == b"HTTP/1.1 200"
        assert ours.asks(path) == b"", "each has half of the places now"


NODE = """
import os, resource, sys
from pathlib import Path
resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))
from trainer_node.network.artifact_server import ArtifactServer
from trainer_node.storage.database import Database
from trainer_node.storage.store import Store
store, database = Store(Path(sys.argv[1]) / "artifacts"), Database(Path(sys.argv[1]) / "node.sqlite3")
blob = store.put_blob(b"a")
with ArtifactServer(store) as server:
    print(server.port, flush=True)
    for line in sys.stdin:
        assert store.get_blob(blob) == b"a"
        store.put_blob(os.urandom(8))
        database.put("x", line)
        print("well", flush=True)
"""


def test_more_idle_connections_than_a_process_may_open_files_keep_it_from_none(tmp_path: Path) -> None:
    node = subprocess.Popen(
        [sys.executable, "-c", NODE, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with node, contextlib.ExitStack() as held:
        assert node.stdin is not None
        assert node.stdout is not None
        held.callback(node.kill)
        port = int(node.stdout.readline())
        for number in range(1500):
            held.enter_context(socket.create_connection(("127.0.0.1", port), WITHOUT))
            if number % (bounded_http.BACKLOG // 2) == 0:
                # NOTE: who comes while the backlog is full tries again after a second; an answer shows that it is not.
                with socket.create_connection(("127.0.0.1", port), WITHOUT) as asks:
                    asks.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
                    assert asks.recv(12) == b"HTTP/1.1 200"
            if number % 100 == 99:
                node.stdin.write(f"{number}\n")
                node.stdin.flush()
                assert node.stdout.readline() == "well\n"
        assert httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=WITHOUT).status_code == 200


def test_a_process_may_open_as_many_files_as_it_may_ask_for() -> None:
    code = (
        "import resource; from trainer_node.network.bounded_http import allow_files\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 200)); allow_files()\n"
        "print(*resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "200 200"
    assert "files.few" in done.stdout + done.stderr
