"""A whole dispute in one process: a real chain, real artifact servers, real nodes; only the clock is simulated.

    with Arena(anvil, tmp_path, bundle, trainers=[Fault.NONE, Fault.POISON_DATA]) as arena:
        outcome = arena.play()

Nodes are ticked in turn. When none has anything to do, the chain's time is advanced: nothing waits for a wall clock.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

from eth_account import Account
from web3 import Web3
from web3.types import RPCEndpoint, TxData

from assay_lab.daemons import LyingVerifier, SilentParticipant, lying
from assay_lab.demo.checks import check_outcome, wealth
from assay_lab.faults import HONEST, Fault, Lie
from referee_py.walk.reason import Reason
from tests.conftest import Anvil
from trainer_node.chain import (
    Call,
    ChainClient,
    Deployment,
    JobView,
    Snapshot,
    TransactionManager,
    connect,
    recorded,
)
from trainer_node.chain.contracts import error_decoder
from trainer_node.chain.fees import ETHER
from trainer_node.chain.retrace import retrace
from trainer_node.client.posting import Offer, post_job
from trainer_node.compute.job_runner import JobRunner
from trainer_node.daemon.keys import create_key
from trainer_node.daemon.loop import Loop
from trainer_node.daemon.open_runner import open_runner
from trainer_node.daemon.service import Daemon, open_daemon
from trainer_node.local.bundle import Bundle
from trainer_node.network.artifact_server import ArtifactServer
from trainer_node.operate.deploy import Parameters, deploy
from trainer_node.roles.challenger import challenger
from trainer_node.roles.participant import Participant
from trainer_node.roles.sampling.runner import SampleRunner
from trainer_node.roles.sampling.sampler import open_samples, sampler
from trainer_node.roles.trainer import trainer
from trainer_node.roles.verifier import Verifier
from trainer_node.settings.extent import Mode
from trainer_node.settings.settings import load_settings
from trainer_node.storage.database import Database
from trainer_node.storage.store import Store

PERIOD_S = 600
CLOCK_S = 600
APPEAL_S = 120
TIME_STEP_S = 30
PASSWORD = "arena"
DEADLINE_S = 800.0
LOOK_S, WAIT_S = 0.005, 0.25
"""Seconds between two looks at whether those who compute are done, and until all are ticked again though none is."""
STAKE, REWARD = ETHER, 3 * ETHER
PARAMETERS = Parameters(min_bond=ETHER, leave_delay=60, stake_gas=10**7, min_period=10, commit_age=1)
_DEPLOYED: dict[tuple[str, int], tuple[str, str]] = {}
"""The state of a chain after the contracts' deployment, and the deployment's file: by its sender, and the chain."""
NOWHERE = "http://127.0.0.1:9"
"""A port on which nothing listens: a party that names it withholds its artifacts."""


def transactions(web3: Web3, number: int) -> Sequence[TxData]:
    """Return the transactions of a block, whole."""
    return cast(Sequence[TxData], web3.eth.get_block(number, full_transactions=True)["transactions"])


@dataclass
class Member:
    """A node of the arena."""

    name: str
    honest: bool
    node: Daemon
    part: Participant | Verifier
    runner: JobRunner | None
    loop: Loop = field(init=False)

    def __post_init__(self) -> None:
        self.start(self.part)

    @property
    def busy(self) -> bool:
        """Whether it computes something beside its loop, so that no time passes on the chain."""
        computing = isinstance(self.part, Participant) and self.part.computing
        return computing or (self.runner is not None and self.runner.busy)

    def start(self, part: Participant | Verifier) -> None:
        """Play this role from now on."""
        self.part, self.loop = part, Loop(self.node, part)


@dataclass(frozen=True)
class Outcome:
    """How the job ended. ``profit``: wei won or lost, gas aside. ``matches``: the deciding case and the losers."""

    job: JobView
    matches: list[tuple[Reason, set[str]]]
    profit: dict[str, int]
    moves: int
    """Transactions to the referee."""


class Arena:
    """A context manager. Trainer ``i``, if it lies, does so from step ``fault_step + i`` on.

    ``evaluators`` are those of the trainers and the challenger in rounded-f64: other hardware for each.
    """

    def __init__(
        self,
        anvil: Anvil,
        folder: Path,
        bundle: Bundle,
        *,
        trainers: Sequence[Fault],
        challenger: Fault | None = Fault.NONE,
        mode: Mode = Mode.CHALLENGE,
        fault_step: int = 13,
        fault_node: int | None = None,
        serve: bool = True,
        verifiers: int = 2,
        threshold: int = 1,
        false_verdicts: bool = False,
        appeals: bool = False,
        appeal_period: int = APPEAL_S,
        evaluators: tuple[str, str] = ("torch", "halves"),
        check: str = "all",
    ) -> None:
        self._anvil, self._folder, self._bundle = anvil, folder, bundle
        self._serve, self._check = serve, check
        self._skipped = 0.0
        self._fault_node, self._appeals, self._appeal_period = fault_node, appeals, appeal_period
        self._stack = contextlib.ExitStack()
        self._keys = list(anvil.keys)
        self.members: list[Member] = []
        client = self._deploy()
        for number in range(verifiers):
            self._add_verifier(f"verifier-{number}", lies=false_verdicts)
        for number, fault in enumerate(trainers):
            self._add_player(f"trainer-{number}", fault, fault_step + number, None, evaluators[0])
        if challenger is not None:
            self._add_player("challenger", challenger, fault_step, mode, evaluators[1])
        self._post(client, len(trainers), threshold)

    @classmethod
    def sampled(cls, anvil: Anvil, folder: Path, bundle: Bundle, **options: Any) -> Self:
        """Return an arena in which one trainer lies, a sampler draws all of its run and there are no verifiers, unless
        ``options`` say otherwise."""
        usual = {"trainers": [Fault.WRONG_OP_OUTPUT], "check": "sample:1", "verifiers": 0, "threshold": 0}
        return cls(anvil, folder, bundle, **{**usual, **options})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    # ------------------------------------------------------------------ play

    def play(self) -> Outcome:
        """Tick all members until the job has ended and everybody has been paid."""
        until = time.monotonic() + DEADLINE_S
        while time.monotonic() < until:
            if self.turn() and self._over(snapshot := self.client.snapshot()):
                return self._outcome(snapshot)
        raise AssertionError(f"the job did not end: {self.client.snapshot().job(self.job_id)}")

    def turn(self) -> bool:
        """Tick all members once. If none has anything to do, return True, and let time pass unless all is over."""
        before = self.web3.eth.block_number
        for member in self.members:
            member.loop.tick()
        if self.web3.eth.block_number != before:
            return False
        if computing := [member for member in self.members if member.busy]:
            # NOTE: a tick takes more of the processor than a look, and they compute meanwhile.
            until = time.monotonic() + WAIT_S
            while all(member.busy for member in computing) and time.monotonic() < until:
                time.sleep(LOOK_S)
        elif not self._over(self.client.snapshot()):
            self.skip(TIME_STEP_S)
        return True

    def _over(self, snapshot: Snapshot) -> bool:
        """Return whether the job and its hearings are over and all are paid."""
        job = snapshot.job(self.job_id)
        return (
            job.phase.ended
            and not snapshot.hearings(job)[0]
            and not any(map(snapshot.credits, self._addresses().values()))
        )

    def restart(self, name: str) -> None:
        """Restart a player with the content of its disk, and nothing of its memory."""
        member = next(member for member in self.members if member.name == name)
        assert member.runner is not None
        member.runner.close()
        assert member.honest
        if member.node.settings.check != "all":
            member.runner = again = self._sampling(member.node)
            member.start(sampler(member.node, again))
            return
        challenges = member.node.settings.mode is Mode.CHALLENGE
        member.runner = self._stack.enter_context(self._open_runner(member.node, HONEST, follows=challenges))
        member.start((challenger if challenges else trainer)(member.node, member.runner))

    def skip(self, seconds: int) -> None:
        """Let time pass, on the chain and for the nodes."""
        self._skipped += seconds
        for method, params in (("evm_increaseTime", [seconds]), ("evm_mine", [])):
            self.web3.provider.make_request(method, params)  # type: ignore[arg-type]

    def post_again(self, slots: int = 1, threshold: int = 1) -> None:
        """Post another job of the same bundle."""
        self._post(self._transactions(), slots, threshold)

    def address(self, name: str) -> str:
        """Return the account of a member."""
        return next(member.node.address or "" for member in self.members if member.name == name)

    def _outcome(self, snapshot: Snapshot) -> Outcome:
        job = snapshot.job(self.job_id)
        matches = []
        for match_id in snapshot.matches_of(self.job_id):
            match = snapshot.match(job, match_id)
            again = retrace(snapshot, job, match_id)
            assert again == recorded(snapshot, job, match_id), "contracts and Python rules disagree"
            losers = {
                player for side, player in enumerate(match.terms.players) if match.state.losers >> side & 1
            }
            matches.append((match.state.reason, losers))
        accounts = check_outcome(self.client, self._addresses(), self._before, self._posted_block + 1)
        profit = {name: account.profit for name, account in accounts.items()}
        referee = self.client.deployment.referee
        moves = sum(
            transaction["to"] == referee
            for number in range(self._posted_block, snapshot.block.number + 1)
            for transaction in transactions(self.web3, number)
        )
        return Outcome(job, matches, profit, moves)

    def _addresses(self) -> dict[str, str]:
        return {member.name: member.node.address or "" for member in self.members}

    # ------------------------------------------------------------------ set up

    def _deploy(self) -> TransactionManager:
        self.web3: Web3 = connect(self._anvil.url, self._anvil.chain_id)
        client = self._transactions()
        self._deployment = self._folder / "deployment.json"
        self._place_contracts(client)
        self.client = ChainClient(self.web3, Deployment.load(self._deployment))
        return client

    def _place_contracts(self, client: TransactionManager) -> None:
        """Deploy the contracts; on a chain without blocks, in the state that an earlier deployment here has left."""
        rpc, chain_id, empty = (
            self.web3.provider.make_request,
            self._anvil.chain_id,
            not self.web3.eth.block_number,
        )
        if empty and (known := _DEPLOYED.get((client.address, chain_id))):
            assert rpc(RPCEndpoint("anvil_loadState"), [known[0]])["result"] is True
            self._folder.mkdir(parents=True, exist_ok=True)
            self._deployment.write_text(known[1])
            return
        deploy(self.web3, client, self._deployment, PARAMETERS, chain_id=chain_id)
        if empty:
            state = rpc(RPCEndpoint("anvil_dumpState"), [])["result"]
            _DEPLOYED[client.address, chain_id] = state, self._deployment.read_text()

    def _transactions(self) -> TransactionManager:
        account = Account.from_key(self._keys.pop(0))
        return TransactionManager(
            self.web3,
            account,
            Database(None),
            chain_id=self._anvil.chain_id,
            decode=error_decoder(),
            poll_s=0.01,
        )

    def _node(self, name: str, role: str, **settings: Any) -> Daemon:
        folder = self._folder / name
        create_key(folder / "key.json", PASSWORD, key=self._keys.pop(0), work_factor=2)
        return self._stack.enter_context(
            open_daemon(
                load_settings(
                    chain_id=self._anvil.chain_id,
                    deployment=self._deployment,
                    data_dir=folder,
                    password=PASSWORD,
                    poll_s=0.01,
                    log_level="warning",
                    **{"rpc_url": self._anvil.url, "allow_probable_bounds": True, **settings},
                ),
                role,
            )
        )

    def _add_verifier(self, name: str, *, lies: bool) -> None:
        node, panel = self._node(name, "verifier"), self.client.deployment.panel
        assert node.transactions is not None
        register = Call.of(self.client.contracts.registry, "register", panel, node.public_uri, value=ETHER)
        node.transactions.send(register)
        self.members.append(Member(name, not lies, node, (LyingVerifier if lies else Verifier)(node), None))

    def _add_player(
        self, name: str, fault: Fault, fault_step: int, mode: Mode | None, evaluator: str
    ) -> None:
        settings: dict[str, object] = {} if self._serve else {"public_uri": NOWHERE}
        if mode is not None and self._check != "all":
            self._add_sampler(name, self._node(name, name, mode=mode, evaluator=evaluator, check=self._check))
            return
        node = self._node(name, name, mode=mode, evaluator=evaluator, **settings)
        runner = self._stack.enter_context(
            self._open_runner(
                node, Lie(fault, fault_step, self._fault_node, self._appeals), follows=mode is not None
            )
        )
        kind = SilentParticipant if fault is Fault.WITHHOLD else Participant
        part = trainer(node, runner, kind) if mode is None else challenger(node, runner)
        self.members.append(Member(name, fault is Fault.NONE, node, part, runner))

    def _add_sampler(self, name: str, node: Daemon) -> None:
        """Add an honest challenger that checks a part."""
        runner = self._sampling(node)
        self.members.append(Member(name, True, node, sampler(node, runner), runner))

    def _sampling(self, node: Daemon) -> SampleRunner:
        return self._stack.enter_context(open_samples(node))

    def _open_runner(
        self, node: Daemon, lie: Lie, *, follows: bool
    ) -> contextlib.AbstractContextManager[JobRunner]:
        """Return the runner that a player computes with: a seam for other kinds of liars."""
        return open_runner(node, follows=follows, replay=lying(lie), clock=self.clock)

    def clock(self) -> float:
        """Return the seconds of the nodes' clocks, which go on as the chain's time does."""
        return time.monotonic() + self._skipped

    def _post(self, client: TransactionManager, slots: int, threshold: int) -> None:
        store = Store(self._folder / "client")
        server = self._stack.enter_context(ArtifactServer(store))
        offer = self._terms(slots, threshold)
        self.job_id, receipt = post_job(self.client, client, store, self._bundle, offer, server.uri)
        self._posted_block = receipt.block
        self._before = wealth(self.client, self._addresses())

    def _terms(self, slots: int, threshold: int) -> Offer:
        """Return the client's offer: a seam for other terms."""
        return Offer(
            reward=REWARD,
            stake=STAKE,
            slots=slots,
            train_period=PERIOD_S,
            reveal_period=PERIOD_S,
            challenge_period=PERIOD_S,
            clock=CLOCK_S,
            verdict_period=PERIOD_S,
            appeal_period=self._appeal_period,
            verifiers=tuple(address for address, _, _ in self.client.snapshot().verifiers()),
            threshold=threshold,
        )


@cache
def in_intervals(count: int) -> Bundle:
    """Digits, 64-16-10, in so many intervals of two steps."""
    from torch import nn

    from assay_capture.capture import Recipe, build, load_recipe

    recipe = load_recipe("digits-mlp", steps=2 * count, batch_size=16)
    assert isinstance(recipe, Recipe)
    module = nn.Sequential(nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 10))
    return build(replace(recipe, module=module, strides=(2, 1)))
