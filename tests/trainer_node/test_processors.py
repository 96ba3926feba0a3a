"""Computations that share the processors: whoever has had least time goes first, from one step to the next."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

import pytest

from trainer_node.processors import Processors

from .desk import until
from .slow import Hand


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


def test_one_that_fails_leaves_the_processors_to_the_next(desk: Desk) -> None:
    def fails() -> None:
        with desk.processors.share():
            desk.arrive(("b", 2))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert desk.end() == "bb"
