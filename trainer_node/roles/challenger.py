"""The challenger daemon: replays jobs and disputes claims that it cannot reproduce. For a bounty it computes a job
before anybody claims a result (watcher.py)."""

from __future__ import annotations

import repops

from ..compute.job_runner import JobRunner
from ..daemon.loop import Loop
from ..daemon.open_runner import open_runner
from ..daemon.service import Daemon, Service, open_daemon
from ..run.replay import Replay
from ..settings.extent import Mode
from ..settings.settings import Settings
from .acceptance import Acceptance
from .participant import Participant
from .sampling.sampler import run_sampler
from .watcher import Watcher
from .whole_runs import WholeRuns


def run(settings: Settings, replay: type[Replay] = Replay) -> None:
    """Run until asked to stop. ``replay`` is the class that replays jobs."""
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
    watcher = None
    if node.transactions is not None and node.settings.max_watch:
        watcher = Watcher(node, node.transactions, runner)
    decide = WholeRuns(node, runner.train, Acceptance(node, runner), watcher).decide
    return Participant(node, runner, decide, requests=node.settings.mode is Mode.CHALLENGE, watcher=watcher)
