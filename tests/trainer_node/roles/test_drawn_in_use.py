"""What was drawn goes for a stake in its own job, but not while it is replayed, nor before what is wrong is noted."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from trainer_node.errors import DiskFull
from trainer_node.roles.sampling.interval_runner import IntervalRunner
from trainer_node.storage.job_holds import DRAWN, WORK, Holders

from ..desk import until
from .sampling.test_siege import INTERVAL, Siege, siege  # noqa: F401
from .test_found_lies_that_wait import Waiting


def _here(rounds: Waiting) -> bool:
    return all((rounds.store.root / path).exists() for _, path in rounds.store.holders.held(1))


def test_it_stays_while_it_is_replayed(
    siege: Siege,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rounds, compute, given = Waiting(siege, tmp_path), IntervalRunner._compute, list[Any]()
    rounds.node.wei = 0

    def slow(*arguments: Any) -> bytes:
        found = compute(*arguments)
        if arguments[3] == INTERVAL and not given:
            rounds.later(600)
            given.append(rounds.keeper._resting_states.give_drawn(1))
        return found

    monkeypatch.setattr(IntervalRunner, "_compute", slow)
    until(lambda: bool(rounds.go(1) and siege.node.found(1)))
    rounds.go(1)
    assert given
    assert _here(rounds)
    assert not rounds.store.holders.in_use
    assert rounds.refutes()


def test_it_stays_where_the_disk_is_full_as_it_is_found_wrong(
    siege: Siege,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rounds, hold, failed = Waiting(siege, tmp_path), Holders.hold, list[str]()
    rounds.node.wei = 0

    def full(holders: Holders, job: int, paths: Iterable[str], stage: str = WORK) -> None:
        if stage == WORK and holders.in_use and not failed:
            failed.append(stage)
            raise DiskFull("no space left for a line")
        hold(holders, job, paths, stage)

    monkeypatch.setattr(Holders, "hold", full)
    until(lambda: bool(rounds.go(1) and siege.node.found(1)))
    assert failed
    rounds.later(3600)
    keeper = rounds.keeper
    keeper.collect()
    assert DRAWN in {stage for stage, _ in rounds.store.holders.held(1)}
    keeper._store_bytes = rounds.store.usage.total + keeper._left(1, part=True) - 4096
    keeper._tried = -math.inf
    keeper.too_full(1, part=True)
    keeper.close()
    keeper._store_bytes = 0
    assert _here(rounds)
    assert rounds.refutes()
