"""The challenger daemon: replays jobs and disputes claims that it cannot reproduce. For a bounty it computes a job
before anybody claims a result (watcher.py)."""

from __future__ import annotations

from collections.abc import Callable

import repops

from referee_py.execute import RunClaim

from ..chain import JobView
from ..compute.job_runner import JobRunner
from ..daemon.loop import Loop
from ..daemon.open_runner import open_runner
from ..daemon.service import Daemon, Service, open_daemon
from ..play.actions import JobAction
from ..run.replay import Replay
from ..settings.extent import Mode
from ..settings.settings import Settings
from .acceptance import Acceptance
from .participant import Participant
from .sampling.sampler import run_sampler
from .watcher import Watcher
from .whole_runs import WholeRuns

Chosen = Callable[[JobView], bool]


def run(
    settings: Settings,
    replay: type[Replay] = Replay,
    chosen: Callable[[Daemon], Chosen] | None = None,
) -> None:
    """Run until asked to stop. ``replay`` is the class that replays jobs; ``chosen`` makes of the node what says which
    jobs it looks at, where it checks all of each."""
    repops.set_num_threads(settings.worker_threads)
    if settings.check != "all":
        run_sampler(settings)
        return
    with (
        open_daemon(settings, "challenger", key=settings.mode is not Mode.WATCH) as node,
        open_runner(node, follows=True, replay=replay) as runner,
    ):
        role = challenger(node, runner, None if chosen is None else chosen(node))
        Service(node, Loop(node, role).tick).run()


def challenger(node: Daemon, runner: JobRunner, chosen: Chosen | None = None) -> Participant:
    """Create the participant that challenges in the jobs of the deployment, or in those that are ``chosen``."""
    watcher = None
    if node.transactions is not None and node.settings.max_watch:
        watcher = Watcher(node, node.transactions, runner)
    every = WholeRuns(node, runner.train, Acceptance(node, runner), watcher).decide

    def some(job: JobView, now: int) -> tuple[list[JobAction], RunClaim | None]:
        # SAFETY: what we have staked on is defended, whoever chose it.
        ours = node.address is not None and bool(job.stakes_of(node.address))
        return every(job, now) if chosen is None or ours or chosen(job) else ([], None)

    return Participant(node, runner, some, requests=node.settings.mode is Mode.CHALLENGE, watcher=watcher)
