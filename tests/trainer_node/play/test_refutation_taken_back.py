"""A reorganisation takes a refutation back: it waits in the pools again, and the newest block does not show it. The
contract takes the same one a second time, at twice the price."""

from __future__ import annotations

from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import pytest

from trainer_node.chain import Call
from trainer_node.play import jobs
from trainer_node.play.jobs import JobPlayer

MINED = 20
CONFIRMATIONS = 3


@pytest.fixture
def player(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A player whose refutation was mined, and is shown no more."""
    monkeypatch.setattr(jobs, "refuting", lambda *_: SimpleNamespace(wanted=100))
    monkeypatch.setattr(jobs, "commitment", lambda *_: b"c")
    monkeypatch.setattr(Call, "of", lambda *_, **__: SimpleNamespace(action="refute"))
    player: Any = object.__new__(JobPlayer)
    player._account = player._jobs = SimpleNamespace(address="me")
    player._started_at = 0
    player._refuted = defaultdict(dict, {1: {b"c": MINED}})
    player._reserve = lambda *_, **__: None
    player._where = lambda _: ()
    player._refutation_salt = lambda *_: b"s"
    player._opened = lambda _job, _committed, shown, _late: [shown]
    head: Any = SimpleNamespace(
        block=SimpleNamespace(number=0), job=lambda *_, **__: job(stakes_of=lambda _: [], groups=())
    )
    player.head = head
    player._node = SimpleNamespace(public_uri="", client=SimpleNamespace(newest=lambda read: read(head)))
    return player


def job(**shown: Any) -> Any:
    return SimpleNamespace(id=1, group_of_root=lambda _: SimpleNamespace(index=0), **shown)


def sends(player: Any, head: int, seen: int) -> bool:
    player.head.block.number = head
    lie: Any = SimpleNamespace(against=b"a", index=1, root=b"r", claimed=b"1", computed=b"2", siblings=())
    snapshot: Any = SimpleNamespace(block=SimpleNamespace(number=seen))
    return bool(player.refute(snapshot, job(), lie, [lie]))


def test_it_is_not_sent_twice_while_it_may_be_mined_again(player: Any) -> None:
    for head in range(MINED - 1, MINED + CONFIRMATIONS):
        assert not sends(player, head, head - CONFIRMATIONS), "it waits in the pools"
    assert not sends(player, MINED - 1, MINED), "a machine that is behind"
    assert sends(player, MINED + CONFIRMATIONS, MINED), "nobody has it any more"
