"""Turns of the threads that compute with a node's runs."""

from __future__ import annotations

import threading

import pytest

from referee_py.pauses import asked, between_operators
from trainer_node.run.turns import Turns


@pytest.mark.parametrize("kind", ["move", "answer"])
def test_nobody_goes_first_in_the_midst_of_a_turn(kind: str) -> None:
    """Or moves of all jobs would wait for a stranger's run, which has the processors meanwhile."""
    breaks = list[str]()
    turns = Turns()
    with between_operators(lambda: breaks.append("a break")):
        with turns.move() if kind == "move" else turns.answer():
            act = asked()
            if act is not None:
                act()
        assert breaks == []
        act = asked()
        assert act is not None
        act()
    assert breaks == ["a break"]


def test_a_move_goes_before_answers_that_wait() -> None:
    turns, order = Turns(), list[str]()
    begun, end = threading.Event(), threading.Event()

    def first() -> None:
        with turns.answer():
            begun.set()
            assert end.wait(60)

    def later(kind: str) -> None:
        with turns.move() if kind == "move" else turns.answer():
            order.append(kind)

    threads = [threading.Thread(target=first)]
    threads[0].start()
    assert begun.wait(60)
    threads += [threading.Thread(target=later, args=(kind,)) for kind in ("answer", "move")]
    for thread in threads[1:]:
        thread.start()
    while not turns._moves:
        pass
    end.set()
    for thread in threads:
        thread.join(60)
    assert order == ["move", "answer"]
