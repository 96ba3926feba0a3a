"""Trainer, challenger and verifier are killed with SIGKILL at random moments, again and again, and started anew.

The outcome is that of an undisturbed game: the right root is accepted, the liar loses, nobody else loses anything.
"""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest

from assay_lab.demo.checks import check_outcome, wealth
from assay_lab.demo.network import Network
from tests.e2e.test_processes import post
from trainer_node.bundle import Bundle
from trainer_node.capture import build, load_recipe
from trainer_node.chain import JobPhase, JobView
from trainer_node.server import ArtifactServer
from trainer_node.store import Store

HONEST = {
    "trainer": ["trainer", "run"],
    "challenger": ["challenger", "run", "--mode", "challenge"],
    "verifier": ["verifier", "run"],
}
LIAR = ["lab", "trainer", "--fault", "wrong-op-output", "--fault-step", "42", "--fault-node", "5"]
GAMES, KILLS = 17, 12
"""204 kills in all."""
DEADLINE_S = 1200.0


def play(folder: Path, bundle: Bundle, kills: int, seed: int) -> int:
    """Play a job to its end with so many kills at most; return how many there were."""
    draw, done = random.Random(seed), 0
    with (
        Network(folder / "network", [*HONEST, "liar"]) as network,
        ArtifactServer(Store(network.folder / "client")) as server,
    ):
        client = network.deploy()
        network.register_verifier(client, "verifier")
        job_id = post(network, client, bundle, server.uri, slots=2, challenge_period=10)
        before = wealth(client, {name: network.accounts[name] for name in [*HONEST, "liar"]})
        began = client.block().number + 1
        for name, command in HONEST.items():
            network.start(name, command, threads=1)
        network.start("liar", LIAR, threads=1)
        deadline = time.monotonic() + DEADLINE_S

        def job() -> JobView:
            return client.snapshot().job(job_id)

        while not job().phase.ended:
            assert time.monotonic() < deadline, f"the job did not end after {done} kills: {job()}"
            time.sleep(draw.uniform(0.2, 6.0))
            if done < kills:
                name = draw.choice([*HONEST])
                os.kill(network.pid(name), signal.SIGKILL)
                network.start(name, HONEST[name], threads=1)
                done += 1
        ended = job()
        assert ended.phase is JobPhase.ACCEPTED
        honest = ended.claim_of(network.accounts["trainer"])
        liar = ended.claim_of(network.accounts["liar"])
        assert honest is not None
        assert not honest.lost
        assert ended.accepted_root == ended.groups[honest.group].root
        assert liar is not None
        assert liar.lost
        accounts = {name: network.accounts[name] for name in [*HONEST, "liar"]}

        def paid() -> bool:
            claim = job().claim_of(accounts["trainer"])
            owed = map(client.snapshot().credit, [accounts[name] for name in HONEST])
            return claim is not None and claim.collected and not any(owed)

        while not paid():
            assert time.monotonic() < deadline, "they were not paid"
            time.sleep(0.5)
        found = check_outcome(client, accounts, before, began)
        assert all(found[name].profit >= 0 for name in HONEST), found
        assert not network.dead(), "a process that was not killed has ended"
    return done


def test_killed_nodes_come_back_and_win(tmp_path: Path) -> None:
    assert play(tmp_path, build(load_recipe("digits-mlp", steps=100)), 3, 1) == 3


@pytest.mark.slow
@pytest.mark.timeout(2 * DEADLINE_S)
@pytest.mark.parametrize("seed", range(GAMES))
def test_nodes_killed_at_many_moments_win(tmp_path: Path, seed: int) -> None:
    assert play(tmp_path, build(load_recipe("digits-mlp", steps=400)), KILLS, 100 + seed) == KILLS
