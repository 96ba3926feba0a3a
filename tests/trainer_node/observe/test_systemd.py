"""What a service manager hears, over a real socket."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from trainer_node.daemon.service import Service, open_daemon
from trainer_node.errors import ConfigError, RpcUnavailable
from trainer_node.observe.systemd import MAX_STATUS, Notifier
from trainer_node.settings.settings import load_settings

from ..chain.test_client import Town


class Manager:
    """Listens as a service manager does."""

    def __init__(self, address: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind("\0" + address[1:] if address.startswith("@") else address)
        self.socket.setblocking(False)

    def heard(self) -> list[list[str]]:
        messages = []
        while True:
            try:
                messages.append(self.socket.recv(4096).decode().split("\n"))
            except BlockingIOError:
                return messages


@pytest.fixture(params=["file", "abstract"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "notify") if request.param == "file" else f"@{tmp_path.name}-notify"


@pytest.fixture
def manager(address: str) -> Iterator[Manager]:
    manager = Manager(address)
    yield manager
    manager.socket.close()


def test_each_message_is_what_the_protocol_says(address: str, manager: Manager) -> None:
    notifier = Notifier(address)
    notifier.ready()
    notifier.alive("ready")
    notifier.alive("ready")
    notifier.alive("chain: no answer\nREADY=1 from the endpoint " + "x" * 1000)
    notifier.stopping()
    ready, first, second, third, last = manager.heard()
    assert (ready, first, second, last) == (
        ["READY=1"],
        ["WATCHDOG=1", "STATUS=ready"],
        ["WATCHDOG=1"],
        ["STOPPING=1"],
    )
    assert len(third) == 2, "what a status quotes is not a message of its own"
    assert len(third[1]) <= MAX_STATUS + len("STATUS=")


def test_without_a_manager_nothing_is_sent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    Notifier().ready()
    Notifier(str(tmp_path / "nobody listens here")).ready()
    with pytest.raises(ConfigError, match="is not a socket"):
        Notifier("tcp:1.2.3.4")


def test_a_manager_that_does_not_read_stops_no_round(address: str, manager: Manager) -> None:
    notifier = Notifier(address)
    for number in range(5000):
        notifier.alive(f"round {number}")
    assert len(manager.heard()) < 5000


def test_a_daemon_tells_of_its_start_its_rounds_and_its_end(
    anvil: Any, tmp_path: Path, address: str, manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    Town(anvil.url, anvil.keys[:4], tmp_path)
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    settings = load_settings(
        rpc_url=anvil.url,
        chain_id=anvil.chain_id,
        deployment=tmp_path / "31337.json",
        data_dir=tmp_path / "node",
    )
    rounds: list[int] = []

    with open_daemon(settings, "challenger", key=False) as node:
        assert manager.heard()[0] == ["READY=1"]
        node.settings = SimpleNamespace(poll_s=0.01)  # type: ignore[assignment]

        def tick() -> None:
            rounds.append(1)
            if len(rounds) == 2:
                raise RpcUnavailable("no answer")
            if len(rounds) == 4:
                node.stop.set()

        Service(node, tick).run()
    heard = manager.heard()
    assert [message[0] for message in heard] == ["WATCHDOG=1"] * 4 + ["STOPPING=1"]
    assert [message[1:] for message in heard[:4]] == [
        ["STATUS=ready"],
        ["STATUS=chain: no answer"],
        ["STATUS=ready"],
        [],
    ]
