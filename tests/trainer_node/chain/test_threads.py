"""Calls share threads, and none waits for one that hangs."""

from __future__ import annotations

import threading

import pytest

from trainer_node.chain.threads import Threads


def test_calls_one_after_the_other_take_one_thread() -> None:
    threads, taken = Threads("test"), set[int]()
    for _ in range(50):
        taken.add(threads.begin(threading.get_ident).result())
    with pytest.raises(ZeroDivisionError):
        threads.begin(lambda: 1 // 0).result()
    taken.add(threads.begin(threading.get_ident).result())
    assert len(taken) == 1


def test_a_call_that_hangs_keeps_no_other_one() -> None:
    threads, free = Threads("test"), threading.Event()
    hanging = [threads.begin(free.wait) for _ in range(3)]
    assert threads.begin(lambda: 7).result(5) == 7
    free.set()
    assert all(future.result(5) for future in hanging)


def test_a_call_that_is_taken_back_is_not_run() -> None:
    threads, free, ran = Threads("test"), threading.Event(), list[int]()
    assert threads.begin(lambda: 1).result(5) == 1
    hanging = threads.begin(free.wait)
    taken_back = threads.begin(lambda: ran.append(1))
    while not (taken_back.cancel() or taken_back.done()):
        pass
    free.set()
    assert hanging.result(5)
    for _ in range(4):
        assert threads.begin(lambda: 7).result(5) == 7
    assert taken_back.done()
    assert taken_back.cancelled() != bool(ran)
