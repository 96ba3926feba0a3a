"""A refuter plays its interval on, whatever the disk and the claimants' servers do once it has found the lie."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from referee_py.commit import Record
from tests.support.small_disk import Refusal
from tests.trainer_node.audit.runs import opened, publish
from trainer_node.audit.claimed import ClaimedRun
from trainer_node.audit.interval import Auditor, computes
from trainer_node.audit.published import PublishedRun
from trainer_node.errors import DiskFailed, DiskFull
from trainer_node.network.artifact_server import ArtifactServer
from trainer_node.network.fetcher import Fetcher
from trainer_node.network.sources import Served
from trainer_node.roles.sampling.part import Part
from trainer_node.storage.retention import Policy, Retention
from trainer_node.storage.store import Store

STEPS, STRIDE, LIE, INTERVAL = 12, 3, 8, 3
MEMORY = 1 << 26
WEEK_S = 7 * 24 * 3600.0
NOWHERE = "http://127.0.0.1:9"


@pytest.fixture
def published(tmp_path: Path) -> PublishedRun:
    """A run of four intervals, of which the third is wrong."""
    return opened(publish(tmp_path / "run", STEPS, STRIDE, lie=LIE), tmp_path / "seen")


def auditor_of(published: PublishedRun, store: Store, uri: str) -> Auditor:
    """Return what a sampler of job 1 checks with, of a claim that one server serves."""
    source = Served(Fetcher(store, timeout_s=60.0, attempts=1).for_job(1), [uri])
    run = published
    claimed = ClaimedRun(source, run.terms, run.program, run._program_file, run.root, run.logs)
    return Auditor(claimed, MEMORY, computes(run.terms.mode))


def part_of(auditor: Auditor) -> Part:
    """Replay the wrong interval, and return what refutes it."""
    return Part(auditor, INTERVAL, auditor.replay(INTERVAL), auditor.published.source.store)


def moves(part: Part) -> tuple[list[list[bytes]], list[Record]]:
    """Return what a match about the interval asks for, down to an operator of its first step."""
    writers = sorted({slot.node for slot in part.program.slots})
    before = [part.record(part.start, node) for node in writers]
    trees = part.run_tree(1, part.start, part.end), part.step_tree(part.start), part.step_tree(part.start + 1)
    part.publish(part.start + 1, 0)
    assert part.operator(part.start + 1, 0).inputs
    return [list(tree.leaves) for tree in trees], [*before, part.right(part.start + 1, 0)]


def age(store: Store) -> None:
    """Let a week pass in which nothing in the store is used."""
    then = time.time() - WEEK_S
    for path in store.root.rglob("*"):
        if path.is_file():
            os.utime(path, (then, then))


def test_a_refuter_plays_on_from_memory_when_the_disk_is_full(
    tmp_path: Path, published: PublishedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[DiskFailed | None] = []
    with ArtifactServer(Store(tmp_path / "run" / "artifacts", sync=False)) as server:
        auditor = auditor_of(published, Store(tmp_path / "roomy", sync=False), server.uri)
        expected = moves(part_of(auditor))
        auditor = auditor_of(published, Store(tmp_path / "mine", sync=False), server.uri)
        computed = auditor.replay(INTERVAL)
        refusal = Refusal(monkeypatch, 0)
        part = Part(auditor, INTERVAL, computed, auditor.published.source.store, unkept=told.append)
    assert moves(part) == expected, "the claimants' server is gone, too"
    assert {type(error) for error in told} == {DiskFull}
    refusal.end()
    assert moves(part) == expected
    assert told[-1] is None


def test_what_a_refuter_has_fetched_stays_until_its_job_is_over(
    tmp_path: Path, published: PublishedRun
) -> None:
    """A match may last for days, and a restart within it finds no server any more."""
    store = Store(tmp_path / "mine", sync=False)
    with ArtifactServer(Store(tmp_path / "run" / "artifacts", sync=False)) as server:
        auditor = auditor_of(published, store, server.uri)
        expected = moves(part_of(auditor))
    age(store)
    retention = Retention(store, None, Policy())
    retention.collect()
    retention.urgent(frozenset(), lambda: False)
    again = auditor_of(published, Store(store.root, sync=False), NOWHERE)
    assert moves(part_of(again)) == expected
    store.holders.end(1)
    age(store)
    assert retention.collect().removed > 0
