"""One limit of memory for all jobs: who waits, who passes, what is kept, and nobody waits for ever."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

from trainer_node.errors import MemoryShort
from trainer_node.run.package import memory_needed, takes
from trainer_node.run.tensors import ASKED_S, MEANT_S, WHOLE, Takes, Tensors
from trainer_node.storage.store import Store

from .. import wide
from ..slow import Hand

ONE = memory_needed(wide.program(1), wide.terms(1))
"""What one of the jobs takes."""


def takes_of(number: int, size: int = 10, step: int = 0) -> Takes:
    return Takes({bytes([number]): size}, step)


def made(limit: int, sizes: dict[int, int], clock: Hand | None = None) -> Tensors:
    tensors = Tensors(limit, clock or Hand())
    for job, size in sizes.items():
        tensors.of(job, takes_of(job, size))
    return tensors


def short(tensors: Tensors, job: int, **how: Any) -> MemoryShort:
    with pytest.raises(MemoryShort) as raised, tensors.lent(job, **how):
        pass
    return raised.value


def test_a_tensor_counts_once_and_each_step_for_itself() -> None:
    tensors = Tensors(40, Hand())
    for job in (1, 2):
        tensors.of(job, Takes({b"shared": 20, bytes([job]): 5}, step=3))
    with tensors.lent(1), tensors.lent(2):
        assert tensors.used == 20 + 5 + 5 + 3 + 3
    assert tensors.used == 0


def test_a_further_run_of_a_job_takes_a_state_more() -> None:
    tensors = Tensors(50 + 4 * 10 + 3 * 7, Hand())
    tensors.of(1, Takes({b"": 50}, step=10, state=7))
    tensors.keep(1, 3)
    assert tensors.used == 50 + 3 * 10 + 2 * 7
    with tensors.lent(1):
        assert tensors.used == 50 + 3 * 10 + 2 * 7, "it is one of those that are kept"
    with tensors.lent(1, beside=True):
        assert tensors.used == tensors.limit
        assert short(tensors, 1, beside=True).waits, "a fifth one has room once the fourth is done"
    tensors.keep(1, 4)
    assert not short(tensors, 1, beside=True).waits, "all of them together take more than there is"
    tensors.let_go(1)
    assert tensors.used == 0


def test_who_waits_longest_is_passed_only_by_what_fits_beside_it() -> None:
    """A run that waits would otherwise wait for ever while others come that take less."""
    tensors = made(10, {1: 5, 2: 8, 3: 5, 4: 2, 5: 2})
    with tensors.lent(1):
        assert short(tensors, 2).waits
        with tensors.lent(4):
            assert short(tensors, 3).waits, "it would fit now, and keep the second waiting"
            assert short(tensors, 5).waits, "and so would it together with what has passed already"
    assert short(tensors, 3).waits
    with tensors.lent(2):
        pass
    with tensors.lent(3):
        pass


def test_who_waits_is_passed_by_what_takes_no_longer_than_what_it_waits_for_has_taken() -> None:
    """The attack: a job that takes all memory waits behind one that takes next to none, and the rest lies idle."""
    clock = Hand()
    tensors = made(100, {1: 1, 2: 100, 3: 5, 4: 5}, clock)
    with tensors.lent(1):
        assert short(tensors, 2).waits
        assert short(tensors, 3, lasts_s=60.0).waits
        clock.on(60.0)
        assert short(tensors, 4).waits, "nobody knows how long it takes"
        assert short(tensors, 4, lasts_s=61.0).waits
        with tensors.lent(3, lasts_s=60.0):
            pass


def test_what_has_passed_lets_nobody_pass_so_who_waits_has_its_turn() -> None:
    clock = Hand()
    tensors = made(100, {1: 1, 2: 100, 3: 5, 4: 5}, clock)
    with contextlib.ExitStack() as first, contextlib.ExitStack() as second:
        first.enter_context(tensors.lent(1))
        assert short(tensors, 2).waits
        clock.on(60.0)
        second.enter_context(tensors.lent(3, lasts_s=60.0))
        first.close()
        clock.on(60.0)
        assert short(tensors, 4, lasts_s=1.0).waits, "or small ones would keep it waiting for ever"
    with tensors.lent(2):
        assert short(tensors, 4, lasts_s=1.0).waits
    with tensors.lent(4):
        pass


def test_what_is_not_in_the_way_of_who_waits_lets_nobody_pass() -> None:
    """One that goes on for days takes little; who waits has room as soon as the other is done."""
    clock = Hand()
    tensors = made(100, {1: 1, 2: 50, 3: 60, 4: 45}, clock)
    with tensors.lent(1):
        clock.on(86_400.0)
        with tensors.lent(2):
            assert short(tensors, 3).waits
            clock.on(60.0)
            assert short(tensors, 4, lasts_s=61.0).waits
            with tensors.lent(4, lasts_s=60.0):
                pass


def test_who_came_first_is_no_passer_for_those_behind_it() -> None:
    clock = Hand()
    tensors = made(100, {1: 60, 2: 60, 3: 60, 4: 10}, clock)
    with tensors.lent(1):
        assert short(tensors, 2).waits
        assert short(tensors, 3).waits
    with tensors.lent(2):
        assert short(tensors, 3).waits
        with tensors.lent(4):
            pass


def test_runs_are_waited_for_only_by_who_has_room_once_they_give_back_theirs() -> None:
    tensors = made(100, {1: 40, 2: 40, 3: 100, 4: 90, 5: 20})
    with tensors.lent(1), tensors.lent(2), tensors.lent(5, beside=True):
        assert not tensors.waited_for([1, 2]), "nobody waits"
        assert short(tensors, 3).waits
        assert not tensors.waited_for([1, 2]), "an interval has some, too"
        tensors.forget(3)
        tensors.of(4, takes_of(4, 80))
        assert short(tensors, 4).waits
        assert tensors.waited_for([1, 2])
        assert not tensors.waited_for([1])
        assert not tensors.waited_for([])


def test_measurements_pass_one_another_and_no_run() -> None:
    tensors = made(10, {1: 5, 2: 8, 3: 5})
    with tensors.lent(1):
        assert short(tensors, 2, dry_run=True).waits
        with tensors.lent(3, dry_run=True):
            pass
        assert short(tensors, 3).waits, "a run lasts, so it waits for what is to be measured"
    tensors = made(10, {1: 5, 2: 8, 3: 5})
    with tensors.lent(1, dry_run=True):
        assert short(tensors, 2).waits
        assert short(tensors, 3, dry_run=True).waits


def test_who_asks_no_more_keeps_nobody_waiting() -> None:
    clock = Hand()
    tensors = made(10, {1: 5, 2: 8, 3: 5}, clock)
    with tensors.lent(1):
        short(tensors, 2)
        short(tensors, 3)
        tensors.forget(2)
        with tensors.lent(3):
            pass
    tensors = made(10, {1: 5, 2: 8, 3: 5}, clock)
    with tensors.lent(1):
        short(tensors, 2)
        clock.on(ASKED_S)
        with tensors.lent(3):
            pass


def test_what_cannot_fit_beside_stakes_is_declined_and_holds_no_place() -> None:
    tensors = made(10, {1: 5, 2: 8, 3: 5})
    tensors.keep(1)
    declined = short(tensors, 2)
    assert not declined.waits
    assert "it takes 8 bytes of memory, and 5 are kept" in str(declined)
    with tensors.lent(3):
        pass


def test_what_must_be_played_waits_for_nobody() -> None:
    tensors = made(10, {1: 10, 2: 10})
    with tensors.lent(1), tensors.lent(2, must=True):
        assert tensors.used == 20


def test_room_for_a_stake_that_was_never_given_is_given_back() -> None:
    clock = Hand()
    tensors = made(10, {1: 10, 2: 10}, clock)
    assert tensors.too_full(1) is None
    assert tensors.too_full(2) is None, "who only asks has nothing"
    tensors.mean(1)
    assert tensors.too_full(2) is not None
    clock.on(MEANT_S)
    assert tensors.too_full(2) is None


def test_room_for_an_interval_that_nobody_serves_is_kept_half_of_the_time() -> None:
    """The attack: it is due in each round, and never here, so the room was kept for as long as its job lasted."""
    clock = Hand()
    tensors, kept = made(10, {1: 10, 2: 10}, clock), list[bool]()
    for _ in range(80):
        tensors.mean(1, of=("part",), here=())
        kept.append(tensors.too_full(2) is not None)
        clock.on(MEANT_S / 20)
    assert kept == [*[True] * 20, *[False] * 20] * 2
    tensors.mean(1, of=("part",))
    assert tensors.too_full(2) is not None, "it is here"


@pytest.mark.parametrize("attackers", [1, 2, 3])
def test_what_is_here_does_not_wait_for_what_nobody_serves(attackers: int) -> None:
    """The attack: two lies whose servers stall took the room by turns, each while the other paused, and a third one, in
    memory, was never staked on."""
    clock, stalled = Hand(), range(1, attackers + 1)
    tensors = made(15, dict.fromkeys((*stalled, 9), 10), clock)
    tensors.idle(9, lambda: None, "part")
    for _ in range(40):
        for job in stalled:
            if tensors.too_full(job, part=True) is None:
                tensors.mean(job, of=("part",), here=())
        assert tensors.too_full(9, part=True, of=("part",)) is None
        if attackers > 1:
            assert tensors.too_full(9, part=True, of=("another",)) is not None, (
                "it is not the one that is here"
            )
            assert tensors.too_full(9, 2, part=True, of=("part", "another")) is not None
        clock.on(MEANT_S / 10)
    tensors.mean(9, of=("part",), here=("part",))
    tensors.keep(9, of=("part",))
    assert tensors.too_full(1, part=True) is not None


def test_what_is_here_does_not_wait_for_a_lie_of_its_own_job_that_nobody_serves() -> None:
    tensors = Tensors(15)
    tensors.of(1, Takes(step=10))
    tensors.mean(1, of=("stalled",), here=())
    tensors.idle(1, lambda: None, "part")
    tensors.mean(1, of=("part",), here=("part",))
    assert tensors.too_full(1, part=True, of=("part",)) is None
    assert tensors.too_full(1, 2, part=True, of=("part", "stalled")) is not None


def test_what_stakes_of_one_job_are_about_to_be_sent_on_adds_up() -> None:
    """The attack: a claim and a refutation of a job were due in the same look. The room of the one was meant in place
    of the other's, and more was in memory than the limit."""
    tensors, gone = Tensors(20), list[str]()
    for job in (1, 2):
        tensors.of(job, Takes(step=10))
    for name in (WHOLE, "part"):
        tensors.idle(1, lambda name=name: gone.append(str(name)), name)  # type: ignore[misc]
    tensors.mean(1)
    tensors.mean(1, ("part",), here=("part",))
    assert tensors.used == 20
    with pytest.raises(MemoryShort), tensors.lent(2, waits=False):
        pass
    assert gone == []
    tensors.keep(1, of=("part",))
    assert tensors.used == 20, "one of them is staked on"


def test_a_further_stake_fits_beside_what_is_meant_of_its_job() -> None:
    tensors = Tensors(20)
    tensors.of(1, Takes(step=10))
    tensors.mean(1, ("part",))
    assert tensors.too_full(1) is None
    assert tensors.too_full(1, 2, part=True) is None
    tensors.mean(1, ("other part",))
    assert tensors.too_full(1, 2, part=True) is None, "these"
    assert tensors.too_full(1) is not None, "the whole run"


def test_idle_runs_give_way_the_oldest_first() -> None:
    tensors, gone = made(20, {1: 10, 2: 10, 3: 10}), list[int]()
    for job in (1, 2):
        with tensors.lent(job):
            tensors.idle(job, lambda job=job: gone.append(job))  # type: ignore[misc]
    with tensors.lent(3):
        assert gone == [1]
    tensors.keep(2)
    with tensors.lent(3):
        assert gone == [1], "what is kept never does"


def test_a_tensor_in_memory_is_shared_and_goes_with_its_last_user(tmp_path: Path) -> None:
    store, array = Store(tmp_path, sync=False), wide.tensors(1)[0]
    name = store.put_tensor(array)
    tensors = Tensors(1 << 30)
    (first,), (second,) = tensors.read(store, [name]), tensors.read(store, [name])
    assert first is second
    del first, second
    assert not tensors._shared


def test_what_a_job_takes_is_what_it_needs() -> None:
    found = takes(wide.program(1), wide.terms(1))
    assert found.alone == ONE
    assert found.beside(2) == 2 * found.step + found.state
