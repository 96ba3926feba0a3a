"""The trainer daemon: takes slots, trains, claims results and defends its claims."""

from __future__ import annotations

import repops

from referee_py.execute import RunClaim

from ..chain import JobPhase, JobView
from ..compute.job_runner import JobRunner
from ..daemon.loop import Loop
from ..daemon.open_runner import open_runner
from ..daemon.service import Daemon, Service, open_daemon
from ..play.actions import JobAction, trainer_actions
from ..run.replay import Replay
from ..settings.settings import Settings
from .acceptance import Acceptance
from .participant import Participant


def run(
    settings: Settings, replay: type[Replay] = Replay, participant: type[Participant] = Participant
) -> None:
    """Run until asked to stop. ``replay`` and ``participant`` are the classes of the run and of the participant."""
    repops.set_num_threads(settings.worker_threads)
    with open_daemon(settings, "trainer") as node, open_runner(node, replay=replay) as runner:
        Service(node, Loop(node, trainer(node, runner, participant)).tick).run()


def trainer(node: Daemon, runner: JobRunner, participant: type[Participant] = Participant) -> Participant:
    """Create the participant that trains in the jobs of the deployment."""
    me = node.address
    assert me is not None
    acceptance = Acceptance(node, runner)

    def decide(job: JobView, now: int) -> tuple[list[JobAction], RunClaim | None]:
        if not job.is_under(node.client.deployment.referee):
            return [], None
        joined = job.trainer(me) is not None
        free = job.phase is JobPhase.TRAINING and not joined and len(job.trainers) < job.slots
        willing = free and acceptance.takes(job.id, acceptance.slot(job, now))
        own = runner.train(job, ours=True) if joined else None
        return trainer_actions(job, me, own, now, willing=willing), own

    return participant(node, runner, decide, joins=True)
