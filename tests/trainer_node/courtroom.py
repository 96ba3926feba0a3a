"""A court room for verifiers: a job with one match whose operator is before the panel, and its two stores."""

from __future__ import annotations

import threading
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import repops
from eth_account import Account
from eth_utils.address import to_checksum_address

from referee_py.commit import Record
from referee_py.errors import AssayError
from referee_py.game.state import Phase
from referee_py.panel.state import (
    Attest,
    HearingPhase,
    HearingState,
    HearingTerms,
    Submission,
    hearing_id,
)
from referee_py.program.modes import Rounding, mode_or_unknown
from referee_py.rounding.backend import Rounded
from referee_py.walk.dispute import Dispute, dispute_hash
from trainer_node.chain import ClaimView, Group, HearingInfo, JobPhase, JobView
from trainer_node.chain.outbox import Value
from trainer_node.daemon.account_gauges import Gauges
from trainer_node.daemon.helping import GasBudget
from trainer_node.daemon.loop import Loop
from trainer_node.daemon.notices import Notices
from trainer_node.errors import RpcCorrupt, RpcUnavailable
from trainer_node.network.fetcher import Fetcher
from trainer_node.observe.metrics import Metrics
from trainer_node.observe.problems import Problems
from trainer_node.roles.verifier import Verifier
from trainer_node.rounded.evaluators import NumpyEvaluator
from trainer_node.run.log_sources import OwnLogs
from trainer_node.run.package import Package
from trainer_node.run.replay import Replay
from trainer_node.settings.sections import Notify, Policy
from trainer_node.stake.gas_patience import Market
from trainer_node.stake.reserved_ether import Reserve
from trainer_node.storage.artifacts import Kind, Name
from trainer_node.storage.database import Database
from trainer_node.storage.disk import Ballast
from trainer_node.storage.disk_keeper import Keeper
from trainer_node.storage.retention import Policy as Keeping
from trainer_node.storage.store import Store

from .desk import ENOUGH, REFEREE, Remembered, job, rules, tiny_package
from .sent import CONTRACTS, move_of_hearing

KEY = Account.from_key(b"\x07" * 32)
PANEL, JOBS = "0x" + "12" * 20, "0x" + "34" * 20
STEP, NODE = 7, 8
NOWHERE = "http://127.0.0.1:9"


class Court:
    """A job with one match whose operator is before the panel; ``sent`` and ``moved`` keep the calls made."""

    def __init__(self, folder: Path, uri: str, package: Package | None = None, node: int = NODE) -> None:
        self.store = Store(folder / "verifier", sync=False)
        self.honest = Store(folder / "honest", sync=False)
        self.package, self.disputed = package or tiny_package(), node
        replay = self._replay()
        self.claim = replay.train()
        self.right = replay.record(STEP, node)
        self.wrong = Record(self.right.structure, self.right.inputs, (b"\1" * 32,), self.right.log)
        self.replay = replay
        self.sent: list[tuple[int, bytes, bytes]] = []
        self.moved: list[str] = []
        self.waited: list[int] = []
        self.heard: dict[int, HearingInfo] = {}
        self.jobs: list[JobView] = []
        self.hidden: set[int] = set()
        self.unnamed: set[int] = set()
        """Matches that no event of the job names."""
        self.removed: set[int] = set()
        """Matches that the chain does not have: in an older block, or after a reorganisation."""
        self.doubt: str | None = None
        """Why other endpoints do not confirm what is shown."""
        self.add(uri)
        self.keeper = Keeper(
            self.store,
            Database(None),
            Ballast(folder, 0),
            policy=Keeping(),
            store_bytes=0,
            every_s=1e9,
            metrics=Metrics(),
            problems=Problems(),
        )
        self.node = self._node()
        self.start(Verifier(self.node))

    def add(self, uri: str, **changes: Any) -> int:
        """Add a job with a match; return the match's id."""
        number = len(self.jobs) + 1
        match_id = 100 + number
        players = to_checksum_address("0x" + "aa" * 20), to_checksum_address("0x" + "bb" * 20)
        values: dict[str, Any] = {
            "phase": JobPhase.CHALLENGE,
            "uri": uri,
            "program": self.package.terms,
            "program_file": self.package.program.file_hash(),
            "logs": self.claim.logs,
            "open_matches": 1,
            "verifiers": (KEY.address,),
            "claims": tuple(ClaimView(k, players[k], 1, k, True, False, False, NOWHERE) for k in range(2)),
            "groups": tuple(Group(k, bytes([k + 1]) * 32, b"", match_id, 0, 0, 0, (k,)) for k in range(2)),
        }
        self.jobs.append(job(number, **{**values, **changes}))
        self.submit(match_id, number, players, (self.wrong, self.right))
        return match_id

    def submit(
        self, match_id: int, number: int, players: tuple[str, str], records: tuple[Record, Record]
    ) -> None:
        structure = self.package.program.nodes[self.disputed].encode()
        dispute = Dispute(records, structure, self.package.terms.mode)
        hashes = records[0].hash(), records[1].hash()
        at = Submission(match_id, JOBS, number, STEP, self.disputed, players, hashes, dispute_hash(dispute))
        hearing = hearing_id(REFEREE, match_id)
        terms = HearingTerms(hearing, at, dispute, rules(), 1, (KEY.address,), 1, PANEL)
        self.heard[match_id] = HearingInfo(
            HearingState(HearingPhase.VOTING, until=1100), terms, {}, Value(1, 1)
        )

    def now_is(self, match_id: int = 101, **changes: Any) -> None:
        """Set the state of the hearing."""
        hearing = self.heard[match_id]
        self.heard[match_id] = replace(hearing, state=replace(hearing.state, **changes))

    def start(self, verifier: Verifier) -> None:
        """Let this verifier play from now on."""
        self.verifier, self.loop = verifier, Loop(self.node, verifier)

    def tick(self, now: int = 1001) -> list[int]:
        """Run one round at an instant; return the matches in which a vote was sent."""
        before = len(self.sent)
        self.now = now
        self.loop.tick()
        return [match_id for match_id, _, _ in self.sent[before:]]

    def _replay(self) -> Replay:
        package, mode = self.package, self.package.terms.mode
        if not mode_or_unknown(mode).follows_logs:
            return Replay(package, repops.backend("cpu"), self.honest, Remembered())
        terms = package.terms
        log_source = OwnLogs(Database(None), 1, self.honest, terms.node_count, terms.steps)
        backend = Rounded(Rounding.of(mode), log_source, NumpyEvaluator())
        return Replay(package, backend, self.honest, Remembered(), log_source=log_source)

    # ------------------------------------------------------------------ what the node sees

    def snapshot(self) -> Any:
        return self

    @property
    def stake_gas(self) -> int:
        return 1

    def job_count(self) -> int:
        return len(self.jobs)

    def jobs_changed(self, _since: int | None) -> list[int]:
        return []

    def job(self, number: int) -> JobView:
        return self.jobs[number - 1]

    def hearings(self, found: JobView) -> tuple[list[HearingInfo], dict[int, AssayError]]:
        ours = [h for h in self.heard.values() if h.terms.submission.job_id == found.id and not h.over]
        ours = [h for h in ours if h.match_id not in self.unnamed | self.removed]
        seen = [hearing for hearing in ours if hearing.match_id not in self.hidden]
        hidden = (hearing.match_id for hearing in ours if hearing.match_id in self.hidden)
        return seen, {number: RpcCorrupt("no event") for number in hidden}

    def standing(self, match_id: int) -> tuple[Phase, HearingPhase]:
        if match_id in self.removed:
            return Phase.NONE, HearingPhase.NONE
        phase = self.heard[match_id].state.phase
        goes_on = phase in (HearingPhase.VOTING, HearingPhase.RULED, HearingPhase.TRIAL)
        return Phase.HEARING if goes_on else Phase.DONE, phase

    def hearing(self, _job: JobView, match_id: int) -> HearingInfo:
        return self.heard[match_id]

    def confirm(self, **_: Any) -> None:
        if self.doubt is not None:
            raise RpcUnavailable(self.doubt)

    panel = CONTRACTS.panel

    def encode_abi(self, function: str, _args: Any) -> str:
        assert function == "withdraw"
        return "0x"

    address = JOBS

    def send_on(self, call: Any) -> int:
        """Send a transaction; return its number."""
        self.moved.append(call.action)
        if call.action == "withdraw":
            self.earned = 0
            return len(self.moved)
        assert call.value == 0
        move = move_of_hearing(call)
        if isinstance(move, Attest):
            self.sent.append((move.submission.match_id, move.record, move.signature))
        return len(self.moved)

    def wait_all(self, numbers: list[int], *, timeout_s: float) -> Any:
        """Wait for transactions: the next block has them. ``waited`` keeps how many were sent by then."""
        self.waited.append(len(self.moved))
        assert timeout_s <= 60
        return {number: SimpleNamespace(gas_used=1) for number in numbers}

    block = SimpleNamespace(number=1, base_fee=0)
    earned = 0

    def credits(self, address: str) -> list[Any]:
        assert address == KEY.address
        return [(self, self.earned)] if self.earned else []

    def _node(self) -> Any:
        deployment = SimpleNamespace(referee=REFEREE, panel=PANEL, chain_id=1)
        return SimpleNamespace(
            client=SimpleNamespace(
                snapshot=self.snapshot,
                deployment=deployment,
                contracts=self,
                endpoints=SimpleNamespace(several=False),
                agreement=SimpleNamespace(problems=(), doubt=None, conflict=None),
            ),
            transactions=SimpleNamespace(
                account=KEY,
                address=KEY.address,
                submit=self.send_on,
                wait_all=self.wait_all,
                open=list,
                recover=lambda _: [],
                balance=lambda: 0,
                means=SimpleNamespace(free=lambda: 10**24, lacks_sent=lambda: False, know_sent=lambda: None),
            ),
            reserve=Reserve(lambda: 1, list),
            gas=GasBudget(Database(None), None),
            address=KEY.address,
            database=Database(None),
            problems=Problems(),
            gauges=Gauges(Metrics(), KEY.address),
            notices=Notices(Notify(), {}, defaultdict(set), Problems()),
            job_over=lambda _job: None,
            look_at_signer=lambda: None,
            metrics=Metrics(),
            settings=SimpleNamespace(
                latency_s=0.0,
                mined_s=0.0,
                fees=SimpleNamespace(max_fee=1, patient_s=0, policy=lambda: SimpleNamespace(priority_fee=0)),
                policy=Policy(),
                withdrawal_address=None,
                limits=SimpleNamespace(memory_bytes=ENOUGH, max_period_s=30 * 24 * 3600),
                allow_probable_bounds=False,
                chain_id=31337,
            ),
            market=lambda base_fee: Market(base_fee, 0),
            fetcher=Fetcher(self.store, timeout_s=60.0, attempts=1),
            store=self.store,
            keeper=self.keeper,
            stop=threading.Event(),
        )


def publish(court: Court) -> None:
    """Put the operator's inputs of the honest side where the client serves."""
    court.replay.publish(STEP, court.disputed)
    for tensor in court.right.inputs:
        Store(court.honest.root.parent / "client", sync=False).put_tensor(court.honest.get_tensor(tensor))


def publish_logs(court: Court) -> Name:
    """Put the honest side's logs there too; return the name of the disputed step's log."""
    client = Store(court.honest.root.parent / "client", sync=False)
    run, step = court.replay.run_log_tree(), STEP
    assert run is not None
    client.put_tree(run)
    nodes = court.package.terms.node_count
    client.put_logs([court.honest.get_log(run.leaves[step - 1], nodes)], nodes)
    return Name(Kind.LOG, run.leaves[step - 1], count=nodes)
