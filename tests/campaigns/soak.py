"""A day of a deployment on the chain's clock: clients post jobs, trainers and challengers run, one trainer lies now and
then, and a keyless challenger and a monitor look on. The nodes are those that people run; only the clock is simulated.

    with Soak(anvil, folder, Plan(jobs=200, hours=24, lies=0.2, seed=0)) as soak:
        day = soak.run()
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path

from assay_capture.capture import Recipe, build, load_recipe
from assay_lab.daemons import lying
from assay_lab.demo.checks import check_outcome, wealth
from assay_lab.faults import HONEST, Fault, Lie
from referee_py.execute import RunClaim
from tests.conftest import Anvil
from tests.e2e.arena import REWARD, STAKE, Arena
from tests.e2e.test_disputes import honest_root
from trainer_node.chain import JobView, TransactionManager
from trainer_node.client.posting import Offer, post_job
from trainer_node.compute.job_runner import JobRunner
from trainer_node.compute.packages import Work
from trainer_node.daemon.loop import Loop
from trainer_node.daemon.open_runner import open_runner
from trainer_node.daemon.service import Daemon, Service, open_daemon
from trainer_node.local.bundle import Bundle
from trainer_node.monitor.alerts import Kind, Rules
from trainer_node.monitor.rounds import Monitor
from trainer_node.monitor.trusted import Trusted
from trainer_node.network.artifact_server import ArtifactServer
from trainer_node.roles.challenger import challenger
from trainer_node.settings.extent import Mode
from trainer_node.storage.store import Store

HOUR = 3600
TIME_STEP_S = 60
"""Seconds that pass on the chain while nobody has anything to do."""
LIAR = "trainer-2"
LIES = (Fault.WRONG_OP_OUTPUT, Fault.POISON_DATA, Fault.SKIP_STEPS, Fault.WRONG_INPUT, Fault.STALE_WEIGHTS)
KEEP = {"work_s": 1.0, "result_s": 1.0, "every_s": 1.0}
"""NOTE: these run on the machine's clock, on which the day is minutes long."""


@dataclass(frozen=True, slots=True)
class Plan:
    """``lies``: share of the jobs in which the liar is the first to join, and lies."""

    jobs: int
    hours: float
    lies: float = 0.2
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Posted:
    """A job of the day: the root that honest training gives, and the liar's part.

    NOTE: without its tensors, 0.5 MB a job, which would look like growth of the nodes.
    """

    right: bytes
    lie: Lie


@dataclass(frozen=True, slots=True)
class Sample:
    """What the nodes held at an instant. ``seconds``: of the machine, for the hour before."""

    hour: float
    jobs: int
    memory: int
    disk: dict[str, int]
    seconds: float


@dataclass
class Day:
    """What has been seen. ``told``: claims by verdict of the keyless challenger; ``alarms``: alerts by kind and job."""

    posted: dict[int, Posted] = field(default_factory=dict)
    ended: dict[int, JobView] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)
    told: Counter[str] = field(default_factory=Counter)
    alarms: set[tuple[Kind, int]] = field(default_factory=set)
    unchecked: Counter[str] = field(default_factory=Counter)
    profit: dict[str, int] = field(default_factory=dict)
    matches: int = 0


class SometimesLying(JobRunner):
    """Lies in some jobs. NOTE: a run begins while no other computes."""

    lie_of: Callable[[int], Lie]

    def _train(self, work: Work, pass_on: Callable[[], bool]) -> RunClaim:
        self._replay = lying(self.lie_of(work.job.id))
        return super()._train(work, pass_on)


class Soak(Arena):
    """An arena in which jobs come and go. Nothing is posted before `run`."""

    def __init__(self, anvil: Anvil, folder: Path, plan: Plan) -> None:
        self._plan, self._rng, self.day = plan, random.Random(plan.seed), Day()
        first = small(0)
        super().__init__(anvil, folder, first, trainers=[Fault.NONE] * 3, challenger=Fault.NONE)
        self._add_player("challenger-1", Fault.NONE, 1, Mode.CHALLENGE, "halves")
        self._watch()
        self._services = [
            Service(member.node, lambda member=member: member.loop.tick())  # type: ignore[misc]
            for member in self.members
        ]
        self._monitor = Monitor(self.client, Rules(), Trusted(), per_round=1_000)

    # ------------------------------------------------------------------ the day

    def run(self, tell: Callable[[str], None] = lambda _: None) -> Day:
        """Let the day pass, and then all that is open come to its end."""
        began, arrivals = self._now(), self._arrivals()
        hour, told = 0, time.monotonic()
        self._before = wealth(self.client, self._addresses())
        following = next(arrivals, None)
        while True:
            now = self._now() - began
            if now >= hour * HOUR and hour <= self._plan.hours:
                self._sample(now / HOUR, time.monotonic() - told)
                told, hour = time.monotonic(), hour + 1
                tell(self._line())
            if following is not None and now >= following:
                self._post_one()
                following = next(arrivals, None)
            if not self._round():
                continue
            if following is None and now >= self._plan.hours * HOUR and self._all_over():
                break
            left = TIME_STEP_S if following is None else max(1, following - now)
            self.skip(min(TIME_STEP_S, left))
        self._sample((self._now() - began) / HOUR, time.monotonic() - told)
        self._close()
        return self.day

    def _round(self) -> bool:
        """Let all members do a round. Return whether nobody had anything to do."""
        before = self.web3.eth.block_number
        lied = any(
            one.lie is not HONEST for number, one in self.day.posted.items() if number not in self.day.ended
        )
        services = self._rng.sample(self._services, len(self._services))
        if lied:  # it is to have a place in the job
            services.sort(key=lambda one: one is not self._services[self._place(LIAR)])
        for service in services:
            service.round()
        self._look()
        if self.web3.eth.block_number != before:
            return False
        if any(runner.busy for runner in self._runners()):
            time.sleep(0.01)
            return False
        return True

    def _look(self) -> None:
        """Compare what the onlookers say now with what is so."""
        self._watcher.tick()
        snapshot, day = self.client.snapshot(), self.day
        for number in [number for number in day.posted if number not in day.ended]:
            job = snapshot.job(number)
            if job.phase.ended and not job.match_ids():
                day.ended[number] = job
        board = self._monitor.round()
        for standing in board.alerts:
            day.alarms.add((standing.alert.kind, standing.alert.job))
        day.unchecked.update(reason for reasons in board.unchecked.values() for reason in reasons)

    def _arrivals(self) -> Iterator[int]:
        """Yield the seconds after the beginning at which jobs are posted, in order."""
        last = int(self._plan.hours * HOUR)
        yield from sorted(self._rng.randrange(last) for _ in range(self._plan.jobs))

    def _post_one(self) -> None:
        number = len(self.day.posted) + 1
        bundle = small(number)
        lies = self._rng.random() < self._plan.lies
        # NOTE: steps cannot be skipped from the first one on.
        lie = Lie(self._rng.choice(LIES), self._rng.randint(2, bundle.terms.steps)) if lies else HONEST
        verifiers = tuple(address for address, _, _ in self.client.snapshot().verifiers())
        offer = Offer(
            reward=REWARD,
            stake=STAKE,
            slots=self._rng.randint(1, 3),
            train_period=600,
            reveal_period=600,
            challenge_period=600,
            clock=600,
            verdict_period=600,
            appeal_period=120,
            verifiers=self._rng.choice([verifiers, ()]),
            threshold=0,
        )
        job_id, _ = post_job(self.client, self._client, self._store, bundle, offer, self._server.uri)
        self.day.posted[job_id] = posted = Posted(honest_root(bundle), lie)
        self._monitor.trusted.roots[job_id] = {posted.right}

    def _all_over(self) -> bool:
        snapshot = self.client.snapshot()
        held = any(
            not claim.lost and not claim.collected for job in self.day.ended.values() for claim in job.claims
        )
        if held:  # collected since?
            self.day.ended = {number: snapshot.job(number) for number in self.day.ended}
        return (
            len(self.day.ended) == len(self.day.posted)
            and not held
            and not any(snapshot.hearings(job)[0] for job in self.day.ended.values())
            and not any(map(snapshot.credits, self._addresses().values()))
        )

    def _close(self) -> None:
        """Note who has won and lost, gas aside, and how many matches there were."""
        snapshot = self.client.snapshot()
        self.day.ended = {number: snapshot.job(number) for number in self.day.posted}
        self.day.told = Counter(
            {verdict: int(self._told.value("claims_checked", verdict)) for verdict in ("valid", "invalid")}
        )
        accounts = check_outcome(self.client, self._addresses(), self._before, self._began)
        self.day.profit = {name: account.profit for name, account in accounts.items()}
        self.day.matches = sum(len(snapshot.matches_of(number)) for number in self.day.posted)

    # ------------------------------------------------------------------ measures

    def _sample(self, hour: float, seconds: float) -> None:
        folders = {member.name: self._folder / member.name for member in self.members}
        disk = {name: held(folder) for name, folder in folders.items()}
        memory = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        self.day.samples.append(Sample(hour, len(self.day.posted), memory, disk, seconds))

    def _line(self) -> str:
        last = self.day.samples[-1]
        return (
            f"hour {last.hour:.0f}: {last.jobs} jobs, {len(self.day.ended)} over; {last.memory >> 20} MiB in memory, "
            f"{max(last.disk.values()) >> 10} KiB on the fullest disk; {last.seconds:.0f} s"
        )

    def _now(self) -> int:
        return self.client.snapshot().now

    def _place(self, name: str) -> int:
        return next(at for at, member in enumerate(self.members) if member.name == name)

    def _runners(self) -> list[JobRunner]:
        return [m.runner for m in self.members if m.runner is not None] + [self._looks_on]

    # ------------------------------------------------------------------ set up

    def _node(self, name: str, role: str, **settings: object) -> Daemon:
        return super()._node(name, role, threads=1, keep=KEEP, **settings)

    def _open_runner(self, node: Daemon, lie: Lie, *, follows: bool) -> AbstractContextManager[JobRunner]:
        if node.settings.data_dir.name != LIAR:
            return super()._open_runner(node, lie, follows=follows)
        kind = type("LiarOfTheDay", (SometimesLying,), {"lie_of": staticmethod(self._lie_of)})
        return open_runner(node, follows=follows, kind=kind)

    def _lie_of(self, job_id: int) -> Lie:
        return self.day.posted[job_id].lie

    def _watch(self) -> None:
        """Start a challenger without a key, which only tells which claims are wrong."""
        settings = self.members[-1].node.settings.model_copy(
            update={"data_dir": self._folder / "watch", "mode": Mode.WATCH, "port": 0}
        )
        node = self._stack.enter_context(open_daemon(settings, "challenger", key=False))
        self._looks_on = self._stack.enter_context(open_runner(node, follows=True))
        part, self._told = challenger(node, self._looks_on), node.metrics
        self._watcher = Loop(node, part)

    def _post(self, client: TransactionManager, slots: int, threshold: int) -> None:  # noqa: ARG002
        self._client, self._store = client, Store(self._folder / "client")
        self._server = self._stack.enter_context(ArtifactServer(self._store))
        self._began = self.web3.eth.block_number + 1


def small(seed: int) -> Bundle:
    """Return a job of its own: digits, 64-4-10, of 8 to 15 steps."""
    from torch import nn

    recipe = load_recipe("digits-mlp", steps=8 + seed % 8, batch_size=8, seed=seed)
    assert isinstance(recipe, Recipe)
    module = nn.Sequential(nn.Linear(64, 4), nn.ReLU(), nn.Linear(4, 10))
    return build(replace(recipe, module=module, strides=(4, 1)))


def held(folder: Path) -> int:
    """Return the bytes of all files in a folder."""
    found = 0
    for path in folder.rglob("*"):
        try:
            found += path.stat().st_size if path.is_file() else 0
        except FileNotFoundError:  # collected meanwhile
            continue
    return found
