"""Bounties on real jobs: Python and the contract play the same random histories and must agree after every move.

Many jobs run side by side; in each round every job has one act, sensible or not, in the same block.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest
from eth_account import Account
from eth_utils.address import to_checksum_address

from referee_py.commit.structs import words
from referee_py.jobs import JobPhase, Rules, commitment
from referee_py.params import BURNED
from referee_py.program.modes import REPOPS_F32, Rounding
from referee_py.program.terms import Terms
from referee_py.walk.refusals import Refusal
from referee_py.watch import WatcherState, watch_commitment
from tests.model import watch_refusals as refusals
from tests.model.chain_model import ChainModel
from tests.model.jobs import Claim, JobTerms
from tests.model.registry import Registry
from tests.model.watch import Bounty, Watch
from tests.referee_py.game.chain import ANVIL_OPTIONS, Chain, Contract, Transaction
from trainer_node.chain import TransactionManager, connect
from trainer_node.chain.contracts import NAMES
from trainer_node.client.posting import Offer, job_terms
from trainer_node.operate.deploy import Parameters, deploy
from trainer_node.storage.database import Database

ROUNDS = 110
STAKE = 1000
RULES = Rules(0, 20, 20, 20)
PERIODS: dict[str, Any] = {"train_period": 25, "watch_period": 8, "reveal_period": 15, "challenge_period": 20}
NOTHING = bytes(32)


class Ground(Chain):
    """A chain on which all contracts are deployed as a daemon does it."""

    def __init__(self, anvil: Any, folder: Path) -> None:
        self._http = httpx.Client(base_url=anvil.url, timeout=60)
        self.batch([("evm_setAutomine", [True])])
        account = Account.from_key(anvil.keys[0])
        web3 = connect(anvil.url, 31337)
        sender = TransactionManager(web3, account, Database(None), chain_id=31337, poll_s=0.01)
        parameters = Parameters(stake_gas=1, min_fee=1, min_period=2, commit_age=1)
        self.at = deploy(web3, sender, folder / "31337.json", parameters, chain_id=31337).addresses
        self.batch([("evm_setAutomine", [False])])
        self.jobs, self.watch = Contract("Jobs"), Contract("Watch")
        self.jobs.address, self.watch.address = self.at["Jobs"], self.at["Watch"]
        self.errors = {selector: name for n in NAMES for selector, name in Contract(n).errors.items()}
        self.now = int(self.batch([("eth_getBlockByNumber", ["latest", False])])[0]["timestamp"], 16)


class Board:
    """The jobs of a model, with the methods that `Watch` calls."""

    def __init__(self, model: ChainModel) -> None:
        self._model = model

    def phase_of(self, job_id: int, now: int) -> JobPhase:
        job = self._model.jobs.get(job_id)
        return job.phase(now) if job else JobPhase.NONE

    def mode_of(self, job_id: int) -> int:
        return self._model.jobs[job_id].terms.program.mode

    def stake_of(self, job_id: int) -> int:
        return self._model.stake_of(job_id)

    def accepted_root(self, job_id: int) -> bytes:
        job = self._model.jobs[job_id]
        assert job.accepted is not None
        return job.groups[job.accepted].root


@dataclass(frozen=True)
class Act:
    """One transaction, and the same call in Python."""

    name: str
    transaction: Transaction
    apply: Callable[[int], object]


class Game:
    """One job with its people: a client, a trainer, a stranger that funds, and watchers."""

    def __init__(self, ground: Ground, model: ChainModel, watch: Watch, number: int, mode: int) -> None:
        self.ground, self.model, self.watch, self.job_id = ground, model, watch, number
        self.rng = Random(f"bounty {number}")
        self.people = [to_checksum_address(f"0x{0xB0000000 + number * 16 + k:040x}") for k in range(7)]
        self.client, self.trainer, *self.watchers = self.people
        self.roots = [bytes([number, k]) * 16 for k in (1, 2)]
        self.program = Terms(1, mode, 1, 1, 1, 1, bytes(32), bytes(32), bytes(32), bytes(32), (1,))

    def post(self) -> Act:
        offer = Offer(5000, STAKE, 1, 1, clock=20, verdict_period=20, appeal_period=20, **PERIODS)
        terms = words(job_terms(self.program, NOTHING, "http://client", self.ground.at["Referee"], offer))
        kept = JobTerms(self.program, 1, STAKE, rules=RULES, verifiers=(), **PERIODS)
        call = Transaction(self.client, self.ground.jobs.address, self._data("post", terms), 5000)
        return Act("post", call, lambda now: self.model.post(kept, self.client, 5000, now))

    @property
    def over(self) -> bool:
        return self.model.jobs[self.job_id].ended.ended and self.rng.random() < 0.5

    def act(self, now: int) -> Act:
        """Return a random act for the next block."""
        phase = self.model.jobs[self.job_id].phase(now)
        rng = self.rng
        if rng.random() < 0.3 and (step := self._trains(phase)) is not None:
            return step
        moves = {
            JobPhase.TRAINING: (self._watch, self._watch, self._fund),
            JobPhase.CHALLENGE: (self._show,),
            JobPhase.CLOSING: (self._show, self._distribute),
        }.get(phase, (self._distribute, self._collect, self._collect, self._withdraw))
        if rng.random() < 0.15:
            moves = (self._fund, self._watch, self._show, self._distribute, self._collect, self._withdraw)
        return rng.choice(moves)()

    # --- the job --------------------------------------------------------------------------------------------------

    def _trains(self, phase: JobPhase) -> Act | None:
        """Return the trainer's next act. It may also do nothing, and then nothing is accepted."""
        job, jobs = self.model.jobs[self.job_id], self.ground.jobs
        root = self.roots[self.job_id % 5 == 0]
        salt = bytes(32)
        where = 31337, jobs.address, self.job_id, self.trainer
        committed = commitment(*where, root, root, NOTHING, salt)
        if phase is JobPhase.TRAINING and not job.trainers:
            return self._of_jobs(
                "join", STAKE, (), lambda now: self.model.join(self.job_id, self.trainer, STAKE, now)
            )
        if phase is JobPhase.TRAINING and job.trainers[0].commitment == NOTHING and self.rng.random() < 0.3:
            return self._of_jobs(
                "commit",
                0,
                (committed,),
                lambda now: self.model.commit(self.job_id, committed, self.trainer, now),
            )
        if (
            phase is JobPhase.REVEAL
            and job.trainers
            and job.trainers[0].commitment != NOTHING
            and not job.claims
        ):
            claim = Claim(root, root, ())
            given = (root, root, (), "http://trainer"), NOTHING, salt
            return self._of_jobs(
                "reveal",
                0,
                given,
                lambda now: self.model.reveal(self.job_id, claim, NOTHING, salt, self.trainer, 0, now),
            )
        if phase is JobPhase.CLOSING:
            return self._of_jobs("finalize", 0, (), lambda now: self.model.finalize(self.job_id, now))
        return None

    def _of_jobs(
        self, name: str, value: int, given: tuple[object, ...], apply: Callable[[int], object]
    ) -> Act:
        data = self._data(name, self.job_id, *given)
        return Act(name, Transaction(self.trainer, self.ground.jobs.address, data, value), apply)

    def _data(self, name: str, *given: object) -> bytes:
        return self.ground.jobs.calldata(name, *given)

    # --- bounties -------------------------------------------------------------------------------------------------

    def _bounty(self) -> tuple[Bounty, tuple[str, int, str]]:
        funder = self.client if self.rng.random() < 0.9 else self.rng.choice(self.people)
        return Bounty(self.job_id, funder), (self.ground.jobs.address, self.job_id, funder)

    def _of_watch(
        self,
        name: str,
        sender: str,
        given: tuple[object, ...],
        apply: Callable[[int], object],
        value: int = 0,
    ) -> Act:
        contract = self.ground.watch
        call = Transaction(sender, contract.address, contract.calldata(name, *given), value)
        return Act(name, call, apply)

    def _fund(self) -> Act:
        rng = self.rng
        sender = self.client if rng.random() < 0.8 else rng.choice(self.people)
        value = rng.choice((0, 1, 999, 5000, 5000))
        shares = rng.choice((0, 1, 2, 3, 3))
        given = self.ground.jobs.address, self.job_id, shares
        return self._of_watch(
            "fund", sender, given, lambda now: self.watch.fund(self.job_id, shares, sender, value, now), value
        )

    def _salt(self, who: str) -> bytes:
        return bytes.fromhex(who[2:]).rjust(32, b"\0")

    def _watch(self) -> Act:
        rng, sender = self.rng, self.rng.choice(self.watchers)
        bounty, wire = self._bounty()
        root = self.roots[rng.random() < 0.25]
        committed = watch_commitment(31337, self.watch.address, self.job_id, sender, root, self._salt(sender))
        committed = committed if rng.random() > 0.05 else NOTHING
        value = rng.choice((STAKE, STAKE, STAKE + 7, STAKE - 1))
        return self._of_watch(
            "watch",
            sender,
            (wire, committed),
            lambda now: self.watch.watch(bounty, committed, sender, value, now),
            value,
        )

    def _show(self) -> Act:
        rng, sender = self.rng, self.rng.choice(self.watchers)
        bounty, wire = self._bounty()
        root, salt = self.roots[rng.random() < 0.3], self._salt(sender)
        return self._of_watch(
            "show", sender, (wire, root, salt), lambda now: self.watch.show(bounty, root, salt, sender, now)
        )

    def _distribute(self) -> Act:
        bounty, wire = self._bounty()
        return self._of_watch(
            "distribute",
            self.rng.choice(self.people),
            (wire,),
            lambda now: self.watch.distribute(bounty, now),
        )

    def _collect(self) -> Act:
        bounty, wire = self._bounty()
        account = self.rng.choice(self.watchers)
        return self._of_watch(
            "collect",
            self.rng.choice(self.people),
            (wire, account),
            lambda now: self.watch.collect(bounty, account, now),
        )

    def _withdraw(self) -> Act:
        sender = self.rng.choice(self.people)
        return self._of_watch("withdraw", sender, (), lambda _: self.watch.withdraw(sender))

    # --- what is kept ---------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Compare pools and watchers of the contract and of Python."""
        for funder in self.people:
            bounty, wire = Bounty(self.job_id, funder), (self.ground.jobs.address, self.job_id, funder)
            pool = self.watch.pools.get(bounty)
            views = [("poolOf", (wire,)), *(("watcherOf", (wire, who)) for who in self.watchers)]
            raw, *rest = self.ground.read(self.ground.watch, views)
            have = self.ground.watch.decode("poolOf", raw)
            if pool is None:
                assert have == (0, 0, 0, 0, 0, NOTHING)
                continue
            want = pool.amount, pool.shares, len(pool.watchers), pool.ended, pool.share, pool.root or NOTHING
            assert have == want
            for who, data in zip(self.watchers, rest, strict=True):
                watcher = pool.watchers.get(who)
                expected = (watcher.stake, watcher.state, watcher.found) if watcher else (0, 0, NOTHING)
                assert self.ground.watch.decode("watcherOf", data) == expected


def _play_round(games: list[Game], ground: Ground, tally: Counter[str], step: int) -> None:
    now = ground.now + step
    acts = [game.act(now) for game in games]
    refused = ground.refusals([act.transaction for act in acts], now)
    accepted = ground.mine([act.transaction for act in acts], now)
    for act, name, went in zip(acts, refused, accepted, strict=True):
        want = _refusal(act, now)
        assert (name, went) == (want, want is None), act.name
        tally[want or act.name] += 1


def _refusal(act: Act, now: int) -> str | None:
    try:
        act.apply(now)
    except Refusal as refusal:
        return type(refusal).__name__
    return None


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "jobs", [pytest.param(20, id="quick"), pytest.param(40, id="slow", marks=pytest.mark.slow)]
)
def test_random_play_expect_contract_and_python_agree(
    start_anvil: Callable[..., Any], tmp_path: Path, jobs: int
) -> None:
    ground = Ground(start_anvil(*ANVIL_OPTIONS), tmp_path)
    model = ChainModel(
        31337, ground.at["Jobs"], ground.at["Referee"], ground.at["Panel"], Registry(), commit_age=1
    )
    watch = Watch(31337, ground.at["Watch"], Board(model))
    modes = [Rounding().mode if number % 10 == 9 else REPOPS_F32.byte for number in range(jobs)]
    games = [Game(ground, model, watch, number + 1, mode) for number, mode in enumerate(modes)]
    ground.fund([account for game in games for account in game.people])
    tally: Counter[str] = Counter()
    posts = [game.post() for game in games]
    assert all(ground.mine([act.transaction for act in posts], ground.now + 1))
    for act in posts:
        act.apply(ground.now)
    for number in range(ROUNDS):
        _play_round(games, ground, tally, 1 if number % 3 else 2)
        if number % 10 == 0:
            for game in games[:: 1 + number % 3]:
                game.check()
    for game in games:
        game.check()
    accounts = [BURNED, *(account for game in games for account in game.people)]
    owed = ground.read(ground.watch, [("credit", (account,)) for account in accounts])
    assert [int(raw, 16) for raw in owed] == [watch.credits.get(account, 0) for account in accounts]
    (balance,) = ground.batch([("eth_getBalance", [ground.watch.address, "latest"])])
    assert int(balance, 16) == sum(watch.credits.values()) + watch.held()
    # The play tests something only if it reaches every kind of move, refusal and ending.
    print(dict(tally))
    assert set(tally) >= {"fund", "watch", "show", "distribute", "collect", "withdraw", "finalize"}
    assert set(tally) >= {name for name, kind in vars(refusals).items() if _is_own(kind)}
    ended = {pool.ended for pool in watch.pools.values()}
    assert ended >= {JobPhase.ACCEPTED, JobPhase.UNCLAIMED}
    paid = [
        w
        for pool in watch.pools.values()
        for w in pool.watchers.values()
        if w.state is WatcherState.COLLECTED
    ]
    assert len(paid) > jobs / 2
    assert watch.credits.get(BURNED, 0) > 0


def _is_own(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, Refusal) and kind is not Refusal
