"""The result of honest execution, computed apart from all parties.

In a mode with rounding logs it also depends on the trainer's, so it is known only once they are revealed.
"""

from __future__ import annotations

import math
from functools import partial

from referee_py.errors import Unavailable
from referee_py.execute import Backend, Run
from referee_py.rounding.log_source import DryRunLogs, LogSource
from trainer_node.chain import ChainClient, JobView
from trainer_node.compute.lanes import Lanes
from trainer_node.local.bundle import Bundle
from trainer_node.network.fetcher import Fetcher
from trainer_node.run.fetched_logs import FetchedLogs, step_limit
from trainer_node.run.modes import backend_here
from trainer_node.storage.store import Store

EVALUATOR = "numpy"
_MAX_BYTES = 1 << 30


class Truth:
    """Honest execution of a bundle. ``store`` keeps the logs that it fetches."""

    def __init__(self, bundle: Bundle, store: Store) -> None:
        self._bundle = bundle
        self._store = store
        self._log_source: FetchedLogs | None = None

    @property
    def follows_logs(self) -> bool:
        return self._bundle.terms.arithmetic.follows_logs

    def trial(self) -> Run:
        """A run to time steps with; without rounding logs it is the honest run itself."""
        return self._run(self._backend(DryRunLogs() if self.follows_logs else None))

    def backend(self, client: ChainClient, job_id: int) -> Backend:
        """Return the backend of an honest party of the job. Raises Unavailable before its logs are revealed."""
        if not self.follows_logs:
            return self._backend()
        job = client.snapshot().job(job_id)
        if not any(claim.slot for claim in job.claims):
            raise Unavailable(f"the rounding logs of job {job_id} are not revealed yet")
        if self._log_source is None:
            self._log_source = self._follow(job)
        return self._backend(self._log_source)

    def root(self, backend: Backend | None = None) -> bytes:
        """Return the honest run root; without rounding logs it needs no backend of the job's."""
        return self._run(backend or self._backend()).commit_run().root

    def _backend(self, log_source: LogSource | None = None) -> Backend:
        return backend_here(self._bundle.terms.mode, "cpu", EVALUATOR, log_source)

    def _run(self, backend: Backend) -> Run:
        return Run.of(self._bundle, backend)

    def _follow(self, job: JobView) -> FetchedLogs:
        return FetchedLogs(
            Fetcher(self._store),
            job.servers,
            job.logs,
            job.program.steps,
            job.program.node_count,
            partial(Lanes(1, "truth").submit, math.inf),
            step_bytes=step_limit(self._bundle.program, _MAX_BYTES),
            run_bytes=_MAX_BYTES,
        )
