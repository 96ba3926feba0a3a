"""Challenges by a full replay: claims the right root if nobody else has."""

from __future__ import annotations

import math
from collections.abc import Callable

import structlog

from referee_py.execute import RunClaim

from ..chain import JobView
from ..daemon.service import Daemon
from ..play.actions import JobAction, challenger_actions
from ..play.wrong_jobs import results
from ..stake.funds import offer
from .acceptance import Acceptance
from .watcher import Watcher

_log = structlog.get_logger(__name__)

Train = Callable[..., RunClaim | None]
"""`JobRunner.train`."""


class WholeRuns:
    """Decides in the jobs of the deployment; ``train`` computes their runs."""

    def __init__(
        self, node: Daemon, train: Train, acceptance: Acceptance, watcher: Watcher | None = None
    ) -> None:
        self._node, self._train, self._acceptance, self._watcher = node, train, acceptance, watcher
        self._told = node.remembered.of_jobs(set[bytes])
        self._begun = node.remembered.of_jobs(bool)
        self._before = results(node.database)
        """Roots that an earlier process has computed, where something that is claimed differs from it."""

    def decide(self, job: JobView, now: int) -> tuple[list[JobAction], RunClaim | None]:
        """Return what is due in a job, and its right claim once that is computed."""
        node = self._node
        if not job.claims or not job.is_under(node.client.deployment.referee):
            return [], None
        ours = node.address is not None and job.claim_of(node.address) is not None
        ours = ours or self._watches(job)
        # SAFETY: no look says that a run is too late which we have; others may still give the right root away.
        begun = ours or self._begun[job.id] or self._knows(job)
        if not begun and self._acceptance.whole_after_s(job, now, wanted=True) == math.inf:
            return [], None
        self._begun[job.id] = True
        own = self._train(job, ours=ours)
        if own is not None:
            self._report(job, own)
        acts = challenger_actions(job, node.address, own, node.settings.mode, now)
        if own is not None and JobAction.CHALLENGE in acts and not self._acceptable(job, own.root):
            acts.remove(JobAction.CHALLENGE)
        return acts, own

    def _knows(self, job: JobView) -> bool:
        """Return whether an earlier process has computed a job in which we may stake."""
        return self._before.of(job) is not None and self._acceptance.possible(job)

    def _watches(self, job: JobView) -> bool:
        return self._watcher is not None and self._watcher.watches(job)

    def _acceptable(self, job: JobView, root: bytes) -> bool:
        # SAFETY: a watcher has a stake in the job already, and loses it if another root is accepted.
        return self._watches(job) or self._acceptance.affordable(job, offer(job, root).wanted)

    def _report(self, job: JobView, own: RunClaim) -> None:
        """Log once for each claimed root whether we could reproduce it."""
        told = self._told[job.id]
        for group in job.groups:
            if group.refutes is None and group.root not in told:
                told.add(group.root)
                verdict = "claim.valid" if group.root == own.root else "claim.invalid"
                _log.info(verdict, job=job.id, claimed=group.root.hex(), own=own.root.hex())
