"""The challenger daemon: replays jobs and disputes claims that it cannot reproduce. For a bounty it computes a job
before anybody claims a result (watcher.py)."""

from __future__ import annotations

import repops
import structlog

from referee_py.execute import RunClaim

from .chain import JobView
from .config import Mode, Settings
from .decide import JobAction, challenger_actions, disagreements
from .funds import offer
from .job_runner import JobRunner
from .loop import Loop
from .participant import Participant, open_runner
from .replay import Replay
from .sampling.challenger import run_sampler
from .service import Daemon, Service, open_daemon
from .watcher import Watcher
from .worth import Worth

_log = structlog.get_logger(__name__)


def run(settings: Settings, replay: type[Replay] = Replay) -> None:
    """Run until told to stop. ``replay`` is the class that replays jobs."""
    repops.set_num_threads(settings.worker_threads)
    if settings.check != "all":
        run_sampler(settings)
        return
    with (
        open_daemon(settings, "challenger", key=settings.mode is not Mode.WATCH) as node,
        open_runner(node, follows=True, replay=replay) as runner,
    ):
        Service(node, Loop(node, challenger(node, runner)).tick).run()


def challenger(node: Daemon, runner: JobRunner) -> Participant:
    """Create the participant that challenges in the jobs of the deployment."""
    told: set[tuple[int, bytes]] = set()
    begun: set[int] = set()
    watcher = None
    if node.transactions is not None and node.settings.max_watch:
        watcher = Watcher(node, node.transactions, runner)

    worth = Worth(node, runner)

    def acceptable(job: JobView, root: bytes) -> bool:
        # SAFETY: a watcher has a stake in the job already, and loses it if another root is accepted.
        if watcher is not None and watcher.watches(job):
            return True
        return worth.affordable(job, offer(job, root).wanted)

    def decide(job: JobView, now: int) -> tuple[list[JobAction], RunClaim | None]:
        if not job.claims or job.referee.lower() != node.client.deployment.referee.lower():
            return [], None
        ours = node.address is not None and job.claim_of(node.address) is not None
        ours = ours or (watcher is not None and watcher.watches(job))
        if not ours and job.id not in begun and not worth.in_time(job, now):
            return [], None
        begun.add(job.id)
        own = runner.train(job, ours=ours)
        if own is not None:
            _report(job, own, told)
        acts = challenger_actions(job, node.address, own, node.settings.mode, now)
        if own is not None and JobAction.CHALLENGE in acts and not acceptable(job, own.root):
            acts.remove(JobAction.CHALLENGE)
        return acts, own

    return Participant(node, runner, decide, requests=node.settings.mode is Mode.CHALLENGE, watcher=watcher)


def _report(job: JobView, own: RunClaim, told: set[tuple[int, bytes]]) -> None:
    """Log once for each claimed root whether we could reproduce it."""
    wrong = {group.root for group in disagreements(job, own)}
    for group in job.groups:
        if group.refutes is None and (job.id, group.root) not in told:
            told.add((job.id, group.root))
            verdict = "claim.invalid" if group.root in wrong else "claim.valid"
            _log.info(verdict, job=job.id, claimed=group.root.hex(), own=own.root.hex())
