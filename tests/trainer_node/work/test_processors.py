"""Computations that share the processors: whoever has had least time goes first, from one step to the next."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

import pytest

from trainer_node.work.processors import Processors, Share

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
