"""Attack: the endpoint that serves shows for one look a running job of ours without our stake. What the stake rests on
(ether, room on the disk, memory, what is known of its duties) went to strangers' jobs in that very round."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.trainer_node.desk import until
from tests.trainer_node.storage.test_considered import Disk, disk  # noqa: F401
from tests.trainer_node.storage.test_resting_states import ONE, Runs
from trainer_node.chain import JobView

from .sampling.test_siege import INTERVAL, Siege, refuted, siege  # noqa: F401
from .test_ends_that_nobody_confirms import ENDED, RUNS, WITHOUT_OURS, Process


@pytest.fixture
def begun(tmp_path: Path) -> Callable[[], Process]:
    return lambda: Process(tmp_path, lambda _: None)


def test_its_ether_stays_kept_until_others_confirm_that_it_is_gone(begun: Callable[[], Process]) -> None:
    process = begun()
    process.looks(RUNS)
    kept = process.node.reserve.kept(1)
    assert kept > 0
    for _ in range(2):
        process.looks(WITHOUT_OURS, lies=True)
        assert (process.queue.ours(1), process.node.reserve.kept(1)) == (True, kept)
    process.later()
    process.looks(WITHOUT_OURS)
    assert (process.queue.ours(1), process.node.reserve.kept(1)) == (False, 0)


def test_the_ether_of_a_stake_that_no_look_has_shown_yet_stays_kept(begun: Callable[[], Process]) -> None:
    process, room = begun(), list[bool]()
    process.node.keeper.stake = lambda number, of: room.append(of) if number == 1 else None
    process.node.reserve.staking(1, 7)
    process.looks(WITHOUT_OURS, lies=True)
    assert process.node.reserve.kept(1) == 7
    assert room == [True]
    process.later()
    process.looks(WITHOUT_OURS)
    assert process.node.reserve.kept(1) == 0


def test_its_duties_stay_known_also_after_a_restart(begun: Callable[[], Process]) -> None:
    freed = list[int]()
    for shown in (RUNS, WITHOUT_OURS):
        process = begun()
        process.node.duties.free = lambda number: freed.append(number) if number == 1 else None
        process.looks(shown, lies=shown is WITHOUT_OURS)
        assert freed == []
    process.later()
    process.looks(WITHOUT_OURS)
    assert freed == [1]


def _hidden(begun: Callable[[], Process], disk: Disk) -> tuple[Runs, Process]:  # noqa: F811
    """Return a disk's runs, and the process whose run and stake of job 1 one look has hidden."""
    runs, process = Runs(disk), begun()
    runs.put(1)
    process.node.keeper = disk.keeper
    process.looks(RUNS)
    process.looks(WITHOUT_OURS, lies=True)
    return runs, process


def test_the_states_of_its_run_stay(begun: Callable[[], Process], disk: Disk) -> None:  # noqa: F811
    """A stranger's job that does not fit asks for room in the same round."""
    runs, process = _hidden(begun, disk)
    assert not runs.ask(ONE)
    assert runs.whole == {1}
    process.later()
    process.looks(WITHOUT_OURS)
    assert 1 in disk.keeper._resting(), "once others confirm that nothing rests on it"


def test_on_a_full_disk_all_that_it_holds_stays(begun: Callable[[], Process], disk: Disk) -> None:  # noqa: F811
    runs, _ = _hidden(begun, disk)
    disk.keeper.make_room(1 << 60)
    assert runs.whole == {1}
    assert disk.has(runs.packages[1]) == [True]


@pytest.mark.parametrize("shown", [WITHOUT_OURS, ENDED])
def test_a_runner_is_told_to_keep_what_it_has(begun: Callable[[], Process], shown: JobView) -> None:
    process = begun()
    process.looks(RUNS)
    assert not process.runner.keeps(1)
    process.looks(shown, lies=True)
    assert process.runner.keeps(1)
    process.looks(RUNS)
    assert not process.runner.keeps(1)


def test_what_we_have_refuted_stays_in_memory(siege: Siege) -> None:  # noqa: F811
    of, node = siege.job(1, siege.lie), siege.node
    siege.prepared(of)
    refuted(siege)
    until(lambda: siege.check(of, ours=True) == [[INTERVAL]])
    rests = (siege.run.root, INTERVAL)
    node.keeps = lambda _: True
    siege.check(of)
    assert node._checks[1].refuted == (rests,)
    assert (node._tensors.kept(1), node._works[1].ours) == (1, True)
    node.keeps = lambda _: False
    siege.check(of)
    assert node._checks[1].refuted == ()
    assert (node._tensors.kept(1), node._works[1].ours) == (0, False)
