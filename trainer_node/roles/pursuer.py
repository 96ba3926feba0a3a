"""The daemon of a client that has posted a job to show one run right: takes a slot, and disputes what else is claimed.

SAFETY: a trainer disputes nothing without a slot, so whoever takes all of them and claims a lie would have it accepted;
a challenger claims nothing where nobody else does. Jobs of the same program take no slot, stake or time from it.
"""

from __future__ import annotations

import repops

from referee_py.execute import RunClaim

from ..chain import JobPhase, JobView
from ..compute.job_runner import JobRunner
from ..daemon.loop import Loop
from ..daemon.open_runner import open_runner
from ..daemon.service import Daemon, Service, open_daemon
from ..play.actions import JobAction
from ..settings.settings import Settings
from .acceptance import Acceptance
from .challenger import Chosen
from .participant import Participant
from .trainer import training
from .whole_runs import WholeRuns


def run(settings: Settings, chosen: Chosen, first: int) -> None:
    """Run until asked to stop. ``chosen`` says which jobs it plays in, of which ``first`` is looked at first."""
    repops.set_num_threads(settings.worker_threads)
    with open_daemon(settings, "challenger") as node, open_runner(node, follows=True) as runner:
        Service(node, Loop(node, pursuer(node, runner, chosen), (first,)).tick).run()


def pursuer(node: Daemon, runner: JobRunner, chosen: Chosen) -> Participant:
    """Create the participant that claims its result in the jobs that are ``chosen``, in a slot or against others."""
    me = node.address
    assert me is not None
    acceptance = Acceptance(node, runner)
    trains, disputes = training(node, runner, acceptance), WholeRuns(node, runner.train, acceptance).decide

    def decide(job: JobView, now: int) -> tuple[list[JobAction], RunClaim | None]:
        # SAFETY: what we have staked on is defended, whoever chose it.
        if not (job.stakes_of(me) or job.trainer(me) is not None or chosen(job)):
            return [], None
        claimed = job.trainer(me) is not None and job.claim_of(me) is not None
        if claimed or job.phase in (JobPhase.TRAINING, JobPhase.REVEAL):
            return trains(job, now)
        return disputes(job, now)

    return Participant(node, runner, decide, joins=True, requests=True)
