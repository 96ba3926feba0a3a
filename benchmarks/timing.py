"""Timing on a machine that also does other work.

Functions take turns, so that all meet the same conditions. A turn is the fastest of a few bursts, since another process
can only add time; the median over turns counts.

NOTE: OpenMP's threads wait for more work by spinning. So each turn begins with a pause, in which the threads of the
previous function fall asleep, and with an untimed call, which wakes those of its own.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import repops
import torch

BURST_S = 0.003
BURSTS = 5
PAUSE_S = 0.003
WARM_UP = 3

Work = Callable[[], object]
Clock = Callable[[], float]


def _burst(work: Work, calls: int, clock: Clock) -> float:
    """Return seconds per call."""
    began = clock()
    for _ in range(calls):
        work()
    return (clock() - began) / calls


def _turn(work: Work, calls: int, clock: Clock) -> float:
    time.sleep(PAUSE_S)
    work()
    return min(_burst(work, calls, clock) for _ in range(BURSTS))


def take_turns(works: Sequence[Work], turns: int, clock: Clock = time.perf_counter) -> list[list[float]]:
    """Return seconds per call of each function, by turn. A burst lasts about 3 ms, or one call.

    By `time.process_time` a busy machine matters less; it counts all threads of the process.
    """
    calls = [
        max(1, round(BURST_S / min(_burst(work, 1, time.perf_counter) for _ in range(WARM_UP))))
        for work in works
    ]
    times: list[list[float]] = [[] for _ in works]
    for _ in range(turns):
        for found, work, count in zip(times, works, calls, strict=True):
            found.append(_turn(work, count, clock))
    return times


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch and repops compute in one thread."""
    threads = torch.get_num_threads(), repops.get_num_threads()
    torch.set_num_threads(1)
    repops.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads[0])
        repops.set_num_threads(threads[1])


def medians(times: Sequence[Sequence[float]]) -> list[float]:
    return [statistics.median(found) for found in times]


def ratio(numerators: Sequence[float], denominators: Sequence[float]) -> float:
    """Return the median over turns of the ratio."""
    return statistics.median(a / b for a, b in zip(numerators, denominators, strict=True))
