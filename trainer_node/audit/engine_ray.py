"""Intervals on the machines of a Ray cluster: the tasks carry addresses, numbers and hashes.

Each worker opens the run by its address and checks every byte itself. Its machine keeps what it has fetched in the
user's cache folder, under the root. A worker or machine that dies takes nothing with it: its intervals are checked
again, each at most `ATTEMPTS` times.

SAFETY: Ray runs what its members send each other, as code. Whoever starts an audit trusts the whole cluster, as he
trusts his own machine; what the publisher sends is data everywhere.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

from referee_py.errors import AssayError, InvalidEncoding, InvalidInput

from .engine import IntervalReport
from .interval import Auditor, Finding, Verdict
from .pool import ATTEMPTS, Task
from .published import PublishedRun

LOCAL = "local"
WINDOW = 4096
"""Number of tasks that the cluster has at once."""


def reports_by_ray(
    run: PublishedRun, task: Task, intervals: Sequence[int], jobs: int, address: str
) -> Iterator[IntervalReport]:
    """Yield the reports of intervals, as they are ready, from ``jobs`` tasks at once on each machine of a cluster.

    ``address``: of the cluster, or `LOCAL` to start one on this machine. On "cuda" each task has one GPU. A report has
    the kernels of the machine that computed it. Raises InvalidInput without Ray, cluster or GPU.
    """
    ray = _ray()
    if not intervals:
        return
    _join(ray, address)
    try:
        yield from _Tasks(ray, run, task, jobs).reports(intervals)
    finally:
        # NOTE: leaving ends our tasks and their processes. Ray 2.60's `cancel` aborts this process now and then, if a
        # task ends at the same moment.
        ray.shutdown()


class _Tasks:
    """The tasks of one audit on a cluster that this process has joined."""

    def __init__(self, ray: Any, run: PublishedRun, task: Task, jobs: int) -> None:
        self._ray, self._run, self._device = ray, run, task.device
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        cores = [int(node["CPU"]) for node in nodes if node.get("CPU", 0) >= 1]
        gpus = sum(node.get("GPU", 0) for node in nodes)
        if not cores or (task.device == "cuda" and not gpus):
            raise InvalidInput(
                f"the cluster has {sum(cores)} cores and {gpus:.0f} GPUs; add machines with what --device "
                f"{task.device} needs"
            )
        # NOTE: by default Ray ends a process after each task that has a GPU; ours keep the program that they opened.
        need = {"num_gpus": 1} if task.device == "cuda" else {}
        each = max(1, min(cores) // jobs)
        self._remote = ray.remote(num_cpus=each, max_calls=0, max_retries=0, **need)(check)
        local = "://" in task.address or not task.address
        address = task.address if local else str(Path(task.address).resolve())
        # NOTE: no path of this machine but the run's; each worker has a cache of its own.
        self._fixed = replace(task, address=address, cache=Path(), threads=each, identity=run.identity)
        self._pending: dict[Any, int] = {}

    def reports(self, intervals: Sequence[int]) -> Iterator[IntervalReport]:
        left = dict.fromkeys(intervals, ATTEMPTS)
        waiting = list(reversed(intervals))
        while left:
            while waiting and len(self._pending) < WINDOW:
                interval = waiting.pop()
                self._pending[self._remote.remote(asdict(self._fixed), interval)] = interval
            ready, _ = self._ray.wait(list(self._pending), num_returns=1)
            for done in ready:
                interval = self._pending.pop(done)
                report, reason = self._result(done, interval)
                left[interval] -= 1
                if report is None and left[interval]:
                    waiting.append(interval)
                    continue
                del left[interval]
                yield report or self._unchecked(interval, reason)

    def _result(self, done: Any, interval: int) -> tuple[IntervalReport | None, str]:
        """Return the report of a task that has ended; None and why, if there is none."""
        try:
            found = self._ray.get(done)
        except self._ray.exceptions.RayError as error:
            return None, f"the worker has failed {ATTEMPTS} times: {_brief(error)}"
        # SAFETY: plain bytes, which are read like a file of a stranger.
        try:
            report = IntervalReport.read(found if type(found) is bytes else b"", self._run)
        except InvalidEncoding as error:
            return None, f"the worker has answered {ATTEMPTS} times with {_brief(error)}"
        if report.finding.interval != interval or report.device != self._device:
            return None, f"the worker has answered {ATTEMPTS} times about something else"
        return report, ""

    def _unchecked(self, interval: int, reason: str) -> IntervalReport:
        finding = Finding(interval, *self._run.span(interval), Verdict.UNCHECKED, reason)
        return IntervalReport.of(self._run, self._device, finding)


def check(fields: dict[str, Any], interval: int) -> bytes:
    """Check an interval in a worker; return a report as JSON. A run that cannot be opened is UNCHECKED."""
    task = Task(**fields)
    try:
        auditor = _opened(task)
    except AssayError as error:
        raise RuntimeError(f"this worker cannot open the run: {_brief(error)}") from None
    return IntervalReport.of(auditor.published, task.device, auditor.check(interval)).to_json()


@cache
def _opened(task: Task) -> Auditor:
    # NOTE: Ray ends processes without notice, so folders of their own would stay for ever, one for each.
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "assay" / "audit" / task.root
    return replace(task, cache=folder).open()


def _ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise InvalidInput(f"--engine ray needs Ray ({error}); install the extra ray") from error
    return ray


def _join(ray: Any, address: str) -> None:
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        # NOTE: where nobody listens, Ray tries for minutes.
        if port.isdecimal():
            socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
    except (OSError, OverflowError) as error:
        raise InvalidInput(f"--address {address[:80]!r}: nobody answers there: {_brief(error)}") from error
    os.environ.setdefault(
        "RAY_USAGE_STATS_ENABLED", "0"
    )  # NOTE: Ray reports its use to its makers by default
    try:
        ray.init(address, log_to_driver=False, logging_level="error", configure_logging=False)
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        raise InvalidInput(f"--address {address[:80]!r}: no Ray cluster: {_brief(error)}") from error


def _brief(error: Exception) -> str:
    said = getattr(error, "cause", None) or error
    return " ".join(str(said).split())[:300]
