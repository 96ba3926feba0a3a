"""Intervals of a run in several processes of this machine.

Each process opens the run by its address and checks every byte itself; only numbers go in and findings come out. A
process that dies (out of memory, killed) takes nothing with it: its intervals are checked again, each at most twice.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import multiprocessing
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path

import repops

from referee_py.errors import Unavailable

from ..local.claim_file import Claim
from ..storage.store import Store
from .address import Address
from .interval import Auditor, Finding, Verdict, computes
from .job import JobRun
from .published import PublishedRun

ATTEMPTS = 2
"""Attempts at an interval whose process dies."""


@dataclass(frozen=True)
class Task:
    """Data with which a process opens a run. ``root``: that of claim.json, as hexadecimal digits; ``identity``:
    the claim that it must be (`ClaimedRun.identity`), or "".

    A run of a job on a chain has its ``claim`` (the content of a claim.json) and ``servers``, and no address.
    """

    address: str
    cache: Path
    root: str
    max_memory: int
    device: str = "cpu"
    evaluator: str = "torch"
    threads: int | None = None
    back: int = 0
    claim: str = ""
    servers: tuple[str, ...] = ()
    identity: str = ""

    def published(self) -> PublishedRun:
        """Return the run. Raises Unavailable, InvalidInput."""
        store = Store(self.cache, sync=False)
        if self.claim:
            return JobRun(Claim.model_validate_json(self.claim), self.servers, store)
        run = PublishedRun(Address(self.address), store, bytes.fromhex(self.root) if self.root else None)
        # SAFETY: claim.json is read again here, and a publisher can claim something else by now under the same root.
        if self.identity and run.identity != self.identity:
            raise Unavailable(
                f"{self.address} claims another program or other logs than when the audit began"
            )
        return run

    def open(self) -> Auditor:
        if self.threads is not None:
            repops.set_num_threads(self.threads)
        run = self.published()
        return Auditor(run, self.max_memory, computes(run.terms.mode, self.device, self.evaluator), self.back)


_auditor: Auditor | None = None


def _begin(task: Task) -> None:
    global _auditor
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # NOTE: Ctrl-C is for the process that waits for us
    _auditor = task.open()


def _check(interval: int) -> Finding:
    assert _auditor is not None
    return _auditor.check(interval)


def findings(task: Task, intervals: Sequence[int], processes: int) -> Iterator[Finding]:
    """Yield the findings of intervals, as they are ready."""
    if processes == 1:
        auditor = task.open()
        yield from map(auditor.check, intervals)
        return
    left = dict.fromkeys(intervals, ATTEMPTS)
    while left:
        with contextlib.suppress(BrokenProcessPool):
            for finding in _round(task, list(left), processes):
                del left[finding.interval]
                yield finding
        # NOTE: one death breaks the pool for all, so each interval that was lost counts one attempt.
        left = {interval: attempts - 1 for interval, attempts in left.items()}
        for interval in [interval for interval, attempts in left.items() if not attempts]:
            del left[interval]
            reason = "its process died twice; is there enough memory and disk?"
            yield Finding(interval, 0, 0, Verdict.UNCHECKED, reason)


def _round(task: Task, intervals: Sequence[int], processes: int) -> Iterator[Finding]:
    context = multiprocessing.get_context("spawn")
    pool = concurrent.futures.ProcessPoolExecutor(
        min(processes, len(intervals)), mp_context=context, initializer=_begin, initargs=(task,)
    )
    try:
        waiting = [pool.submit(_check, interval) for interval in intervals]
        for future in concurrent.futures.as_completed(waiting):
            yield future.result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def threads_for(processes: int) -> int:
    """Return the threads of a kernel in each of some processes, which share those that one would use."""
    return max(1, repops.get_num_threads() // processes)
