"""The channel over gloo: who may connect, and from where."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainer_node.errors import WorkerLost
from trainer_node.workers.gloo import Gloo

from .simulated import together

torch = pytest.importorskip("torch.distributed")
LOOPBACK = "0100007F"


class Other:
    """A store of somebody who has not read the key."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def get(self, name: str) -> bytes:
        return b"00" * 32 if name == "key" else self._store.get(name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def listening() -> set[str]:
    """Return the addresses on which this process listens."""
    sockets = set()
    for entry in Path("/proc/self/fd").iterdir():
        try:
            sockets.add(str(entry.readlink()))
        except FileNotFoundError:
            continue
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state, *rest = line.split()
            if state == "0A" and f"socket:[{rest[5]}]" in sockets:
                found.add(local)
    return found


def pair(
    store: Any, of: Callable[[int, Any], Any], monkeypatch: pytest.MonkeyPatch
) -> tuple[dict[int, Gloo], dict[int, WorkerLost]]:
    """Make two ends of a channel; return those that were made, and the errors of the others."""
    made, lost = dict[int, Gloo](), dict[int, WorkerLost]()
    plain = torch.PrefixStore
    # NOTE: process groups take stores of torch alone.
    monkeypatch.setattr(torch, "PrefixStore", lambda name, one: plain(name, getattr(one, "_store", one)))

    def begin(rank: int) -> None:
        try:
            made[rank] = Gloo(of(rank, store), rank, 2, 10.0, loopback=True)
        except WorkerLost as error:
            lost[rank] = error

    together([partial(begin, rank) for rank in range(2)])
    return made, lost


def test_a_peer_without_the_key_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    made, lost = pair(torch.HashStore(), lambda rank, store: Other(store) if rank else store, monkeypatch)
    assert not made
    assert lost[0].worker == 1
    assert "does not know the key of this run" in str(lost[0])
    assert lost[1].worker == 0


def test_two_channels_of_one_process_are_two_and_listen_on_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    before = listening()
    channels = [pair(torch.HashStore(), lambda _, store: store, monkeypatch)[0] for _ in range(2)]
    new = listening() - before
    assert new
    assert {address.partition(":")[0] for address in new} == {LOOPBACK}
    for number, ends in enumerate(channels):
        into = np.zeros(3, np.uint8)
        coming = ends[1].receive(0, into, 20)
        ends[0].send(1, np.full(3, number, np.uint8), 20).wait()
        coming.wait()
        assert into.tolist() == [number] * 3
    for ends in channels:
        for channel in ends.values():
            channel.close()
