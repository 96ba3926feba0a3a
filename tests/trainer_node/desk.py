"""A tiny job without a chain: a client that serves it, and the parts that a node needs to work on it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import repops
from hexbytes import HexBytes
from web3.contract import Contract

from referee_py.availability import Piece, Place
from referee_py.execute import Run
from referee_py.jobs import Rules
from referee_py.program import Program
from referee_py.program.terms import Terms
from tests.referee_py.program import tiny
from trainer_node.chain import Call, ClaimView, Group, JobPhase, JobView
from trainer_node.compute.job_runner import JobRunner
from trainer_node.compute.run_execution import Equipment
from trainer_node.daemon.due import Due
from trainer_node.network.artifact_server import ArtifactServer
from trainer_node.network.fetcher import Fetcher
from trainer_node.observe.metrics import Metrics
from trainer_node.observe.problems import Problems
from trainer_node.rounded.evaluators import NumpyEvaluator
from trainer_node.run.checkpoints import Checkpoint
from trainer_node.run.package import Package
from trainer_node.storage.database import Database
from trainer_node.storage.disk import Ballast
from trainer_node.storage.disk_keeper import Keeper
from trainer_node.storage.retention import Policy
from trainer_node.storage.store import Store

PROGRAM = tiny.program()
STRIDES = (4, 2, 1)
TERMS = Terms.of(PROGRAM, tiny.STEPS, STRIDES)
REFEREE, STRANGER = "0x" + "ee" * 20, "0x" + "bb" * 20
ENOUGH = 1 << 30


def honest_run() -> Run:
    return Run.of(tiny_package(), repops.backend("cpu"))


def tiny_package() -> Package:
    constants, initial = tiny.tensors()
    return Package(TERMS, PROGRAM, tuple(constants), tuple(initial))


def put_package(store: Store, program: Program = PROGRAM) -> bytes:
    """Put the tiny job's tensors and that program file into the store; return the file's hash."""
    for arrays in tiny.tensors():
        for array in arrays:
            store.put_tensor(array)
    return store.put_blob(program.to_bytes())


def rules(clock: int = 1000, *, threshold: int = 1) -> Rules:
    """Return rules in which one vote makes a verdict; with a threshold of zero there are no verifiers."""
    return Rules(threshold, 1000, 1000, clock)


def job(number: int = 1, **changes: Any) -> JobView:
    """Return a job about the tiny program, in training."""
    values: dict[str, Any] = {
        "id": number,
        "phase": JobPhase.TRAINING,
        "program": TERMS,
        "program_file": PROGRAM.file_hash(),
        "uri": "http://127.0.0.1:9",
        "referee": REFEREE,
        "slots": 1,
        "stake": 1,
        "low_fee": 1,
        "high_fee": 1,
        "train_period": 1000,
        "watch_period": 0,
        "reveal_period": 1000,
        "challenge_period": 1000,
        "rules": rules(),
        "verifiers": (),
        "client": "0x" + "cc" * 20,
        "posted": 0,
        "reward": 1,
        "commit_end": 1000,
        "reveal_end": 2000,
        "challenge_end": 3000,
        "reclaim_end": 0,
        "commitments": 0,
        "reveals": 0,
        "open_matches": 0,
        "waiting": None,
        "founded": 0,
        "reopened": 0,
        "accepted_root": bytes(32),
        "accepted_last": bytes(32),
        "logs": bytes(32),
        "finder": None,
        "trainers": (),
        "claims": (),
        "groups": (),
        "base_fee": 0,
        "stake_gas": 1,
    }
    return JobView(**{**values, **changes})


def challenged(number: int, claims: Sequence[tuple[bytes, str]], period: int, **changes: Any) -> JobView:
    """Return a job in its challenge phase of ``period`` seconds. Strangers have claimed these roots, each with a server
    at the address beside it."""
    values: dict[str, Any] = {
        "phase": JobPhase.CHALLENGE,
        "challenge_period": period,
        "challenge_end": period,
        "groups": tuple(Group(k, root, bytes(32), 0, 0, 0, 0, (k,)) for k, (root, _) in enumerate(claims)),
        "claims": tuple(
            ClaimView(k, STRANGER, 1, k, False, False, False, uri) for k, (_, uri) in enumerate(claims)
        ),
    }
    return job(number, **{**values, **changes})


@dataclass
class Sent:
    """Records the transactions that would be sent, as if the contracts accepted all of them."""

    address: str = "0x" + "aa" * 20
    calls: list[Call] = field(default_factory=list)
    outcomes: dict[int, tuple[str, int | None]] = field(default_factory=dict)
    """By number of those for which nothing waits: how they ended, in which block."""
    used: dict[int, int] = field(default_factory=dict)
    """Those that are mined, though no receipt is shown, and their blocks."""

    @property
    def means(self) -> Any:
        return SimpleNamespace(waiting=lambda: [number for number in self.open() if number not in self.used])

    def simulate(self, call: Call) -> None:
        """Accept the call."""

    def send(self, dues: Iterable[Due]) -> None:
        for due in dues:
            self.calls.append(due.call)
            if due.sent is not None:
                self.outcomes[len(self.calls)] = "open", None
                due.sent(len(self.calls))

    def open(self, to: str | None = None) -> list[int]:
        """Return the numbers of those that may still be mined; ``to``: only those to this contract."""
        numbers = [number for number, (status, _) in self.outcomes.items() if status == "open"]
        return [number for number in numbers if to is None or self.calls[number - 1].to == to]

    def counts_at(self, number: int, block: int) -> bool:
        status, mined = self.outcomes[number]
        return (
            block >= mined
            if mined is not None
            else status != "open" or block >= self.used.get(number, block + 1)
        )

    def places(self, contract: Contract, call: Call) -> list[Place]:
        """Return the places that a call to the contract of requests names."""
        function, arguments = contract.decode_function_input(HexBytes(call.data))
        if function.fn_name == "multicall":
            inner = [Call(call.action, call.to, data) for data in arguments["data"]]
            return [place for one in inner for place in self.places(contract, one)]
        piece, *numbers = arguments["place"].values()
        return [Place(Piece(piece), *numbers)]


@dataclass
class Remembered:
    """The checkpoints of a run, in memory."""

    found: list[Checkpoint] = field(default_factory=list)
    states: dict[int, tuple[bytes, ...]] = field(default_factory=dict)
    """Slots by step."""

    def all(self) -> Sequence[Checkpoint]:
        return self.found

    def slots(self, step: int) -> tuple[bytes, ...]:
        return self.states[step]

    def add(self, step: int, root: bytes | None, slots: tuple[bytes, ...]) -> None:
        self.found.append(Checkpoint(step, root, len(slots)))
        self.states[step] = slots


@contextlib.contextmanager
def serving(folder: Path, program: Program = PROGRAM) -> Iterator[str]:
    """Run a client's server with the tiny job."""
    store = Store(folder, sync=False)
    put_package(store, program)
    with ArtifactServer(store) as server:
        yield server.uri


def keeper_of(
    folder: Path, store: Store, database: Database, *, store_bytes: int = 0
) -> tuple[Keeper, Problems]:
    """Return who keeps room for jobs with a stake, without a ballast, and where its problems are told."""
    metrics = Metrics()
    problems = Problems(metrics)
    keeper = Keeper(
        store,
        database,
        Ballast(folder, 0),
        policy=Policy(),
        store_bytes=store_bytes,
        every_s=1e9,
        metrics=metrics,
        problems=problems,
    )
    return keeper, problems


R = TypeVar("R", bound=JobRunner)


def new_runner(
    kind: Callable[..., R],
    store: Store,
    database: Database,
    *,
    backend: Any = None,
    max_memory: int = ENOUGH,
    **options: Any,
) -> R:
    """Return a node's runner on that store, which the caller closes."""
    fetcher = Fetcher(store, timeout_s=60.0, attempts=1)
    settings: dict[str, Any] = {"max_memory": max_memory, "max_logs": ENOUGH, "exact_slowdown": 1.0}
    settings |= {"evaluator": NumpyEvaluator, **options}
    given = backend or repops.backend("cpu")
    samples = {"samples": settings.pop("samples")} if "samples" in settings else {}
    return kind(Equipment(fetcher, database, lambda _mode: given, **settings), **samples)


@contextlib.contextmanager
def runner(folder: Path, database: Database, **options: Any) -> Iterator[JobRunner]:
    """Open a node's runner on that folder; opened again on the same folder, it is the node after a restart."""
    made = new_runner(JobRunner, Store(folder, sync=False), database, **options)
    try:
        yield made
    finally:
        made.close()


def until(question: Callable[[], Any], seconds: float = 120.0) -> Any:
    """Ask until the answer is true; return it."""
    deadline = time.monotonic() + seconds
    while True:
        answer = question()
        if answer:
            return answer
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)
