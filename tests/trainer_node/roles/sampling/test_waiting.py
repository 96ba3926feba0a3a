"""What a sampler waits for leaves time for what comes after it, and what fails here is not the claim's."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from referee_py.errors import Unavailable
from trainer_node.chain.events import Event, Query
from trainer_node.chain.reader import Reader
from trainer_node.chain.snapshot import Snapshot
from trainer_node.daemon.remembered import Remembered
from trainer_node.errors import DiskFull, RpcCorrupt
from trainer_node.network.sources import Source
from trainer_node.roles.sampling.budget import ChainClock, Means
from trainer_node.roles.sampling.checks import Checks, Plan
from trainer_node.roles.sampling.interval_runner import Task
from trainer_node.roles.sampling.sampler import Samples
from trainer_node.storage.artifacts import Name
from trainer_node.storage.database import Database

from .test_runner import EQUIPMENT, Runner, Wanted, auditor_of, job_of, runner, wanted  # noqa: F401

PERIOD_S = 3600
WHOLE_S = 450.0


class Stalled(Runner):
    """A server that answers right, and so slowly that whoever asks gives up when the time of the work is over."""

    machine = 0.0

    def _whole_s(self, _: Any) -> float:
        return WHOLE_S

    def _estimate(self, _: Any) -> Any:
        return SimpleNamespace(train_s=lambda _: WHOLE_S)

    def _auditor(self, task: Task, _: Any) -> Any:
        while not task.late:
            self.machine += 1
        raise Unavailable("right, and slow")


@pytest.mark.parametrize(
    ("now", "until", "refutable"),
    [
        (0.0, 0, 0),
        (0.6 * PERIOD_S, int(1.6 * PERIOD_S), 0),
        (0.6 * PERIOD_S, 0, int(1.6 * PERIOD_S)),
    ],
    ids=["of a slot", "of a late challenger", "of which an ally has lost a refutation"],
)
def test_a_slow_server_leaves_time_for_a_whole_replay(now: float, until: int, refutable: int) -> None:
    """A root may be refuted for longer than the right one may be claimed; the wait ends for the sake of the claim."""
    samples = Wanted()
    samples.whole_s = float("inf")
    samples.means = lambda: Means(60, 24)  # type: ignore[method-assign]
    made = Stalled(EQUIPMENT, samples=samples)
    made.runs = {}
    group = SimpleNamespace(
        index=0, root=b"lie", refutes=None, dead=False, until=until, refutable_until=refutable
    )
    groups = {b"lie": group}
    job: Any = SimpleNamespace(
        id=1,
        groups=[group],
        at_stake_by_root=1.0,
        group_of_root=groups.get,
        challenge_end=PERIOD_S,
        claimable_until=lambda _: PERIOD_S,
        program=SimpleNamespace(steps=12, strides=(3,)),
    )
    checks = made._checks[1] = Checks(ChainClock(lambda: made.machine))
    checks.clock.see(now)
    assert made.takes_whole(job, checks.clock.now)
    with pytest.raises(Unavailable):
        made.checked(job)
    assert made.withheld(job)
    assert made.takes_whole(job, checks.clock.now), "the whole replay still fits"
    made.close()


def test_a_disk_that_was_full_for_a_moment_takes_no_interval_from_the_draw(
    runner: Runner,  # noqa: F811
    wanted: Wanted,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lying = auditor_of(tmp_path, lie=8)
    root = lying.published.root
    runner.runs, wanted.drawn = {root: lying}, Plan((3,))
    fetch, refused = Source.fetch, list[Name]()

    def full_once(self: Source, name: Name, max_bytes: int | None = None) -> None:
        if not refused:
            refused.append(name)
            raise DiskFull("no space left")
        fetch(self, name, max_bytes)

    monkeypatch.setattr(Source, "fetch", full_once)
    with pytest.raises(DiskFull):
        runner.checked(job_of(root))
    assert [lie.index for lie in runner.checked(job_of(root))] == [2]


class Flooded(Reader):
    """A chain on which a stranger has made more commitments in a job than an endpoint may show events."""

    def __init__(self) -> None:
        self._client = SimpleNamespace(cache=None)  # type: ignore[assignment]

    def events(self, query: Query, *_: Any, **__: Any) -> list[Event]:
        if not query.names or "ChallengeCommitted" in query.names:
            raise RpcCorrupt("eth_getLogs gave 100412 logs; there cannot be more than 100000")
        return [Event("Refuted", {"group": 1, "interval": 2}, 1, bytes(32), 0)]


def flooded() -> Snapshot:
    snapshot = object.__new__(Snapshot)
    snapshot._read, snapshot._contracts = Flooded(), SimpleNamespace(jobs=None)  # type: ignore[assignment]
    return snapshot


def test_commitments_of_strangers_do_not_keep_us_from_what_we_have_staked_on() -> None:
    me = "0x" + "aa" * 20
    shown = list[Any]()

    def snapshot() -> Snapshot:
        found = flooded()
        found.job = lambda _, **__: shown[0]  # type: ignore[method-assign]
        found.confirm = lambda **_: None  # type: ignore[method-assign]
        return found

    client = SimpleNamespace(snapshot=snapshot)
    database = Database(None)
    node: Any = SimpleNamespace(
        address=me, client=client, settings=None, remembered=Remembered(), database=database
    )
    own = SimpleNamespace(index=1, root=b"ours", refutes=0, dead=False, members=(0,))
    lie: Any = SimpleNamespace(index=0, root=b"lie", refutes=None)
    job: Any = SimpleNamespace(
        id=1, groups=[own], claims=[SimpleNamespace(owner=me)], group_of_root={b"lie": lie}.get
    )
    shown.append(job)
    assert Samples(node).staked(job, lie, []) == (3,)
