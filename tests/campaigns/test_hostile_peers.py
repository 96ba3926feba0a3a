"""Hundreds of hostile jobs and artifacts beside an honest job: each is refused or given up by name, and costs little.

The quick form runs some of each; the slow form 600 jobs and 600 artifacts.
"""

from __future__ import annotations

import hashlib
import random
import resource
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import structlog.testing

from referee_py.commit import Record, Tag, Tree
from referee_py.errors import InvalidInput, Unavailable
from referee_py.rounding.step_log import StepLog
from tests.referee_py.rounding.logs import node_log
from tests.trainer_node.desk import ENOUGH, PROGRAM, honest_run, job, put_package, runner
from trainer_node.compute import outcomes
from trainer_node.compute.job_runner import JobRunner
from trainer_node.network.artifact_server import ArtifactServer
from trainer_node.network.fetcher import Fetcher
from trainer_node.network.peer_costs import Peers
from trainer_node.observe.metrics import Metrics
from trainer_node.observe.problems import Problems
from trainer_node.storage.artifacts import Kind, Name
from trainer_node.storage.database import Database
from trainer_node.storage.store import Store

from .hostile import BYTES, MIB, WAYS, HostileServer, fields

SIZES = pytest.mark.parametrize("count", [60, pytest.param(600, marks=pytest.mark.slow)])
MAX_GROWTH = 400 * MIB
"""Bound on what all of it may add to the process's memory; a bomb alone would unpack to 64 MiB, a boast to 2^64."""
HONEST = 1_000_000


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outcomes, "RETRY_S", 3600.0)


def peak() -> int:
    """Return the most memory that this process has had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


@SIZES
def test_hostile_jobs_leave_the_honest_one_alone(count: int, tmp_path: Path) -> None:
    """Chain fields, program files under their right hash, and the ways in which a client's server sends them."""
    draw, claim = random.Random(21), honest_run().commit_run().claim()
    metrics, problems, database = Metrics(), Problems(), Database(None)
    right = PROGRAM.to_bytes()
    honest_store = Store(tmp_path / "honest", sync=False)
    put_package(honest_store)
    before = peak()
    outcomes: Counter[str] = Counter()
    with (
        HostileServer() as server,
        ArtifactServer(honest_store) as honest,
        structlog.testing.capture_logs() as logs,
        runner(tmp_path / "node", database, metrics=metrics, problems=problems) as works,
    ):
        works._fetcher = Fetcher(
            Store(tmp_path / "node", max_bytes=ENOUGH, sync=False),
            timeout_s=60.0,
            attempts=1,
            peers=Peers(database, metrics, problems, max_bytes=64 * MIB, max_s=600),
        )
        for number in range(1, count + 1):
            how = draw.choice(WAYS if draw.random() < 0.5 else ("plain",))
            # NOTE: an endless file costs its limit, 256 MiB, so there are few; test_peers is about their budget.
            how = "short" if how == "endless" and number % 100 else how
            body = draw.choice(BYTES)(draw, right)
            file = hashlib.sha256(body).digest() if draw.random() < 0.8 else draw.randbytes(32)
            server.bodies[f"/v1/blob/{file.hex()}"] = how, body
            bad = fields(draw, job(number, uri=server.uri, program_file=file))
            outcomes[_outcome(works, bad, logs)] += 1
            problem = works.refused(number) or problems.topics()
            assert problem, f"job {number} failed without a word"
        deadline = time.monotonic() + 300
        good = job(HONEST, uri=honest.uri)
        while (found := works.train(good)) is None:
            assert time.monotonic() < deadline, works.refused(HONEST)
            time.sleep(0.01)
    assert found == claim, "the same outcome as without them"
    # NOTE: a change that comes to the same file makes an honest job of it, which is measured.
    assert outcomes["refused"] > count // 6, outcomes
    assert outcomes["unavailable"] > count // 20, outcomes
    assert outcomes["measured"] <= count // 20, outcomes
    assert sum(outcomes.values()) == count
    bugs = [line for line in logs if line["event"] in ("job.failed", "job.bug") or line.get("exc_info")]
    assert not bugs, bugs[:3]
    assert problems.shown().ready, "strangers cannot make a node unready"
    assert problems.shown().notices
    assert metrics.value("failures", "peer") >= outcomes["refused"] + outcomes["unavailable"]
    assert peak() - before < MAX_GROWTH
    print(f"\n{count} hostile jobs: {dict(outcomes)}; memory grew by {(peak() - before) // MIB} MiB")


def _outcome(works: JobRunner, bad: object, logs: list) -> str:
    """Work on a job until it is decided; return what became of it."""
    began, deadline = len(logs), time.monotonic() + 300
    while True:
        if works.prepare(bad) is not None:  # type: ignore[arg-type]
            return "measured"
        if works.refused(bad.id):  # type: ignore[attr-defined]
            return "refused"
        if any(line["event"] in ("job.unavailable", "job.failed") for line in logs[began:]):
            return "unavailable"
        assert time.monotonic() < deadline
        time.sleep(0.002)


@SIZES
def test_hostile_artifacts_of_every_kind_are_refused_and_leave_nothing(count: int, tmp_path: Path) -> None:
    """Tensors, trees, records, logs and blobs under names that others have chosen: a trainer, challenger or verifier
    asks for them in a dispute."""
    draw = random.Random(22)
    honest, mine = (
        Store(tmp_path / "honest", sync=False),
        Store(tmp_path / "mine", max_bytes=32 * MIB, sync=False),
    )
    log = StepLog({3: node_log(10, {2: True})})
    tree = Tree(Tag.STEP_TREE, [bytes([i]) * 32 for i in range(5)])
    names = [
        Name(Kind.BLOB, honest.put_blob(PROGRAM.to_bytes())),
        Name(Kind.TENSOR, honest.put_tensor(np.arange(3000, dtype=np.float32).reshape(3, 1000))),
        Name(Kind.TENSOR, honest.put_tensor(np.zeros((0, 5), np.int64))),
        Name(Kind.TENSOR, honest.put_tensor(np.array([True, False]))),
        Name(Kind.TREE, honest.put_tree(tree), Tag.STEP_TREE, 5),
        Name(Kind.RECORD, honest.put_record(Record(bytes(32), (bytes(32),), (bytes(32),)))),
        Name(Kind.LOG, honest.put_logs([log], 5)[0], count=5),
    ]
    metrics, problems = Metrics(), Problems()
    peers = Peers(Database(None), metrics, problems, max_bytes=1 << 40, max_s=1e9)
    fetcher = Fetcher(mine, timeout_s=60.0, attempts=1, peers=peers).for_job(1)
    before, refused, longest, kinds = peak(), 0, 0, Counter[str]()
    with HostileServer() as server, ArtifactServer(honest) as good:
        for number in range(count):
            name = names[number % len(names)]
            path = honest.find(name)
            assert path is not None
            right = path.read_bytes()
            how, body = draw.choice(WAYS), draw.choice(BYTES)(draw, right)
            server.bodies[name.url_path.partition("?")[0]] = how, body
            try:
                fetcher.fetch(name, [server.uri], max_bytes=draw.choice((None, 100, MIB)))
            except (Unavailable, InvalidInput) as error:
                refused += 1
                kinds[type(error).__name__] += 1
                longest = max(longest, len(str(error)))
            else:
                # NOTE: half of the bytes twice are the right ones.
                kept = mine.find(name)
                assert kept is not None
                assert kept.read_bytes() == right, f"other bytes were taken for {name}"
            mine.forget(name)
        fetcher.fetch_all(names, [server.uri, good.uri])
    assert all(mine.has(name) for name in names), "an honest server beside it delivers everything"
    assert not list((tmp_path / "mine" / "incoming").iterdir())
    assert refused > count * 3 // 4
    assert longest < 2000, "what a peer sends is not quoted without end"
    assert metrics.value("fetch_failures", server.uri.removeprefix("http://")) >= refused
    assert peak() - before < MAX_GROWTH
    print(f"\n{count} hostile artifacts: {dict(kinds)}; memory grew by {(peak() - before) // MIB} MiB")
