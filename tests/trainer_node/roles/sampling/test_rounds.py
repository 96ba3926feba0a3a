"""What strangers' roots cost the loop in a round: a look at some of them, however many there are and however long."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, overload

import pytest

from referee_py.program.terms import Terms
from tests.trainer_node.desk import PROGRAM, challenged, new_runner, put_package, rules, until
from tests.trainer_node.slow import Hand, SlowServer
from trainer_node.chain import Group, JobView
from trainer_node.daemon.remembered import Remembered
from trainer_node.roles.sampling import decide, draw, runner
from trainer_node.roles.sampling.checks import UNSERVED, Plan
from trainer_node.roles.sampling.runner import ROOTS, SampleRunner
from trainer_node.roles.sampling.sampler import Samples
from trainer_node.storage.database import Database
from trainer_node.storage.store import Store

from .test_runner import Wanted

DAY = 24 * 3600
LONG = 1 << 20
"""Steps of a run that is as long as runs may be, with an interval for each."""


@dataclass
class Strangers:
    """Jobs of anybody whose package is served, and of whose claims nothing is."""

    client: SlowServer
    claimant: SlowServer
    file: bytes

    def job(self, number: int, roots: int = 1, steps: int = LONG) -> JobView:
        return challenged(
            number,
            [(bytes([number, k]) * 16, self.claimant.uri) for k in range(roots)],
            DAY,
            uri=self.client.uri,
            program=Terms.of(PROGRAM, steps, (1,)),
            program_file=self.file,
            rules=rules(clock=DAY),
        )


@pytest.fixture
def strangers(tmp_path: Path, clock: Hand) -> Iterator[Strangers]:
    served = Store(tmp_path / "client", sync=False)
    file = put_package(served)
    with SlowServer(served, clock) as client, SlowServer(None, clock, holds=True) as claimant:
        yield Strangers(client, claimant, file)
        claimant.release.set()


def sampler(folder: Path, samples: Any, clock: Hand) -> SampleRunner:
    store = Store(folder, sync=False)
    return new_runner(SampleRunner, store, Database(None), samples=samples, clock=clock)


def test_the_loop_draws_nothing(
    tmp_path: Path, strangers: Strangers, clock: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attack: four posted jobs of 2^20 steps cost the loop seven seconds at its first look, and after each
    restart."""
    settings = SimpleNamespace(
        check="sample:0.5", samplers=1, max_check_cpu_h=0, max_check_bytes=0, latency_s=12.0, worker_threads=1
    )
    node: Any = SimpleNamespace(
        settings=settings,
        address=None,
        transactions=None,
        remembered=Remembered(),
        client=SimpleNamespace(commit_age=lambda: 60),
    )
    hashed, me = list[int](), threading.get_ident()

    def sha256(data: bytes) -> Any:
        hashed.append(threading.get_ident())
        return hashlib.sha256(data)

    monkeypatch.setattr(draw, "hashlib", SimpleNamespace(sha256=sha256))
    made, jobs = sampler(tmp_path / "node", Samples(node), clock), [strangers.job(k) for k in range(1, 5)]
    until(lambda: [of for of in jobs if made.prepare(of) is None] == [])
    for _ in range(3):
        for of in jobs:
            made.check(of, 0)
    until(lambda: all(root.plan for of in jobs for root in made._checks[of.id].roots.values()))
    assert me not in hashed
    assert len(hashed) < 1000
    strangers.claimant.release.set()
    made.close()


@dataclass(frozen=True)
class Counted(Sequence[int]):
    """A draw of a whole run, which notes what is read of it, and in which thread."""

    read: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return LONG

    @overload
    def __getitem__(self, place: int) -> int: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[int]: ...

    def __getitem__(self, place: int | slice) -> int | Sequence[int]:
        assert isinstance(place, int)
        if place >= LONG:
            raise IndexError(place)
        self.read.append(threading.get_ident())
        return place + 1


def test_the_loop_walks_through_no_intervals_and_their_work_holds_few(
    tmp_path: Path, strangers: Strangers, clock: Hand
) -> None:
    """Whether the root is being checked, waits, or has failed. The attack: each round copied all that was left."""
    wanted, counted = Wanted(), Counted()
    wanted.drawn = Plan(counted)
    made, of = sampler(tmp_path / "node", wanted, clock), strangers.job(1)
    until(lambda: made.prepare(of) is not None)
    made.check(of, 0)
    (root,) = made._checks[1].roots.values()
    until(lambda: root.plan)
    for _ in range(3):
        made.check(of, 0)
    strangers.claimant.release.set()
    until(lambda: made.check(of, 0) or root.unserved)
    for _ in range(3):
        made.check(of, 0)
    assert root.left
    assert counted.read == [], "its run tree is not served"
    begun = list(root.next_ones())
    assert begun == root.begun == list(range(1, UNSERVED + 1))
    assert list(root.next_ones()) == begun, "they have no outcome yet"
    root.done(3, checked=True)
    assert list(root.next_ones()) == [*(k for k in begun if k != 3), UNSERVED + 1]
    made.close()


def test_a_round_looks_at_some_roots_and_at_all_in_some_rounds(
    tmp_path: Path, strangers: Strangers, clock: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked, me = list[bytes](), threading.get_ident()

    def at_large(of: JobView, group: Group, now: float) -> bool:
        if threading.get_ident() == me:
            looked.append(group.root)
        return decide.at_large(of, group, now)

    monkeypatch.setattr(runner, "at_large", at_large)
    wanted = Wanted()
    made, of = sampler(tmp_path / "node", wanted, clock), strangers.job(1, roots=255, steps=12)
    until(lambda: made.prepare(of) is not None)
    looked.clear()
    rounds = -(-255 // ROOTS)
    for number in range(1, rounds + 1):
        made.check(of, 0)
        assert len(looked) <= number * ROOTS
    assert set(looked) == {group.root for group in of.groups}
    looked.clear()
    for _ in range(rounds):
        made.check(of, 0)
    assert not looked, "all of them are being checked, or wait for that"
    strangers.claimant.release.set()
    made.close()
