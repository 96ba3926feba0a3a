"""Where a node computes: fetches a job's package and runs it in a thread of its own, while the node watches the chain.

    prepare(job)   True once the package is here and checked
    train(job)     the claim, once the run is done
    replay(job)    the finished run, for a dispute

All three answer at once. A job whose package is not sound is refused for good; one that nobody serves is tried again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import structlog

from referee_py.errors import AssayError, Unavailable
from referee_py.execute import Backend, Claim

from .chain import Job
from .db import Database
from .faults import Fault
from .fetch import Fetcher
from .package import Package, load
from .replay import Checkpoint, Interrupted, Replay

RETRY_S = 5.0
PROGRESS_S = 0.5

_log = structlog.get_logger(__name__)


@dataclass
class _Work:
    package: Future[Package] | None = None
    claim: Future[Claim] | None = None
    replay: Replay | None = None
    refused: str | None = None
    retry_at: float = field(default=0.0)


class _Checkpoints:
    """A job's checkpoints in the node's database."""

    def __init__(self, database: Database, job_id: int) -> None:
        self._database = database
        self._job_id = job_id

    def all(self) -> Sequence[Checkpoint]:
        found = []
        for step, root in self._database.checkpoints(self._job_id).items():
            row = self._database.get_checkpoint(self._job_id, step)
            assert row is not None
            found.append(Checkpoint(step, root, tuple(row[1])))
        return found

    def add(self, checkpoint: Checkpoint) -> None:
        self._database.put_checkpoint(self._job_id, checkpoint.step, checkpoint.root, list(checkpoint.slots))


class Workshop:
    """One worker thread. ``fault`` and ``fault_step`` make it a liar's (trainer_node/faults.py)."""

    def __init__(
        self,
        fetcher: Fetcher,
        database: Database,
        backend: Backend,
        *,
        max_memory: int,
        fault: Fault = Fault.NONE,
        fault_step: int = 1,
    ) -> None:
        self._fetcher = fetcher
        self._database = database
        self._backend = backend
        self._max_memory = max_memory
        self._fault = fault
        self._fault_step = fault_step
        self._works: dict[int, _Work] = {}
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="workshop")
        self._stop = threading.Event()

    def prepare(self, job: Job) -> bool:
        """Whether the job's package is here; False while it is fetched or not served, and if it is refused."""
        return self._package(job) is not None

    def refused(self, job_id: int) -> str | None:
        """Why the job was refused, if it was."""
        work = self._works.get(job_id)
        return work.refused if work else None

    def train(self, job: Job) -> Claim | None:
        """The job's claim, once it is computed; None until then."""
        package = self._package(job)
        if package is None:
            return None
        work = self._works[job.id]
        if work.claim is None:
            work.claim = self._worker.submit(self._train, job.id, work, package)
        if not work.claim.done():
            return None
        return work.claim.result()

    def replay(self, job_id: int) -> Replay:
        """The run of a job that has been trained."""
        replay = self._works[job_id].replay
        assert replay is not None
        return replay

    @property
    def busy(self) -> bool:
        """Whether something is being fetched or computed."""
        futures = [future for work in self._works.values() for future in (work.package, work.claim)]
        return any(future is not None and not future.done() for future in futures)

    def close(self) -> None:
        """Stop after the current step and wait for that. What is done is on disk."""
        self._stop.set()
        self._worker.shutdown(wait=True, cancel_futures=True)

    # ------------------------------------------------------------------ inside

    def _package(self, job: Job) -> Package | None:
        work = self._works.setdefault(job.id, _Work())
        if work.refused is not None or time.monotonic() < work.retry_at:
            return None
        if work.package is None:
            work.package = self._worker.submit(
                load, self._fetcher, job.program, job.program_file, [job.uri], self._max_memory
            )
        if not work.package.done():
            return None
        try:
            return work.package.result()
        except Unavailable as error:
            _log.warning("job.unavailable", job=job.id, reason=str(error))
            work.package, work.retry_at = None, time.monotonic() + RETRY_S
        except AssayError as error:
            _log.error("job.refused", job=job.id, reason=str(error))
            work.refused = str(error)
        return None

    def _train(self, job_id: int, work: _Work, package: Package) -> Claim:
        checkpoints = _Checkpoints(self._database, job_id)
        done = max(self._database.checkpoints(job_id), default=0)
        _log.info("train.start", job=job_id, after=done, of=package.terms.steps)
        replay = Replay(
            package,
            self._backend,
            self._fetcher.store,
            checkpoints,
            fault=self._fault,
            fault_step=self._fault_step,
        )
        told = time.monotonic()

        def progress(step: int) -> None:
            nonlocal told
            if step == package.terms.steps or time.monotonic() - told >= PROGRESS_S:
                told = time.monotonic()
                _log.info("train.progress", job=job_id, step=step, of=package.terms.steps)

        try:
            claim = replay.train(progress, self._stop.is_set)
        except Interrupted as stopped:
            _log.info("train.interrupted", job=job_id, reason=str(stopped))
            raise
        work.replay = replay
        _log.info("train.done", job=job_id, root=claim.root.hex())
        return claim
