"""Real processes on a real chain: they die, restart, use other thread counts, and find the same root."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import repops
from repops import Backend

from assay_capture.capture import build, load_recipe
from assay_lab.demo.network import Network
from referee_py.execute import Run
from referee_py.program.modes import REPOPS_F32, Rounding
from referee_py.program.terms import Terms
from referee_py.rounding.backend import Rounded
from referee_py.rounding.log_source import MemoryLogs, run_log_tree
from tests.trainer_node.workers.jobs import job as job_of
from tests.trainer_node.workers.processes import workers_of
from trainer_node.chain import ChainClient, JobPhase, JobView
from trainer_node.chain.fees import ETHER
from trainer_node.client.posting import Offer, post_job
from trainer_node.local.bundle import Bundle
from trainer_node.network.artifact_server import ArtifactServer
from trainer_node.rounded.evaluators import evaluator_of
from trainer_node.storage.store import Store

KILLED_WITHIN_S = 10.0
"""Length of a run that is to be killed midway: much longer than it takes to see that it has begun."""
DEADLINE_S = 800.0
WORKERS_STEPS = 2000
LIE = ("--fault", "wrong-op-output", "--fault-step", "42", "--fault-node", "5")
"""The node is a product of matrices."""


def steps_of(mode: int) -> int:
    """Return the number of steps that take `KILLED_WITHIN_S` here; at least hundreds, so that there are checkpoints."""
    bundle = build(load_recipe("digits-mlp", steps=200)).with_mode(mode)
    run, began = run_of(bundle, MemoryLogs()), time.monotonic()
    run.advance(run.initial(), 200)
    return max(800, int(200 * KILLED_WITHIN_S / (time.monotonic() - began)))


def run_of(bundle: Bundle, log_source: MemoryLogs) -> Run:
    terms = bundle.terms
    backend: Backend | Rounded = repops.backend("cpu")
    if terms.arithmetic.follows_logs:
        backend = Rounded(Rounding.of(terms.mode), log_source, evaluator_of("torch"))
    return Run.of(bundle, backend)


def wait_for(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not what():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.1)


def progress(network: Network, name: str) -> int:
    """Return the last training step that a party has logged."""
    return max((e["step"] for e in network.events(name) if e["event"] == "train.progress"), default=0)


def post(
    network: Network, client: ChainClient, bundle: Bundle, uri: str, slots: int, challenge_period: int = 5
) -> int:
    """Post a job judged by one verifier, if there is one, else by the court."""
    verifiers = tuple(network.accounts[name] for name in ("verifier",) if name in network.accounts)
    offer = Offer(
        reward=ETHER,
        stake=ETHER,
        slots=slots,
        train_period=600,
        reveal_period=600,
        challenge_period=challenge_period,
        clock=600,
        verdict_period=600,
        appeal_period=60,
        verifiers=verifiers,
    )
    with network.transactions("client") as transactions:
        return post_job(client, transactions, Store(network.folder / "client"), bundle, offer, uri)[0]


@pytest.mark.slow
def test_a_killed_trainer_goes_on_and_finds_the_root_of_another_thread_count(tmp_path: Path) -> None:
    steps = steps_of(REPOPS_F32.byte)
    bundle = build(load_recipe("digits-mlp", steps=steps))
    names = ["one thread", "two threads", "verifier"]
    with (
        Network(tmp_path / "network", names) as network,
        ArtifactServer(Store(network.folder / "client")) as server,
    ):
        client = network.deploy()
        network.register_verifier(client, "verifier")
        job_id = post(network, client, bundle, server.uri, slots=2)
        network.start("one thread", ["trainer", "run"], threads=1)
        network.start("two threads", ["trainer", "run"], threads=2)

        wait_for(lambda: progress(network, "one thread") > bundle.terms.strides[0])
        os.kill(network.pid("one thread"), signal.SIGKILL)
        killed_at = progress(network, "one thread")
        assert killed_at < steps, "it was killed too late to show anything"
        network.start("one thread", ["trainer", "run"], threads=1)

        def job() -> JobView:
            return client.snapshot().job(job_id)

        wait_for(lambda: len(job().claims) == 2)
        (start,) = [event for event in network.events("one thread") if event["event"] == "train.start"]
        assert 0 < start["after"] < steps, "it must go on from a checkpoint"
        assert len(job().groups) == 1
        run = run_of(bundle, MemoryLogs())
        assert job().groups[0].root == run.commit_run().claim().root
        wait_for(lambda: job().phase is JobPhase.ACCEPTED)


@pytest.mark.slow
def test_a_daemon_with_workers_is_killed_with_one_of_them(tmp_path: Path) -> None:
    """The worker first, after which the daemon continues alone; then the daemon, which begins with workers again."""
    small = job_of("mlp")
    bundle = replace(small, terms=Terms.of(small.program, WORKERS_STEPS, (20, 1), small.terms.mode))
    with (
        Network(tmp_path / "network", ["trainer"]) as network,
        ArtifactServer(Store(network.folder / "client")) as server,
    ):
        client = network.deploy()
        job_id = post(network, client, bundle, server.uri, slots=1)
        settings = {"threads": 1, "workers": 2, "worker_timeout_s": 60}
        network.start("trainer", ["trainer", "run"], **settings)
        wait_for(lambda: progress(network, "trainer") > 20)
        os.kill(workers_of(network.pid("trainer"))[1], signal.SIGKILL)
        wait_for(lambda: any(event["event"] == "worker.lost" for event in network.events("trainer")))
        lost_at = progress(network, "trainer")
        wait_for(lambda: progress(network, "trainer") > lost_at + 40)
        os.kill(network.pid("trainer"), signal.SIGKILL)
        assert progress(network, "trainer") < WORKERS_STEPS, "it was killed too late to show anything"
        network.start("trainer", ["trainer", "run"], **settings)
        wait_for(lambda: client.snapshot().job(job_id).phase is JobPhase.ACCEPTED)
        events = [event["event"] for event in network.events("trainer")]
        assert events.count("workers.start") == 1, "of the second process"
        assert "worker.lost" not in events
        root = client.snapshot().job(job_id).groups[0].root
    assert root == run_of(bundle, MemoryLogs()).commit_run().root


@pytest.mark.slow
def test_a_trainer_killed_in_a_trial_comes_back_and_wins(tmp_path: Path) -> None:
    bundle = build(load_recipe("digits-mlp", steps=100))
    names = ["honest", "liar"]
    with (
        Network(tmp_path / "network", names) as network,
        ArtifactServer(Store(network.folder / "client")) as server,
    ):
        client = network.deploy()
        job_id = post(network, client, bundle, server.uri, slots=2)
        network.start("honest", ["trainer", "run"])
        network.start("liar", ["lab", "trainer", *LIE])

        def job() -> JobView:
            return client.snapshot().job(job_id)

        def before_the_court() -> bool:
            snapshot = client.snapshot()
            return bool(snapshot.hearings(snapshot.job(job_id))[0])

        wait_for(before_the_court)
        os.kill(network.pid("honest"), signal.SIGKILL)
        assert before_the_court(), "it was killed too late to show anything"
        served_at = {claim.owner: claim.uri for claim in job().claims}
        network.start("honest", ["trainer", "run"])

        wait_for(lambda: job().phase.ended)
        assert job().phase is JobPhase.ACCEPTED
        honest = job().claim_of(network.accounts["honest"])
        assert honest is not None
        assert job().accepted_root == job().groups[honest.group].root
        (opened,) = [event for event in network.events("honest") if event["event"] == "node.open"]
        assert opened["artifacts"] == served_at[honest.owner], "it must serve where its claim says"


@pytest.mark.slow
def test_a_killed_trainer_follows_the_logs_that_it_has_written(tmp_path: Path) -> None:
    """Its roots are those of an uninterrupted run, and a challenger with another library reaches them too."""
    mode = Rounding(32).mode
    steps = steps_of(mode)
    bundle = build(load_recipe("digits-mlp", steps=steps)).with_mode(mode)
    terms, names = bundle.terms, ["trainer", "auditor", "verifier"]
    with (
        Network(tmp_path / "network", names) as network,
        ArtifactServer(Store(network.folder / "client")) as server,
    ):
        client = network.deploy()
        network.register_verifier(client, "verifier")
        job_id = post(network, client, bundle, server.uri, slots=1, challenge_period=120)
        network.start("trainer", ["trainer", "run"], threads=1)
        network.start("auditor", ["challenger", "run", "--mode", "challenge"], threads=1, evaluator="halves")
        wait_for(lambda: progress(network, "trainer") > terms.strides[0])
        os.kill(network.pid("trainer"), signal.SIGKILL)
        assert progress(network, "trainer") < steps, "it was killed too late to show anything"
        network.start("trainer", ["trainer", "run"], threads=1)

        def job() -> JobView:
            return client.snapshot().job(job_id)

        wait_for(lambda: any(event["event"] == "claim.valid" for event in network.events("auditor")))
        (start,) = [event for event in network.events("trainer") if event["event"] == "train.start"]
        assert 0 < start["after"] < steps, "it must go on from a checkpoint"
        log_source = MemoryLogs()
        assert job().groups[0].root == run_of(bundle, log_source).commit_run().root
        assert job().logs == run_log_tree(log_source.roots(terms.node_count)).root
        assert len(job().claims) == 1, "nobody disputes it"
