"""Computations that share the processors: whoever has had least time goes first, from one step to the next."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

import pytest

from trainer_node.compute.processors import Processors, Share

from ..desk import until
from ..slow import Hand


class Desk:
    """Computations whose steps take a second each, by a clock that only they move."""

    def __init__(self) -> None:
        self.clock, self.done = Hand(), list[str]()
        self.processors = Processors(self.clock)
        self.threads = list[threading.Thread]()

    def compute(self, name: str, steps: int, before: Callable[[int], None] = lambda _: None) -> None:
        def work() -> None:
            with self.processors.share() as pass_on:
                for step in range(steps):
                    before(step)
                    self.clock.on(1.0)
                    self.done.append(name)
                    pass_on()

        self.threads.append(threading.Thread(target=work))
        self.threads[-1].start()

    def arrive(self, *works: tuple[str, int]) -> None:
        """Begin further computations, and wait until they wait for the processors."""
        for name, steps in works:
            waiting = len(self.processors._waiting) + 1
            self.compute(name, steps)
            until(partial(self.waits, waiting))

    def waits(self, count: int) -> bool:
        return len(self.processors._waiting) == count

    def end(self) -> str:
        for thread in self.threads:
            thread.join(60)
        return "".join(self.done)


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_a_new_one_begins_after_one_step_and_ends_before_what_is_longer(desk: Desk) -> None:
    def others(step: int) -> None:
        if step == 4:
            desk.arrive(("b", 3), ("c", 1))

    desk.compute("a", 8, others)
    assert desk.end() == "aaaaa" + "bc" + "bb" + "aaa"


def test_those_that_have_had_the_same_take_steps_in_turn(desk: Desk) -> None:
    def others(step: int) -> None:
        if step == 0:
            desk.arrive(("b", 4))

    desk.compute("a", 4, others)
    found = desk.end()
    assert all(abs(found[:n].count("a") - found[:n].count("b")) <= 1 for n in range(9))


def test_one_that_leaves_when_it_is_its_turn_holds_up_nobody(desk: Desk) -> None:
    """Told to leave while another computes, or just as that one is done."""
    first, went = Share(ours=True), threading.Event()

    def leaves() -> None:
        with desk.processors.share(first) as pass_on:
            assert pass_on()
        went.set()

    def others(step: int) -> None:
        if step == 0:
            desk.threads.append(threading.Thread(target=leaves))
            desk.threads[-1].start()
            until(partial(desk.waits, 1))
            desk.arrive(("b", 2))
            desk.processors.leave(first)

    desk.compute("a", 3, others)
    assert sorted(desk.end()) == sorted("aaabb")
    assert went.is_set()


def test_what_our_stake_rests_on_goes_first_and_in_its_order(desk: Desk) -> None:
    shares, done = [Share(ours=True, came=1, had_s=9.0), Share(ours=True, came=2), Share()], list[int]()

    def work(number: int) -> None:
        with desk.processors.share(shares[number]) as pass_on:
            for _ in range(2):
                done.append(number)
                desk.clock.on(1.0)
                pass_on()

    with desk.processors.share():
        desk.threads += [threading.Thread(target=work, args=(number,)) for number in (2, 1, 0)]
        for thread in desk.threads:
            thread.start()
        until(partial(desk.waits, 3))
    desk.end()
    assert done == [0, 0, 1, 1, 2, 2]


def test_one_that_fails_leaves_the_processors_to_the_next(desk: Desk) -> None:
    def fails() -> None:
        with desk.processors.share():
            desk.arrive(("b", 2))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert desk.end() == "bb"


def test_a_share_is_kept_over_all_pieces_of_a_computation(desk: Desk) -> None:
    """The attack: each of many short pieces began as if nothing had been computed for it, and went first."""
    pieces = Share()

    def in_pieces() -> None:
        for _ in range(6):
            with desk.processors.share(pieces):
                desk.clock.on(1.0)
                desk.done.append("a")
            until(lambda: desk.processors._holder is not None or not desk.processors.wanted)

    def others(step: int) -> None:
        if step == 0:
            desk.threads.append(threading.Thread(target=in_pieces))
            desk.threads[-1].start()
        until(lambda: desk.processors.wanted or not desk.threads[-1].is_alive())

    desk.compute("b", 6, others)
    found = desk.end()
    assert all(abs(found[:n].count("a") - found[:n].count("b")) <= 1 for n in range(13))


def test_each_has_time_for_what_it_is_worth_however_that_is_divided(desk: Desk) -> None:
    """Four that are worth one have together what one has that is worth four."""
    shares = [Share(worth=4.0), *(Share(worth=1.0) for _ in range(4))]
    done = list[int]()

    def work(number: int) -> None:
        with desk.processors.share(shares[number]) as pass_on:
            for _ in range(40 if number == 0 else 10):
                done.append(number)
                desk.clock.on(1.0)
                pass_on()

    with desk.processors.share():
        desk.threads += [threading.Thread(target=work, args=(number,)) for number in range(5)]
        for thread in desk.threads:
            thread.start()
        until(partial(desk.waits, 5))
    desk.end()
    assert len(done) == 80
    assert all(abs(done[:n].count(0) - n / 2) <= 4 for n in range(81))


def test_of_those_that_have_had_the_same_the_one_that_ends_first_begins(desk: Desk) -> None:
    """And who names an early end has no more by it."""
    done = list[str]()

    def work(name: str, ends: float) -> None:
        with desk.processors.share(Share(), ends) as pass_on:
            for _ in range(2):
                done.append(name)
                desk.clock.on(1.0)
                pass_on()

    with desk.processors.share(Share(ours=True)):
        for name, ends in (("late", 99.0), ("later", 100.0), ("soon", 5.0)):
            desk.threads.append(threading.Thread(target=work, args=(name, ends)))
            desk.threads[-1].start()
            until(partial(desk.waits, len(desk.threads)))
    desk.end()
    assert done == ["soon", "late", "later"] * 2


@pytest.mark.parametrize("waiting", [10, 100])
def test_a_step_looks_once_at_each_that_waits_and_wakes_the_one_that_is_due(desk: Desk, waiting: int) -> None:
    """The attack: each of those that wait was woken at each step, and compared itself with all others."""
    asked, steps, stop = [0], [0], threading.Event()

    class Counted(Share):
        @property
        def rank(self) -> tuple[int, float, int]:
            asked[0] += 1
            return 1, self.had_s, 0

    def work() -> None:
        with desk.processors.share(Counted()) as pass_on:
            while not stop.is_set():
                steps[0] += 1
                desk.clock.on(1.0)
                pass_on()

    with desk.processors.share():
        desk.threads += [threading.Thread(target=work) for _ in range(waiting)]
        for thread in desk.threads:
            thread.start()
        until(partial(desk.waits, waiting))
        asked[0] = 0
    until(lambda: steps[0] >= 50)
    stop.set()
    desk.end()
    assert asked[0] <= 3 * (waiting + 1) * (steps[0] + waiting + 1)


def test_a_step_that_lasts_lets_others_go_first_in_its_midst(desk: Desk) -> None:
    """The attack: data with which one step takes an hour, and whoever comes meanwhile waits for its end."""

    def slow() -> None:
        with desk.processors.share() as held:
            for part in range(6):
                desk.clock.on(1.0)
                desk.done.append("s")
                if part == 2:
                    desk.arrive(("a", 2), ("b", 1))
                assert not held.in_step()

    desk.threads.append(threading.Thread(target=slow))
    desk.threads[-1].start()
    assert desk.end() == "sss" + "aba" + "sss"


def test_one_that_must_leave_has_the_processors_until_its_step_is_done(desk: Desk) -> None:
    mine, told = Share(), list[bool]()
    with desk.processors.share(mine) as held:
        desk.arrive(("a", 1))
        mine.had_s = 5.0
        desk.processors.leave(mine)
        told.append(held.in_step())
        assert desk.end() == "a", "it waited for its turn all the same"
        assert desk.processors._holder is held.place
        told.append(held())
        assert desk.processors._holder is None
    assert told == [True, True]


def test_of_our_stakes_the_one_that_is_due_first_goes_first() -> None:
    """The attack: a job with a long training period turns out slow, and all that came after it are not done in time."""
    slow, short, needed = (Share(ours=True, due=due, came=came) for came, due in enumerate((9e9, 600.0, 0.0)))
    stranger, again = Share(), Share(ours=True, due=600.0, came=7)
    assert sorted((stranger, slow, again, short, needed), key=lambda one: one.rank) == [
        needed,
        short,
        again,
        slow,
        stranger,
    ]


def test_one_that_takes_longer_than_was_promised_goes_behind_those_that_do_not() -> None:
    slow, usual = Share(ours=True, due=600.0, promised_s=60.0), Share(ours=True, due=9e9, promised_s=60.0)
    assert slow.rank < usual.rank
    slow.had_s = 61.0
    assert usual.rank < slow.rank < Share().rank
    slow.due = 0.0
    assert slow.rank < usual.rank, "what a dispute waits for is needed at once"
