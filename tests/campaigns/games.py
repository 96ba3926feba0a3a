"""Games of a campaign: one job with a liar, played by real nodes that reach the chain through broken endpoints."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eth_account import Account

from assay_lab.faults import Fault
from referee_py.game.state import Phase
from tests.conftest import Anvil, undone
from tests.e2e.arena import PARAMETERS, Arena, Outcome
from trainer_node.chain import ChainClient, Deployment, Snapshot, TransactionManager, connect
from trainer_node.chain.contracts import error_decoder
from trainer_node.daemon.service import Daemon, Service
from trainer_node.errors import ChainError
from trainer_node.local.bundle import Bundle
from trainer_node.operate.deploy import deploy
from trainer_node.storage.database import Database

TIME_STEP_S = 120
"""Seconds that pass on the chain while nobody has anything to do."""
MAX_SAID = 1000
LIMITS = {"rpc_timeout_s": 1.0, "rpc_bytes": 1 << 19}


@dataclass
class Heard:
    """What the nodes have said about their endpoints: reasons of /readyz by topic, and metrics that count failures."""

    reasons: dict[str, set[str]] = field(default_factory=dict)
    failures: float = 0.0
    disagreements: float = 0.0

    def hear(self, node: Daemon) -> None:
        """Take in what a node says now."""
        shown = node.problems.shown()
        for said in (*shown.reasons, *shown.notices):
            topic, _, reason = said.partition(": ")
            kept = self.reasons.setdefault(topic, set())
            if len(kept) < MAX_SAID:
                kept.add(reason)

    def count(self, node: Daemon) -> None:
        """Take in a node's counters at the end."""
        names = [endpoint.name for endpoint in node.client.endpoints.every]
        self.failures += sum(node.metrics.value("rpc_failures", name) for name in names)
        self.disagreements += sum(node.metrics.value("rpc_disagreements", name) for name in names)

    def any(self, *words: str) -> bool:
        """Return whether a reason has all of these words."""
        return any(all(word in r for word in words) for found in self.reasons.values() for r in found)


class Game(Arena):
    """An arena whose contracts are deployed already. Honest members are at ``urls``, the liar at the chain itself.

    A round that fails is the node's own affair: it is contained as in a daemon, and little time passes.
    """

    def __init__(
        self,
        anvil: Anvil,
        folder: Path,
        bundle: Bundle,
        urls: Sequence[str],
        deployed: Path,
        fault: Fault,
        **settings: Any,
    ) -> None:
        self._urls, self._deployed, self._more = tuple(urls), deployed, settings
        self.said = Heard()
        self.between: Callable[[], None] = lambda: None
        """Called after each turn."""
        super().__init__(
            *(anvil, folder, bundle),
            trainers=[Fault.NONE, fault],
            challenger=None,
            verifiers=0,
            fault_step=5,
        )
        self.services = {
            member.name: Service(member.node, lambda member=member: member.loop.tick())  # type: ignore[misc]
            for member in self.members
        }

    def _deploy(self) -> TransactionManager:
        self.web3 = connect(self._anvil.url, self._anvil.chain_id)
        self._deployment = self._deployed
        self.client = ChainClient(self.web3, Deployment.load(self._deployed))
        return self._transactions()

    def _node(self, name: str, role: str, **settings: Any) -> Daemon:
        settings["threads"] = 1
        if name != "trainer-1":
            settings |= {"rpc_url": self._urls, "limits": LIMITS, **self._more}
        return super()._node(name, role, **settings)

    def turn(self) -> bool:
        """Let each member do a round, whatever fails in it. Return True if nobody had anything to do."""
        before, failed = self.web3.eth.block_number, False
        for member in self.members:
            self.services[member.name].round()
            failed = failed or bool(member.node.problems.topics() - {"endpoints"})
            if member.honest:
                self.said.hear(member.node)
        self.between()
        if self.web3.eth.block_number != before:
            return False
        if any(member.runner is not None and member.runner.busy for member in self.members):
            time.sleep(0.02)
        elif not self._over(self.client.snapshot()):
            self.skip(2 if failed else TIME_STEP_S)
        return True

    def rpc(self, method: str, *params: object) -> None:
        """Ask the chain itself for something, directly."""
        answer = self.web3.provider.make_request(method, list(params))  # type: ignore[arg-type]
        assert "error" not in answer, answer

    def play(self) -> Outcome:
        outcome = super().play()
        for member in self.members:
            if member.honest:
                self.said.count(member.node)
        return outcome

    def _over(self, snapshot: Snapshot) -> bool:
        """NOTE: a member whose endpoint fails collects later than the job's end; and a block that has just been taken
        back cannot be read."""
        try:
            job = snapshot.job(self.job_id)
            held = any(not claim.lost and not claim.collected for claim in job.claims)
            return super()._over(snapshot) and not held
        except ChainError:
            return False

    def phase(self) -> str:
        """Return where the job is: its phase, and that of its match, hearing and trial."""
        snapshot = self.client.snapshot()
        job = snapshot.job(self.job_id)
        found = [job.phase.name]
        if job.phase.name == "TRAINING":
            found.append(f"{len(job.trainers)} joined, {job.commitments} committed")
        for match_id in job.match_ids():
            match = snapshot.match(job, match_id)
            found.append(match.state.phase.name)
            if match.state.phase is Phase.HEARING:
                hearing = snapshot.hearing(job, match_id)
                found.append(hearing.state.phase.name if hearing is not None else "")
                if hearing is not None and hearing.state.trials:
                    found.append(snapshot.trial(hearing).state.stage.name)
        return " / ".join(found)


@contextmanager
def game(
    anvil: Anvil,
    folder: Path,
    bundle: Bundle,
    urls: Sequence[str],
    fault: Fault = Fault.POISON_DATA,
    **settings: Any,
) -> Iterator[Game]:
    """Play on a chain on which only the contracts are; undo it at the end."""
    web3 = connect(anvil.url, anvil.chain_id)
    deployed = folder.parent / "campaign.json"
    if not deployed.exists():
        account = Account.from_key(anvil.keys[0])
        key = TransactionManager(
            web3, account, Database(None), chain_id=anvil.chain_id, decode=error_decoder(), poll_s=0.01
        )
        deploy(web3, key, deployed, PARAMETERS, chain_id=anvil.chain_id)
    with undone(web3), Game(anvil, folder, bundle, urls, deployed, fault, **settings) as played:
        yield played
