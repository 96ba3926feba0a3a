"""The trainer daemon: takes slots, trains, claims results and defends its claims."""

from __future__ import annotations

import repops

from referee_py.execute import RunClaim
from referee_py.jobs import EMPTY_COMMITMENT

from ..chain import JobPhase, JobView
from ..compute.job_runner import JobRunner
from ..daemon.loop import Loop
from ..daemon.open_runner import open_runner
from ..daemon.service import Daemon, Service, open_daemon
from ..play.actions import JobAction, trainer_actions
from ..run.replay import Replay
from ..settings.settings import Settings
from .acceptance import Acceptance
from .participant import Decide, Participant

LAST_PART = 10
"""In the last tenth of training a trainer commits to what it has, whether the job is measured or not."""


def run(
    settings: Settings, replay: type[Replay] = Replay, participant: type[Participant] = Participant
) -> None:
    """Run until asked to stop. ``replay`` and ``participant`` are the classes of the run and of the participant."""
    repops.set_num_threads(settings.worker_threads)
    with open_daemon(settings, "trainer") as node, open_runner(node, replay=replay) as runner:
        Service(node, Loop(node, trainer(node, runner, participant)).tick).run()


def trainer(node: Daemon, runner: JobRunner, participant: type[Participant] = Participant) -> Participant:
    """Create the participant that trains in the jobs of the deployment."""
    return participant(node, runner, training(node, runner, Acceptance(node, runner)), joins=True)


def training(node: Daemon, runner: JobRunner, acceptance: Acceptance) -> Decide:
    """Return what decides for a trainer: takes slots, commits to results and reveals them."""
    me = node.address
    assert me is not None

    def decide(job: JobView, now: int) -> tuple[list[JobAction], RunClaim | None]:
        if not job.is_under(node.client.deployment.referee):
            return [], None
        slot = job.trainer(me)
        joined = slot is not None
        open_, again = job.phase is JobPhase.TRAINING, not joined and node.duties.resigned.has(job)
        if again:
            runner.forget(job.id)
        free = open_ and not joined and not again and len(job.trainers) < job.slots
        willing = free and acceptance.takes(job.id, acceptance.slot(job, now))
        own = runner.train(job, ours=True) if joined else None
        keeps, sure = True, own
        if open_ and slot is not None and slot.commitment == EMPTY_COMMITMENT:
            keeps = acceptance.takes(job.id, acceptance.keeps(job, now, done=own is not None))
            # SAFETY: after a restart the run may be back before the job is measured, by which its steps are judged.
            if runner.measured(job) is None and job.commit_end - now > job.train_period / LAST_PART:
                sure = None
        return trainer_actions(job, me, sure, now, willing=willing, keeps=keeps), own

    return decide
