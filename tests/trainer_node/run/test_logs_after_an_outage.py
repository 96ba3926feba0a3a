"""Attack: an honest trainer's server is away for the seconds between two attempts of a follower (5 s), whoever has
caused that. From then on the follower requested all logs of the run on the chain, and paid for each page, though the
server had them all again and the run got on."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import wait
from functools import partial
from pathlib import Path

import pytest

from trainer_node.compute.lanes import Lanes
from trainer_node.errors import LogsLate
from trainer_node.network.budget import Budget
from trainer_node.network.fetcher import Fetcher
from trainer_node.run.fetched_logs import STARVED_AFTER, FetchedLogs
from trainer_node.storage.artifacts import Kind, Name
from trainer_node.storage.store import Store

from ..slow import Hand, SlowServer
from .test_log_sources import LOGS, NODES, STEPS, TREE

PERIOD = 24 * 3600


@pytest.fixture
def lanes(clock: Hand) -> Iterator[Lanes]:
    lanes = Lanes(2, "logs", clock=clock)
    yield lanes
    lanes.close()


@pytest.fixture
def theirs(tmp_path: Path) -> Store:
    store = Store(tmp_path / "theirs", sync=False)
    store.put_tree(TREE)
    store.put_logs(LOGS, NODES)
    return store


NAMES = {Name(Kind.LOG, root, count=NODES) for root in TREE.leaves}
PATIENCE = PERIOD / 32


def followed(path: Path, server: SlowServer, lanes: Lanes, clock: Hand) -> FetchedLogs:
    return FetchedLogs(
        Fetcher(Store(path, sync=False), timeout_s=60.0, attempts=1),
        lambda: [server.uri],
        TREE.root,
        STEPS,
        NODES,
        partial(lanes.submit, PERIOD),
        step_bytes=1 << 20,
        run_bytes=1 << 20,
        budget=Budget(PERIOD / 4, "rounding logs", clock=clock),
        patience_s=PATIENCE,
        clock=clock,
    )


def fail(logs: FetchedLogs, clock: Hand, seconds: float, step: int = 1) -> None:
    for _ in range(STARVED_AFTER):
        with pytest.raises(LogsLate):
            logs.get(step)
        clock.on(seconds / STARVED_AFTER)


def test_a_server_that_was_away_for_some_seconds_and_has_all_logs_again_costs_no_deposit(
    tmp_path: Path, theirs: Store, lanes: Lanes, clock: Hand
) -> None:
    with SlowServer(theirs, clock) as server:
        logs = followed(tmp_path / "mine", server, lanes, clock)
        server.lost |= NAMES
        fail(logs, clock, 10.0)
        server.lost.clear()
        for step in range(1, STEPS + 1):
            assert logs.get(step) == LOGS[step - 1]
            assert not logs.starved, (
                f"step {step} of {STEPS} was served, and all logs are requested on the chain"
            )
        clock.on(PERIOD)
        assert not logs.starved, "nothing is waited for any more"


def test_what_is_absent_for_longer_is_withheld(
    tmp_path: Path, theirs: Store, lanes: Lanes, clock: Hand
) -> None:
    with SlowServer(theirs, clock) as server:
        logs = followed(tmp_path / "mine", server, lanes, clock)
        server.lost |= NAMES
        fail(logs, clock, PATIENCE - 1)
        assert not logs.starved
        clock.on(1)
        assert not logs.starved, "nobody has asked again"
        with pytest.raises(LogsLate):
            logs.get(1)
        assert logs.starved
        server.lost.clear()
        assert logs.get(1) == LOGS[0]
        assert not logs.starved, "it is there again, so no more is paid for"


def test_what_a_move_needs_is_requested_after_the_second_failure(
    tmp_path: Path, theirs: Store, lanes: Lanes, clock: Hand
) -> None:
    with SlowServer(theirs, clock) as server:
        logs = followed(tmp_path / "mine", server, lanes, clock)
        server.lost |= NAMES
        logs.end_turn()
        for _ in range(100):
            with contextlib.suppress(LogsLate):
                logs.get(1)
            if logs.starved:
                break
            lanes_idle(logs)
        assert logs.starved


def lanes_idle(logs: FetchedLogs) -> None:
    """Wait for the downloads that are on their way."""
    wait(list(logs._windows.values()), 60)


def test_whoever_serves_each_window_just_in_time_is_slow(
    tmp_path: Path, theirs: Store, lanes: Lanes, clock: Hand
) -> None:
    """The attack: nothing is ever absent for long, and no download lasts; all together take the challenge period."""
    with SlowServer(theirs, clock) as server:
        logs = followed(tmp_path / "mine", server, lanes, clock)
        server.lost |= NAMES
        waited, step = 0.0, 1
        while step <= STEPS:
            fail(logs, clock, PATIENCE - 1, step)
            waited += PATIENCE - 1
            if logs.starved:
                break
            server.lost.discard(Name(Kind.LOG, TREE.leaves[step - 1], count=NODES))
            lanes_idle(logs)
            assert logs.get(step) == LOGS[step - 1]
            step += 1
        assert logs.starved
        assert waited < PERIOD / 2 + PATIENCE, "half of it passes between the last failure and the log"


@pytest.mark.parametrize("seconds", [5.0, PATIENCE])
def test_whoever_fails_once_for_each_step_is_slow(
    tmp_path: Path, theirs: Store, lanes: Lanes, clock: Hand, seconds: float
) -> None:
    """The attack: each step's log is there at the second attempt, so none is ever absent twice. Each attempt begins at
    the last state, and the challenge period is over before the run is."""
    with SlowServer(theirs, clock) as server:
        logs, waited = followed(tmp_path / "mine", server, lanes, clock), 0.0
        server.lost |= NAMES
        for step in range(1, STEPS + 1):
            with pytest.raises(LogsLate):
                logs.get(step)
            if logs.starved:
                break
            clock.on(seconds)
            waited += seconds
            server.lost.discard(Name(Kind.LOG, TREE.leaves[step - 1], count=NODES))
            lanes_idle(logs)
            assert logs.get(step) == LOGS[step - 1]
        assert logs.starved
        assert waited <= PERIOD / 4
