"""Trainer, challenger and verifier are killed with SIGKILL at random moments, again and again, and started anew; and
once at each moment of each transaction that they send.

The outcome is that of an undisturbed game: the right root is accepted, the liar loses, nobody else loses anything.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from assay_capture.capture import build, load_recipe
from assay_lab.demo.checks import check_outcome, wealth
from assay_lab.demo.network import Network
from tests.e2e.test_processes import post
from trainer_node.chain import JobPhase, JobView
from trainer_node.local.bundle import Bundle
from trainer_node.network.artifact_server import ArtifactServer
from trainer_node.storage.store import Store

from .killed import MOMENTS

HONEST = {
    "trainer": ["trainer", "run"],
    "challenger": ["challenger", "run", "--mode", "challenge"],
    "verifier": ["verifier", "run"],
}
LIAR = ["lab", "trainer", "--fault", "wrong-op-output", "--fault-step", "42", "--fault-node", "5"]
GAMES, KILLS = 17, 12
"""204 kills in all."""
DEADLINE_S = 1200.0
LAST_S = 5.0
"""Seconds in which a party notices that its last transaction is mined, which may be a moment to kill itself."""
ACTS = {"trainer": {"join", "commit", "reveal", "collect"}, "verifier": {"attest"}}
"""Acts whose moments must have come, whoever makes the moves of the match."""


class Killing(Network):
    """A network whose honest parties kill themselves once at each moment of each act (:mod:`.killed`)."""

    def moments(self, name: str) -> Path:
        """Return the file of the moments of a party that have come."""
        return self.folder / f"{name}.moments"

    def _spawn(self, name: str, command: list[str], inside: Path | None = None, **variables: str) -> None:
        if name in HONEST:
            at = command.index("trainer_node.cli")
            command = [*command[:at], "tests.campaigns.killed", str(self.moments(name)), *command[at + 1 :]]
        super()._spawn(name, command, inside, **variables)

    def start_again(self) -> int:
        """Start anew those that have killed themselves; return how many."""
        ended = [(name, self._processes[name].poll()) for name in HONEST if self._processes[name].poll()]
        for name, code in ended:
            assert code == -signal.SIGKILL, f"{name} ended with {code}; see {self.log(name)}"
            self.start(name, HONEST[name], threads=1)
        return len(ended)


def random_kills(network: Network, kills: int, seed: int) -> Callable[[], int]:
    """Return what kills a party at random, so many times at most, and returns how many it was this time."""
    draw, left = random.Random(seed), kills

    def kill() -> int:
        nonlocal left
        time.sleep(draw.uniform(0.2, 6.0))
        if not left:
            return 0
        left -= 1
        name = draw.choice([*HONEST])
        os.kill(network.pid(name), signal.SIGKILL)
        network.start(name, HONEST[name], threads=1)
        return 1

    return kill


def play(network: Network, bundle: Bundle, kill: Callable[[], int]) -> int:
    """Play a job to its end, and return how many kills there were."""
    done = 0
    with ArtifactServer(Store(network.folder / "client")) as server:
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
            done += kill()
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
            owed = map(client.snapshot().credits, [accounts[name] for name in HONEST])
            return claim is not None and claim.collected and not any(owed)

        while not paid():
            assert time.monotonic() < deadline, "they were not paid"
            done += kill()
        found = check_outcome(client, accounts, before, began)
        assert all(found[name].profit >= 0 for name in HONEST), found
        time.sleep(LAST_S)
        done += kill()
        assert not network.dead(), "a process that was not killed has ended"
    return done


@pytest.mark.slow
def test_killed_nodes_come_back_and_win(tmp_path: Path) -> None:
    with Network(tmp_path / "network", [*HONEST, "liar"]) as network:
        assert play(network, build(load_recipe("digits-mlp", steps=100)), random_kills(network, 3, 1)) == 3


@pytest.mark.slow
@pytest.mark.timeout(2 * DEADLINE_S)
@pytest.mark.parametrize("seed", range(GAMES))
def test_nodes_killed_at_many_moments_win(tmp_path: Path, seed: int) -> None:
    with Network(tmp_path / "network", [*HONEST, "liar"]) as network:
        kill = random_kills(network, KILLS, 100 + seed)
        assert play(network, build(load_recipe("digits-mlp", steps=400)), kill) == KILLS


@pytest.mark.slow
@pytest.mark.timeout(2 * DEADLINE_S)
def test_nodes_killed_at_each_moment_of_each_transaction_win(tmp_path: Path) -> None:
    with Killing(tmp_path / "network", [*HONEST, "liar"]) as network:

        def wait() -> int:
            time.sleep(0.2)
            return network.start_again()

        done = play(network, build(load_recipe("digits-mlp", steps=100)), wait)
        # NOTE: the challenger sends nothing: the honest trainer plays its match itself.
        come = {name: network.moments(name).read_text().splitlines() for name in ("trainer", "verifier")}
        print(come, file=sys.__stderr__)
        assert done == sum(map(len, come.values()))
        for name, acts in ACTS.items():
            assert {f"{moment} {act}" for act in acts for moment in MOMENTS} <= set(come[name])
