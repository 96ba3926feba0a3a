"""Jobs and matches read from real contracts, with data that hostile parties put there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from eth_account import Account
from rich.console import Console
from web3.types import RPCEndpoint

from referee_py.commit import Record, Tag, Tree
from referee_py.commit.structs import words
from referee_py.errors import InvalidInput
from referee_py.game.rules import apply
from referee_py.game.state import Descend, Move, OpenRecord, Phase, Reveal, Timeout
from referee_py.jobs import Rules, commitment
from referee_py.program.modes import Rounding
from referee_py.program.terms import Terms
from referee_py.walk.descent import Descent
from referee_py.walk.reason import Reason
from tests.conftest import Anvil, undone
from tests.support.planned import planned
from trainer_node.chain import (
    ChainClient,
    Deployment,
    JobPhase,
    MatchInfo,
    Receipt,
    TransactionManager,
    connect,
    recorded,
)
from trainer_node.chain.codec.match import History, match_call
from trainer_node.chain.contracts import error_decoder
from trainer_node.chain.outbox import Call
from trainer_node.chain.retrace import retrace
from trainer_node.cli.dispute import render
from trainer_node.client.posting import Offer, job_terms
from trainer_node.errors import Reverted
from trainer_node.operate.deploy import Parameters, deploy
from trainer_node.storage.database import Database

STAKE = 10**17


def h(number: int) -> bytes:
    return bytes([number]) * 32


RECORDS = [Record(h(50 + i), (h(60 + i),), (h(70 + i),)) for i in range(4)]
LIES = [*RECORDS[:2], Record(h(52), (h(62),), (h(99),)), RECORDS[3]]
STEP = Tree(Tag.STEP_TREE, [record.hash() for record in RECORDS])
LIED_STEP = Tree(Tag.STEP_TREE, [record.hash() for record in LIES])
RUN = Tree(Tag.RUN_TREE, [h(1), h(2), STEP.root, h(4)])
LIED_RUN = Tree(Tag.RUN_TREE, [h(1), h(2), LIED_STEP.root, h(5)])
PROGRAM = Terms(
    opset=1,
    mode=1,
    node_count=4,
    slot_count=1,
    constant_count=1,
    steps=4,
    structure_root=h(11),
    slot_root=h(12),
    constant_root=h(13),
    initial_root=h(14),
    strides=(1,),
)


class Town:
    """A deployment, a client, two trainers and a verifier."""

    def __init__(
        self,
        url: str,
        keys: tuple[str, ...],
        folder: Path,
        stake: int = STAKE,
        guardian: str | None = None,
        pause_budget: int = 0,
        deployment: Deployment | None = None,
    ) -> None:
        """Deploy, unless it is done. The guardian of the clocks is the first of the people unless another is named."""
        self.web3, self.stake = connect(url, 31337), stake
        self.people = [
            TransactionManager(
                self.web3,
                Account.from_key(key),
                Database(None),
                chain_id=31337,
                poll_s=0.01,
                decode=error_decoder(),
            )
            for key in keys
        ]
        parameters = Parameters(
            stake_gas=stake // 10**10,  # low, so that gas is cheap
            min_period=2,
            commit_age=1,
            guardian=guardian or self.people[0].address,
            pause_budget=pause_budget,
        )
        file = folder / "31337.json"
        made = deployment or deploy(self.web3, self.people[0], file, parameters, chain_id=31337)
        self.client = ChainClient(self.web3, made)
        self.contracts = self.client.contracts
        if deployment is None:
            register = Call.of(
                self.contracts.registry, "register", made.panel, "http://verifier", value=10**18
            )
            self.people[3].send(register)

    def post(self, uri: str = "http://client", *, slots: int = 2, program: Terms = PROGRAM) -> int:
        verifiers = (self.people[3].address,)
        offer = Offer(
            10**18,
            self.stake,
            slots=slots,
            train_period=100,
            reveal_period=100,
            challenge_period=100,
            clock=60,
            verifiers=verifiers,
        )
        terms = job_terms(program, h(20), uri, self.client.deployment.referee, offer)
        self.people[0].send(Call.of(self.contracts.jobs, "post", words(terms), value=offer.reward))
        return self.client.snapshot().job_count()

    def claim_two(
        self, job: int, uris: tuple[str | bytes, str | bytes] = ("http://one", "http://two")
    ) -> None:
        one, two = self.people[1:3]
        self.claim(job, (one, RUN, uris[0]), (two, LIED_RUN, uris[1]))

    def claim(self, job: int, *claims: tuple[TransactionManager, Tree, str | bytes]) -> None:
        """Let these people take all slots of the job, commit and claim."""
        jobs = self.contracts.jobs
        for person, _, _ in claims:
            person.send(Call.of(jobs, "join", job, value=self.stake))
        for person, tree, _ in claims:
            where = (31337, str(jobs.address), job, person.address)
            hashed = commitment(*where, tree.root, tree.leaves[-1], bytes(32), h(9))
            person.send(Call.of(jobs, "commit", job, hashed))
        for person, tree, uri in claims:
            text = uri if isinstance(uri, str) else "x" * len(uri)
            call = Call.of(
                jobs, "reveal", job, (tree.root, tree.leaves[-1], tree.path(3), text), bytes(32), h(9)
            )
            if isinstance(uri, bytes):
                call = Call(call.action, call.to, call.data.replace(b"x" * len(uri), uri))
            person.send(call)

    def match(self, job: int) -> MatchInfo:
        snapshot = self.client.snapshot()
        found = snapshot.job(job)
        return snapshot.match(found, snapshot.matches_of(job)[0])

    def play(self, job: int, person: TransactionManager, moves: list[Move]) -> Receipt:
        """Send moves in a job's match."""
        match, now = self.match(job), self.client.snapshot().now
        pairs = planned(
            match.state, moves, lambda at, move: apply(at, match.terms, move, person.address, now)
        )
        made = [match_call(move, before, match.terms) for move, before in pairs]
        return person.send(Call.batch(self.contracts.referee, *made, inputs=0))

    def rpc(self, method: str, *params: object) -> None:
        self.web3.provider.make_request(RPCEndpoint(method), list(params))


@pytest.fixture(scope="module")
def deployment(module_anvil: Anvil, tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    folder = tmp_path_factory.mktemp("town")
    return Town(module_anvil.url, module_anvil.keys[:4], folder).client.deployment


@pytest.fixture
def town(module_anvil: Anvil, deployment: Deployment, tmp_path: Path) -> Iterator[Town]:
    """A town as it was deployed, whose people have done nothing."""
    town = Town(module_anvil.url, module_anvil.keys[:4], tmp_path, deployment=deployment)
    with undone(town.web3):
        yield town


def test_job_as_it_was_posted(town: Town) -> None:
    job_id = town.post()
    job = town.client.snapshot().job(job_id)
    assert job.phase is JobPhase.TRAINING
    assert job.program == PROGRAM
    assert job.client == town.people[0].address
    assert (job.reward, job.stake, job.slots) == (10**18, STAKE, 2)
    assert job.rules == Rules(1, 1800, 1800, 60)
    assert job.verifiers == (town.people[3].address,)
    assert job.commit_end == job.posted + 100
    assert (job.claims, job.groups, job.waiting) == ((), (), None)
    with pytest.raises(InvalidInput, match="no job 2"):
        town.client.snapshot().job(2)


def test_snapshots_are_pinned(town: Town) -> None:
    before = town.client.snapshot()
    town.post()
    assert before.job_count() == 0
    assert town.client.snapshot().job_count() == 1
    assert before.still_canonical()


def test_a_job_is_read_in_one_call(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id = town.post()
    town.claim_two(job_id)
    snapshot, asked = town.client.snapshot(), []
    assert snapshot.stake_gas, "what a deployment decides is asked for once in a look"
    endpoint: Any = town.client.endpoints.serving
    send = endpoint.request

    def listen(method: str, params: object) -> Any:
        asked.append(method)
        return send(method, params)

    monkeypatch.setattr(endpoint, "request", listen)
    job = snapshot.job(job_id)
    assert len(job.claims) == len(job.groups) == 2
    assert asked == ["eth_call", "eth_getLogs"], "the view, and what only events say of its claims"
    asked.clear()
    snapshot.match(job, job.match_ids()[0])
    assert asked == ["eth_call", "eth_getLogs"], "the state, and the events that tell what it is the hash of"


def test_reorganisation_is_noticed(town: Town) -> None:
    town.post()
    snapshot = town.client.snapshot()
    town.rpc("anvil_reorg", 1, [])
    assert not snapshot.still_canonical()


def test_claims_and_groups(town: Town) -> None:
    job_id = town.post()
    town.claim_two(job_id)
    job = town.client.snapshot().job(job_id)
    assert job.phase is JobPhase.CHALLENGE
    assert [claim.uri for claim in job.claims] == ["http://one", "http://two"]
    group = job.group_of_root(RUN.root)
    assert group is not None
    assert group.speaker == 0
    assert job.servers(job.members(group)) == ["http://one"]
    assert job.match_ids() == [group.match_id]
    assert job.claim_of(town.people[1].address.lower()) == job.claims[0]
    assert job.trainer(town.people[0].address) is None
    match = town.match(job_id)
    assert match.side_of(town.people[1].address) == 0
    assert match.state.phase is Phase.WALK
    assert match.state.root == (RUN.root, LIED_RUN.root)
    assert match.terms.program == PROGRAM
    assert match.deadline == match.state.tick + 60


def test_rounding_logs_are_the_jobs(town: Town) -> None:
    rounded = replace(PROGRAM, mode=Rounding().mode)
    with pytest.raises(Reverted, match="OneSlotOnly"):
        town.post(program=rounded)
    job_id, logs, jobs = town.post(program=rounded, slots=1), h(42), town.contracts.jobs
    assert town.client.snapshot().job(job_id).logs == bytes(32)
    one, two = town.people[1:3]
    one.send(Call.of(jobs, "join", job_id, value=STAKE))
    hashed = commitment(31337, str(jobs.address), job_id, one.address, RUN.root, RUN.leaves[-1], logs, h(9))
    one.send(Call.of(jobs, "commit", job_id, hashed))
    claim = (RUN.root, RUN.leaves[-1], RUN.path(3), "http://one")
    with pytest.raises(Reverted, match="WrongCommitment"):
        one.send(Call.of(jobs, "reveal", job_id, claim, h(43), h(9)))
    one.send(Call.of(jobs, "reveal", job_id, claim, logs, h(9)))
    other = (LIED_RUN.root, LIED_RUN.leaves[-1], LIED_RUN.path(3), "http://two")
    hashed = commitment(
        31337, str(jobs.address), job_id, two.address, LIED_RUN.root, LIED_RUN.leaves[-1], bytes(32), h(9)
    )
    assert town.client.snapshot().committed_at(job_id, hashed) == 0
    two.send(Call.of(jobs, "commitChallenge", job_id, hashed))
    assert town.client.snapshot().committed_at(job_id, hashed) == town.client.block().timestamp
    town.rpc("evm_increaseTime", 1)
    two.send(Call.of(jobs, "challenge", job_id, other, h(9), value=STAKE))
    job = town.client.snapshot().job(job_id)
    assert (job.program, job.logs) == (rounded, logs)
    assert town.match(job_id).terms.logs == logs


def test_a_call_without_arguments_beside_a_move_is_no_move(town: Town) -> None:
    """Who retraces a match must not stumble over what a player has put into its transaction."""
    job_id = town.post()
    town.claim_two(job_id)
    match, referee = town.match(job_id), town.contracts.referee
    move = match_call(Reveal(0, tuple(RUN.leaves)), match.state, match.terms)
    town.people[1].send(Call.batch(referee, ("JUDGE", []), move))
    snapshot = town.client.snapshot()
    job = snapshot.job(job_id)
    assert retrace(snapshot, job, match.id) == recorded(snapshot, job, match.id)
    assert town.match(job_id).state.posted == 1


def test_walk_is_read_back(town: Town) -> None:
    job_id = town.post()
    town.claim_two(job_id)
    match_id = town.match(job_id).id
    one = town.people[1]
    town.play(job_id, one, [Reveal(0, tuple(RUN.leaves))])
    snapshot = town.client.snapshot()
    assert History.of(snapshot.events(match_id)).log.children == [tuple(RUN.leaves), None]
    assert town.match(job_id).state.posted == 1

    path, lied = tuple(RUN.path(2)), tuple(LIED_RUN.path(2))
    into_step = Descend(Descent(2, STEP.root, path, LIED_STEP.root, lied), h(2), tuple(RUN.path(1)))
    a, b = RECORDS[2], LIES[2]
    into_node = Descend(Descent(2, a.hash(), tuple(STEP.path(2)), b.hash(), tuple(LIED_STEP.path(2))))
    receipt = town.play(job_id, one, [into_step, into_node, OpenRecord(0, a)])
    assert receipt.action == "descend+openRecord"
    match = town.match(job_id)
    assert (match.state.phase, match.state.index, match.state.start, match.state.agreed) == (
        Phase.OPEN,
        2,
        2,
        h(2),
    )
    history = History.of(town.client.snapshot().events(match_id))
    assert history.log.children == [None, None]
    assert history.log.records == {a.hash(): a}


def test_timeout_and_its_history(town: Town) -> None:
    job_id = town.post()
    town.claim_two(job_id)
    match_id = town.match(job_id).id
    with pytest.raises(Reverted, match="NotLate") as caught:
        town.play(job_id, town.people[1], [Timeout()])
    assert caught.value.values["matchId"] == match_id
    town.play(job_id, town.people[1], [Reveal(0, tuple(RUN.leaves))])
    town.rpc("evm_increaseTime", 200)
    town.rpc("evm_mine")
    town.play(job_id, town.people[1], [Timeout()])
    state = town.match(job_id).state
    assert (state.phase, state.losers, state.reason) == (Phase.DONE, 0b10, Reason.TIMEOUT)
    history = History.of(town.client.snapshot().events(match_id))
    assert (history.losers, history.reason) == (0b10, Reason.TIMEOUT)
    assert town.client.snapshot().job(job_id).claims[1].lost


def test_a_uri_that_is_no_text_hides_nothing(town: Town) -> None:
    job_id = town.post()
    town.claim_two(job_id, ("http://one", b"http://\xff\xfe\x80" + bytes([0xC0] * 9)))
    job = town.client.snapshot().job(job_id)
    assert job.claims[0].uri == "http://one"
    assert job.claims[1].uri.startswith("http://\ufffd")
    assert town.match(job_id).state.phase is Phase.WALK


def test_match_of_another_job_is_refused(town: Town) -> None:
    first, second = town.post(), town.post()
    town.claim_two(first)
    match_id = town.match(first).id
    with pytest.raises(InvalidInput, match="not a match"):
        town.client.snapshot().match(town.client.snapshot().job(second), match_id)
    with pytest.raises(InvalidInput, match="not a match"):
        town.client.snapshot().match(town.client.snapshot().job(first), (1 << 256) - 1)


def test_no_moves_is_an_error(town: Town) -> None:
    job_id = town.post()
    town.claim_two(job_id)
    with pytest.raises(InvalidInput, match="no move"):
        Call.batch(town.contracts.referee, inputs=0)


def test_dispute_is_shown(town: Town) -> None:
    job_id = town.post()
    town.claim_two(job_id)
    match = town.match(job_id)
    town.play(job_id, town.people[1], [Reveal(0, tuple(RUN.leaves))])
    snapshot = town.client.snapshot()
    console = Console(width=200)
    with console.capture() as capture:
        console.print(render(snapshot, snapshot.job(job_id), match))
    text = capture.get()
    assert "run tree of steps 1 to 4, a checkpoint every 1" in text
    assert "side A reveals 4 nodes 2 levels up" in text
