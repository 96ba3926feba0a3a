"""Audits of a GPT of more than 10 million parameters, of which one element of one step is wrong.

publish   trains it with the lie, and keeps all checkpoints
audit     all intervals, in one process and in two, in turns
on_ray    on two machines of a cluster (processes of this machine), one of which is killed in the middle
bound     what two processes gain that do nothing but training steps: no audit of this machine can gain more
states    cost of a commitment to the state after a step, compared with the step itself
"""

from __future__ import annotations

import multiprocessing
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import repops

from assay_capture.capture import build
from assay_lab.daemons import lying
from assay_lab.faults import Fault, Lie
from referee_py.commit import Tag, Tree, tensor_hash
from referee_py.execute import Run
from trainer_node.audit.address import Address
from trainer_node.audit.engine import MAX_REPORT_BYTES, IntervalReport
from trainer_node.audit.engine_ray import reports_by_ray
from trainer_node.audit.folder import reports_in
from trainer_node.audit.interval import Finding, Verdict
from trainer_node.audit.pool import Task
from trainer_node.audit.published import PublishedRun
from trainer_node.cli.audit import DIFFERS
from trainer_node.local.bundle import Bundle
from trainer_node.local.run_folder import KeepRule, RunFolder, open_run
from trainer_node.run.modes import backend_of
from trainer_node.run.replay import Replay
from trainer_node.storage.store import Store

from .gpt_dispute import backward_nodes, gpt
from .report import Table

STEPS, STRIDES = 80, (2, 1)
MEMORY = 8 << 30


@contextmanager
def lying_run(bundle: Bundle, lie: Lie, folder: Path) -> Iterator[tuple[RunFolder, Replay]]:
    """Publish a run with a lie, or continue with it; yield its folder and the liar's own replay."""
    keeps = KeepRule(every=1)
    with open_run(folder, bundle.terms, "repops-f32", resume=True, keep_s=1e9, keeps=keeps) as opened:
        replay = lying(lie)(bundle, backend_of("cpu"), opened.store, opened)
        opened.publish(bundle, replay.train())
        yield opened, replay


@dataclass
class Taken:
    """Seconds of an audit by the clock, and of processors in all processes."""

    wall: float
    cpu: float


def audited(run: PublishedRun, folder: Path, processes: int, threads: int) -> tuple[Taken, list[Finding]]:
    """Let `assay audit` check all intervals with nothing fetched before. Return what it took, and the findings."""
    command = [str(Path(sys.executable).with_name("assay")), "audit", str(folder), "--intervals", "all"]
    environment = {**os.environ, "REPOPS_NUM_THREADS": str(processes * threads)}
    with tempfile.TemporaryDirectory(dir=folder.parent) as parent:
        out = f"{parent}/audit"
        began, before = time.perf_counter(), sum(os.times()[2:4])
        done = subprocess.run(
            [*command, "--jobs", str(processes), "--out", out],
            env=environment,
            capture_output=True,
            check=False,
        )
        took = Taken(time.perf_counter() - began, sum(os.times()[2:4]) - before)
        assert done.returncode == DIFFERS, done.stderr.decode()
        return took, [
            IntervalReport.read(line, run).finding for line in reports_in(Path(out), MAX_REPORT_BYTES)
        ]


def audits(run: PublishedRun, folder: Path, turns: int) -> tuple[Table, list[Finding]]:
    """Audit in turns. Return the medians, and what was found in the last turn.

    On a machine where others compute, the clock says how much of it was free. The processors' time of one process, over
    half of that of two, is what two free cores gain.
    """
    ways = {"one process, one thread": (1, 1), "one process, two threads": (1, 2), "two processes": (2, 1)}
    taken: dict[str, list[Taken]] = {way: [] for way in ways}
    found: list[Finding] = []
    for _ in range(turns):
        for way, (processes, threads) in ways.items():
            took, found = audited(run, folder, processes, threads)
            taken[way].append(took)
            print(
                f"{way}: {took.wall:.1f} s, CPU {took.cpu:.1f} s, load {os.getloadavg()[0]:.1f}", flush=True
            )
    columns = ["wall s", "wall / two processes", "CPU s", "CPU / half of two processes"]
    table = Table("audits", [f"all {run.count} intervals of {run.terms.steps} steps", *columns])
    for way, times in taken.items():
        pairs = list(zip(times, taken["two processes"], strict=True))
        words = (
            f"{statistics.median(t.wall for t in times):.1f}",
            f"{statistics.median(a.wall / b.wall for a, b in pairs):.2f}",
            f"{statistics.median(t.cpu for t in times):.1f}",
            f"{statistics.median(2 * a.cpu / b.cpu for a, b in pairs):.2f}" if "one thread" in way else "",
        )
        table.add(way, *words)
    return table, found


_training: Run | None = None


def _begin(folder: Path) -> None:
    global _training
    repops.set_num_threads(1)
    bundle = Bundle.read(folder)
    _training = Run(bundle.program, bundle.constants, bundle.initial, STEPS, (1,), backend_of("cpu"))
    _steps(1)


def _steps(count: int) -> float:
    """Train from the initial state. Return seconds by the clock."""
    assert _training is not None
    began = time.perf_counter()
    _training.advance(_training.initial(), count)
    return time.perf_counter() - began


def bound(folder: Path, turns: int, steps: int = 6) -> float:
    """Return how many times faster two processes train two runs at once than one of them one after the other."""
    context = multiprocessing.get_context("spawn")
    pools = [ProcessPoolExecutor(1, context, _begin, (folder,)) for _ in range(2)]
    try:
        gains = []
        for _ in range(turns):
            alone = pools[0].submit(_steps, steps).result()
            together = [pool.submit(_steps, steps) for pool in pools]
            gains.append(2 * alone / max(future.result() for future in together))
        return statistics.median(gains)
    finally:
        for pool in pools:
            pool.shutdown()


def on_a_cluster(run: PublishedRun, folder: Path) -> tuple[float, list[Finding]]:
    """Audit on two machines with one core each, and kill one after three intervals."""
    import ray
    from ray.cluster_utils import Cluster

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    with tempfile.TemporaryDirectory(dir=folder.parent) as cache:
        os.environ["XDG_CACHE_HOME"] = cache
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
        cluster.add_node(num_cpus=1)
        victim = cluster.add_node(num_cpus=1)
        task, found = Task(str(folder), Path(cache), run.claim.root, MEMORY), []
        began = time.perf_counter()
        for report in reports_by_ray(run, task, range(1, run.count + 1), 1, cluster.address):
            found.append(report.finding)
            if len(found) == 3:
                cluster.remove_node(victim, allow_graceful=False)
        seconds = time.perf_counter() - began
        ray.shutdown()
        cluster.shutdown()
        return seconds, found


def states(bundle: Bundle, turns: int) -> Table:
    """Return the CPU time of a step, and of the root of the state after it, on one thread, in turns.

    The root is that of the slots alone: of the tensors' hashes, which are nearly all of its cost.
    """
    repops.set_num_threads(1)
    run = Run(bundle.program, bundle.constants, bundle.initial, turns + 1, (1,), backend_of("cpu"))
    state = run.advance(run.initial(), 1)
    steps, roots = [], []
    for _ in range(turns):
        began = time.process_time()
        state = run.advance(state, state.step + 1)
        arrays = state.arrays
        done = time.process_time()
        _ = Tree(Tag.INITIAL_TREE, [tensor_hash(array) for array in arrays]).root
        steps.append(done - began)
        roots.append(time.process_time() - done)
    size = sum(array.nbytes for array in arrays)
    table = Table("states", ["model", "MB of state", "step: CPU s", "root of its state: CPU s", "of a step"])
    share = statistics.median(root / step for root, step in zip(roots, steps, strict=True))
    words = (f"{size / 1e6:.0f}", f"{statistics.median(steps):.2f}", f"{statistics.median(roots):.3f}")
    table.add(bundle.name, *words, f"{share:.1%}")
    return table


def tell(found: Iterable[Finding]) -> None:
    counts = {verdict: sum(finding.verdict is verdict for finding in found) for verdict in Verdict}
    print({verdict.value: count for verdict, count in counts.items()})
    for finding in found:
        if finding.verdict is Verdict.DIFFERS:
            print(finding.to_json())


@contextmanager
def published(text: Path, folder: Path, seed: int) -> Iterator[tuple[Path, PublishedRun, Path]]:
    """Yield the bundle's folder, the published run that lies, and its folder, until the audits are over."""
    job, place = folder / f"gpt-{STEPS}", folder / f"run-{STEPS}"
    if not (job / "job.json").exists():
        build(replace(gpt(text, STEPS), strides=STRIDES)).write(job)
    bundle = Bundle.read(job)
    draw = random.Random(seed)
    node, step = draw.choice(backward_nodes(bundle)), draw.randint(2, STEPS - 1)
    lie = Lie(Fault.WRONG_OP_OUTPUT, step, node)
    print(f"wrong: node {node} ({bundle.program.nodes[node].name}) in step {step}")
    with lying_run(bundle, lie, place) as (opened, replay), tempfile.TemporaryDirectory() as cache:
        opened.show(replay, -(-step // STRIDES[0]), step, node)
        yield job, PublishedRun(Address(str(place)), Store(Path(cache), sync=False)), place


def measure(text: Path, folder: Path, seed: int, turns: int) -> Iterator[Table]:
    """Yield the times of audits, and those of commitments to states."""
    with published(text, folder, seed) as (job, run, place):
        table, found = audits(run, place, turns)
        table.note = f"two processes that only train: {bound(job, 2 * turns + 1):.2f}; "
        yield table
        tell(found)
    table = states(Bundle.read(job), 5)
    table.note = "one thread; "
    yield table


def on_ray(text: Path, folder: Path, seed: int) -> tuple[Table, ...]:
    """Print what a cluster finds of which a machine is killed. Returns no table."""
    with published(text, folder, seed) as (_, run, place):
        seconds, found = on_a_cluster(run, place)
        print(f"two machines, one of them killed: {seconds:.1f} s, load {os.getloadavg()[0]:.1f}")
        tell(found)
    return ()
