"""Roots of strangers, as many as they like: what waits for the processors holds neither a run tree nor a thread.

The servers, downloads and replays are real; replays are held up, as by long steps. The run trees are made up: what is
replayed is the first interval, and only their size counts.
"""

from __future__ import annotations

import contextlib
import gc
import os
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from referee_py.commit import HASH_BYTES, Hashes, Tag, Tree
from referee_py.program.terms import Terms
from tests.trainer_node.desk import PROGRAM, challenged, new_runner, put_package, rules, until
from tests.trainer_node.slow import Hand, SlowServer
from trainer_node.audit.interval import Auditor
from trainer_node.chain import JobView
from trainer_node.limits.waits import LANES
from trainer_node.roles.sampling.checks import Plan
from trainer_node.roles.sampling.interval_runner import Task
from trainer_node.roles.sampling.part import Part
from trainer_node.roles.sampling.runner import SampleRunner
from trainer_node.run.package import LEAF_BYTES, takes
from trainer_node.run.refutation import Refuted
from trainer_node.storage.database import Database
from trainer_node.storage.store import Store

from .test_runner import Wanted

DAY = 24 * 3600
JOBS, LEAVES = 3 * LANES, 1 << 15
SMALL = 1 << 18
"""Bytes for each root, whatever its run has: a quarter of its tree as it was held before."""


@dataclass
class Crowd:
    """A node whose replays last until they may go on."""

    node: SampleRunner
    clock: Hand
    jobs: list[JobView]
    begun: list[int]
    """The jobs whose replays have begun, in each of their turns."""
    go: threading.Event

    def check(self, *jobs: JobView) -> list[Refuted]:
        """Let the node have a round; return what it has found."""
        now = int(self.clock())
        return [lie for of in jobs or self.jobs for lie in self.node.check(of, now)]

    @property
    def brought(self) -> int:
        """How many jobs wait for a replay, or have one that goes on."""
        return sum(self.node._checks[of.id].computing > 0 for of in self.jobs)


@pytest.fixture
def crowd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Crowd]:
    client = Store(tmp_path / "client", sync=False)
    file = put_package(client)
    root = client.put_tree(Tree(Tag.RUN_TREE, Hashes(os.urandom(HASH_BYTES * LEAVES))))
    wanted, clock, database = Wanted(), Hand(), Database(None)
    wanted.drawn, wanted.whole_s = Plan((1,)), 1e9
    node = new_runner(
        SampleRunner, Store(tmp_path / "node", sync=False), database, samples=wanted, clock=clock
    )
    begun, go, replay, judge = list[int](), threading.Event(), Auditor.replay, node._judge

    def noted(task: Task, *given: Any) -> Part | None:
        begun.append(task.job.id)
        return judge(task, *given)

    def held(self: Auditor, interval: int, on_step: Callable[[int], None]) -> bytes:
        while not go.wait(0.01):
            on_step(0)  # a step, after which another may have the processors
        return replay(self, interval, on_step)

    monkeypatch.setattr(node, "_judge", noted)
    monkeypatch.setattr(Auditor, "replay", held)
    with SlowServer(client, clock) as server:
        jobs = [
            challenged(
                1 + k,
                [(root, server.uri)],
                DAY,
                uri=server.uri,
                program=Terms.of(PROGRAM, LEAVES, (1,)),
                program_file=file,
                rules=rules(clock=DAY),
            )
            for k in range(JOBS)
        ]
        made = Crowd(node, clock, jobs, begun, go)
        until(lambda: [of for of in jobs if node.prepare(of) is None] == [])
        yield made
        for checks in node._checks.values():
            checks.over = True
        go.set()
        node.close()
    database.close()


def test_roots_that_wait_for_the_processors_hold_neither_trees_nor_threads(crowd: Crowd) -> None:
    """The attack: each posted copy of one job put a tree of Python objects into memory, some 240 bytes a leaf, and two
    threads, whatever `limits.memory_bytes` said."""
    others = set(threading.enumerate())
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        crowd.check()
        until(lambda: crowd.check() or crowd.brought == JOBS)
        lanes = crowd.node._lanes._rows
        until(lambda: not any(row.running for row in list(lanes.values())))
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    print(f"{JOBS} roots of {LEAVES} leaves: {grown >> 10} KiB more in memory")
    assert grown < JOBS * SMALL
    replays = [
        thread for thread in threading.enumerate() if thread.name == "replays" and thread not in others
    ]
    assert 0 < len(replays) <= 2 * LANES
    assert len(crowd.begun) == LANES, "the others wait for a place"


@pytest.mark.parametrize("step_lasts", [pytest.param(False, marks=pytest.mark.slow), True])
def test_each_root_has_its_turn_and_none_is_lost(crowd: Crowd, step_lasts: bool) -> None:
    """More intervals that last than there are places: each has its turn, also behind a step of another that lasts, and
    what was stopped comes again."""

    def goes_on() -> bool:
        crowd.clock.on(1.0)
        crowd.check()
        return len(set(crowd.begun)) == JOBS

    with crowd.node._processors.share() if step_lasts else contextlib.nullcontext():
        until(goes_on)
    assert len(crowd.begun) > JOBS, "those whose turn was over have had another"
    crowd.go.set()
    until(lambda: goes_on() and all(crowd.node.found(of.id) for of in crowd.jobs))
    assert crowd.brought == 0


def test_what_is_found_wrong_takes_its_tree_and_is_counted(crowd: Crowd) -> None:
    one = crowd.jobs[0]
    crowd.go.set()
    crowd.check(one)
    (found,) = until(lambda: crowd.check(one))
    part = crowd.node.replay(one.id, found)
    assert len(part.run_tree(0, 0, LEAVES).leaves) == LEAVES
    assert takes(PROGRAM, one.program).step >= LEAF_BYTES * LEAVES
    assert crowd.node._tensors.used >= LEAF_BYTES * LEAVES
