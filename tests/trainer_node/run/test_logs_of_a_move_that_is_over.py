"""Attack: a move needs a log that a follower no longer has, and its server is away for that moment. The match goes on
elsewhere, and the log is never asked for again. From then on the follower counted as waiting, though it waited for
nothing: a quarter of the challenge period later it requested all logs of the run on the chain, and paid for them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from trainer_node.compute.lanes import Lanes
from trainer_node.errors import LogsLate
from trainer_node.storage.store import Store

from ..slow import Hand, SlowServer
from .test_log_sources import LOGS, STEPS, TREE
from .test_logs_after_an_outage import NAMES, NODES, PERIOD, followed, lanes_idle


@pytest.fixture
def lanes(clock: Hand) -> Iterator[Lanes]:
    lanes = Lanes(2, "logs", clock=clock)
    yield lanes
    lanes.close()


def test_a_log_that_one_move_lacked_once_is_not_waited_for_ever(
    tmp_path: Path, lanes: Lanes, clock: Hand
) -> None:
    theirs = Store(tmp_path / "theirs", sync=False)
    theirs.put_tree(TREE)
    theirs.put_logs(LOGS, NODES)
    with SlowServer(theirs, clock) as server:
        logs = followed(tmp_path / "mine", server, lanes, clock)
        logs.tree  # noqa: B018
        logs.end_turn()  # the run is done: only moves compute its steps from now on
        server.lost |= NAMES
        for _ in range(20):
            if logs._absent:
                break
            with pytest.raises(LogsLate):
                logs.get(1)
            lanes_idle(logs)
        assert len(logs._absent) == 1
        assert logs._absent[1].failures == 1
        server.lost.clear()
        last = STEPS  # the next move needs another step, and gets it
        for _ in range(20):
            try:
                assert logs.get(last) == LOGS[last - 1]
                break
            except LogsLate:
                lanes_idle(logs)
        assert not logs.starved
        clock.on(PERIOD / 4)
        assert not logs.starved, "nothing is waited for"


@pytest.mark.parametrize("attempts", [1, 2])
def test_time_in_which_nobody_asked_is_none_in_which_a_log_was_absent(
    tmp_path: Path, lanes: Lanes, clock: Hand, attempts: int
) -> None:
    """Attack: the server is away for ten seconds. Then the run has no turn for some hours: a dispute computes, or the
    runs of strangers do. All logs were there at the next look, and were requested on the chain before it."""
    theirs = Store(tmp_path / "theirs", sync=False)
    theirs.put_tree(TREE)
    theirs.put_logs(LOGS, NODES)
    with SlowServer(theirs, clock) as server:
        logs = followed(tmp_path / "mine", server, lanes, clock)
        server.lost |= NAMES
        for _ in range(attempts):
            with pytest.raises(LogsLate):
                logs.get(1)
            clock.on(5.0)
        logs.end_turn()
        server.lost.clear()
        clock.on(PERIOD / 4)
        assert not logs.starved, f"by {attempts} failures within {5 * attempts} s"
        logs.begin_turn()
        assert logs.get(1) == LOGS[0]
