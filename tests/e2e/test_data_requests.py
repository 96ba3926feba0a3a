"""Data that nobody serves is requested on the chain: a party that withholds it loses or publishes it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import structlog
from eth_utils.crypto import keccak

from assay_lab.faults import Fault
from referee_py.availability import Blocks, Digests, LeafShown, Piece, Place, RecordShown
from referee_py.availability.pieces import check
from referee_py.availability.prices import deposit_of, rank_of
from referee_py.availability.state import OUTPUTS
from referee_py.commit import Tag
from referee_py.params import ANSWER_GAS, BYTE_GAS, MAX_REQUEST_PLACES, RECORD_SECONDS
from referee_py.program.modes import Rounding
from referee_py.program.terms import leaf_count
from tests.conftest import Anvil
from trainer_node.chain import Call, JobPhase, JobView
from trainer_node.chain.codec.availability import Ledger, close_call, request_call
from trainer_node.daemon.service import Daemon
from trainer_node.local.bundle import Bundle
from trainer_node.settings.extent import Mode
from trainer_node.stake.flood import MAX_BATCH_BYTES, MAX_BATCH_GAS

from . import brink
from .arena import NOWHERE, PERIOD_S, REWARD, STAKE, Arena, transactions
from .forger import ForgersArena
from .forgeries import FORGERIES

SPARSE, PRICE = Rounding(32), 10**9
"""The price that gas counts for in these jobs: the least, since gas is cheap on this chain."""


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainer_node.compute.outcomes.RETRY_S", 0.01)


class WithholdingArena(ForgersArena):
    """One trainer who serves nothing, and answers requests; it forges if a forgery is given. The challenger serves."""

    def _node(self, name: str, role: str, **settings: object) -> Daemon:
        if name == "trainer-0":
            settings["public_uri"] = NOWHERE
        return super()._node(name, role, **settings)


def fees(ledger: Ledger, job: JobView, price: int = PRICE) -> int:
    """Return the payment to the authors of all answers of a job."""
    sizes = (check(job.program, root, place, answer) for (root, place), answer in ledger.answers.items())
    return sum(price * (ANSWER_GAS + BYTE_GAS * size) for size in sizes)


def ledger_of(arena: Arena, job: JobView) -> Ledger:
    return arena.client.snapshot().ledger(job)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "a direction just beyond the radius",
        "one element more",
        "the log of a longer node",
        "a log of a node that has none",
        "a record that names another log than the run",
    ],
)
def test_withheld_logs_are_requested_and_the_replay_disputes_what_is_wrong(
    anvil: Anvil, tmp_path: Path, name: str
) -> None:
    forgery = FORGERIES[name]
    job = brink.bundle(SPARSE)
    with WithholdingArena(anvil, tmp_path, job, forgery, knows=False) as arena:
        outcome = arena.play()
        ledger = ledger_of(arena, outcome.job)
        assert not ledger.open
        kinds = {type(answer) for answer in ledger.answers.values()}
        assert kinds == {Digests, Blocks}
        assert outcome.job.phase is JobPhase.ACCEPTED
        assert outcome.matches == [(forgery.reason, {arena.address("trainer-0")})]
        assert outcome.profit["trainer-0"] == fees(ledger, outcome.job) - STAKE
        assert outcome.profit["challenger"] >= REWARD - fees(ledger, outcome.job)


def test_withheld_logs_of_a_right_run_are_paid_for_and_accepted(anvil: Anvil, tmp_path: Path) -> None:
    """The honest follower has written a forged entry, and is right: logs shown on the chain are followed, too."""
    job = brink.bundle(SPARSE)
    forgery = FORGERIES["all directions in the band"]
    with WithholdingArena(anvil, tmp_path, job, forgery, knows=True) as arena:
        outcome = arena.play()
        assert outcome.job.phase is JobPhase.ACCEPTED
        assert outcome.matches == []
        paid = fees(ledger_of(arena, outcome.job), outcome.job)
        assert paid > 0
        assert outcome.profit["trainer-0"] == REWARD + paid
        assert outcome.profit["challenger"] == -paid
        count = leaf_count(0, job.terms.steps, job.terms.strides[0])
        replayed = arena.members[-1].node.store.get_tree(Tag.RUN_TREE, outcome.job.accepted_root, count)
        assert replayed.root == outcome.job.accepted_root, "the challenger has come to it, too"


@pytest.mark.slow
def test_logs_that_nobody_shows_make_the_job_void(anvil: Anvil, tmp_path: Path) -> None:
    job = brink.bundle(SPARSE)
    with Arena(anvil, tmp_path, job, trainers=[Fault.WITHHOLD], serve=False) as arena:
        outcome = arena.play()
        assert outcome.job.phase is JobPhase.VOID
        assert outcome.profit["trainer-0"] == -STAKE
        assert outcome.profit["challenger"] == STAKE // 2
        assert not ledger_of(arena, outcome.job).answers
        requested = arena.client.contracts.data_availability.events.Requested.get_logs(from_block=0)
        places = {tuple(event["args"]["place"].values()) for event in requested}
        assert len(requested) == len(places) == job.terms.steps, (
            "nothing is requested again of what nobody has"
        )


def request(arena: Arena, job: JobView, root: bytes, *places: Place) -> None:
    """Request places as the challenger, who has no reason to."""
    node = arena.members[-1].node
    assert node.transactions is not None
    snapshot = arena.client.snapshot()
    opened = [d for d in snapshot.ledger(job).open.values() if d.root == root]
    others = len({d.place.tree for d in opened} - {places[0].tree}) if not places[0].piece.of_logs else 0
    ranks = (rank_of(len(opened) + k, others) for k in range(len(places)))
    value = sum(deposit_of(place.piece, PRICE) << rank for place, rank in zip(places, ranks, strict=False))
    contracts = node.client.contracts
    made = request_call(contracts.subject(job.id, root), places)
    node.transactions.send(Call.batch(contracts.data_availability, made, value=value))


def batches(arena: Arena) -> list[tuple[int, int]]:
    """Return bytes and gas of all batches that were sent to the contract of requests."""
    web3, contract = arena.client.web3, arena.client.contracts.data_availability
    selector = keccak(text="multicall(bytes[])")[:4]
    found = []
    for number in range(web3.eth.block_number + 1):
        for transaction in transactions(web3, number):
            data = bytes(transaction["input"])
            if transaction.get("to") == contract.address and data.startswith(selector):
                found.append((len(data), web3.eth.get_transaction_receipt(transaction["hash"])["gasUsed"]))
    return found


def until_claimed(arena: Arena) -> JobView:
    """Tick the other members until the trainer has claimed."""
    for _ in range(500):
        for member in arena.members[:-1]:
            member.loop.tick()
        job = arena.client.snapshot().job(arena.job_id)
        if job.phase is JobPhase.CHALLENGE:
            return job
    raise AssertionError("the trainer has not claimed")


@pytest.mark.slow
def test_an_honest_trainer_answers_whatever_is_requested(
    anvil: Anvil, tmp_path: Path, bundle: Bundle
) -> None:
    """Records and leaves of a checkpoint, inputs and outputs, and places that do not exist."""
    with Arena(anvil, tmp_path, bundle, trainers=[Fault.NONE]) as arena:
        job = until_claimed(arena)
        root, node = job.groups[0].root, bundle.terms.node_count // 2
        places = [Place(Piece.RECORD, 1, node), Place(Piece.RECORD, 1, 0)]
        places += [
            Place(Piece.LEAF, 1, node, tensor, part)
            for tensor in (0, 200, OUTPUTS, OUTPUTS + 9)
            for part in (0, 1 << 40)
        ]
        request(arena, job, root, *places)
        outcome = arena.play()
        ledger = ledger_of(arena, outcome.job)
        assert set(ledger.answers) == {(root, place) for place in places}
        assert outcome.job.phase is JobPhase.ACCEPTED
        assert outcome.job.accepted_root == root
        paid = fees(ledger, outcome.job)
        assert outcome.profit["trainer-0"] == REWARD + paid
        assert outcome.profit["challenger"] == -paid
        leaves = [a for a in ledger.answers.values() if isinstance(a, LeafShown)]
        assert any(a.tensor.leaf for a in leaves)
        assert any(isinstance(a, RecordShown) for a in ledger.answers.values())


@pytest.mark.slow
def test_a_flood_is_answered_in_batches(anvil: Anvil, tmp_path: Path, bundle: Bundle) -> None:
    """Requests for two checkpoints at once are all answered in time, in transactions that are relayed and mined.

    Half of the deposits beyond the least is burned.
    """
    with Arena(anvil, tmp_path, bundle, trainers=[Fault.NONE]) as arena:
        job = until_claimed(arena)
        root, node = job.groups[0].root, bundle.terms.node_count // 2
        flood = [Place(Piece.LEAF, 0, node, OUTPUTS, (1 << 40) + k) for k in range(100)]
        request(arena, job, root, *flood[:MAX_REQUEST_PLACES])
        request(arena, job, root, *flood[MAX_REQUEST_PLACES:])
        request(arena, job, root, Place(Piece.RECORD, 1, node))
        opened = ledger_of(arena, job).open
        assert [opened[root, place].rank for place in flood] == [0] * 64 + [1] * 36
        last = opened[root, Place(Piece.RECORD, 1, node)]
        assert last.rank == 2
        first = min(request.until for request in opened.values())
        assert last.until >= first + PERIOD_S + 100 * RECORD_SECONDS
        outcome = arena.play()
        ledger = ledger_of(arena, outcome.job)
        assert not ledger.open
        assert len(ledger.answers) == 101
        assert outcome.job.accepted_root == root
        paid = fees(ledger, outcome.job)
        burned = 36 * deposit_of(Piece.LEAF, PRICE) // 2 + 3 * deposit_of(Piece.RECORD, PRICE) // 2
        assert outcome.profit["trainer-0"] == REWARD + paid
        assert outcome.profit["challenger"] == -paid - burned
        sizes, gas = zip(*batches(arena), strict=True)
        assert len(sizes) > 1
        assert max(sizes) <= MAX_BATCH_BYTES
        assert max(gas) <= MAX_BATCH_GAS


def test_a_record_that_nobody_shows_loses_the_claim(anvil: Anvil, tmp_path: Path, bundle: Bundle) -> None:
    with Arena(anvil, tmp_path, bundle, trainers=[Fault.WITHHOLD]) as arena:
        job = until_claimed(arena)
        root, place = job.groups[0].root, Place(Piece.RECORD, 0, 0)
        request(arena, job, root, place)
        arena.skip(PERIOD_S + 1)
        node = arena.members[-1].node
        assert node.transactions is not None
        contracts = node.client.contracts
        made = close_call(contracts.subject(job.id, root), place)
        node.transactions.send(Call.batch(contracts.data_availability, made))
        lost = arena.client.snapshot().job(job.id)
        assert [claim.lost for claim in lost.claims] == [True]
        outcome = arena.play()
        assert outcome.profit["trainer-0"] == -STAKE
        assert outcome.profit["challenger"] == STAKE // 2 + REWARD, "it has claimed what was given away"
        assert outcome.matches == []


def test_a_node_closes_what_a_liar_does_not_show(anvil: Anvil, tmp_path: Path, bundle: Bundle) -> None:
    """It stakes nothing, and knows the right result. The liar leaves after its claim."""
    with Arena(anvil, tmp_path, bundle, trainers=[Fault.POISON_DATA], mode=Mode.DEFEND) as arena:
        job = until_claimed(arena)
        request(arena, job, job.groups[0].root, Place(Piece.RECORD, 0, 0))
        arena.skip(PERIOD_S + 1)
        challenger = arena.members[-1]
        for _ in range(500):
            challenger.loop.tick()
            if arena.client.snapshot().job(job.id).claims[0].lost:
                break
            assert challenger.runner is not None
            time.sleep(0.1 if challenger.runner.busy else 0.01)
        else:
            raise AssertionError("nobody has closed what is late")
        assert arena.client.snapshot().job(job.id).groups[0].dead


@pytest.mark.slow
@pytest.mark.parametrize("limit", [0, 0.14])
def test_an_auditor_whose_limit_is_too_low_says_so(anvil: Anvil, tmp_path: Path, limit: float) -> None:
    """Too low for 32 pages at a time: fewer do not put off the end, and may be paid for to no effect."""

    class Poor(WithholdingArena):
        def _node(self, name: str, role: str, **settings: object) -> Daemon:
            if name == "challenger":
                settings["max_data_requests_eth"] = limit
            return super()._node(name, role, **settings)

    forgery = FORGERIES["a direction just beyond the radius"]
    with (
        Poor(anvil, tmp_path, brink.bundle(SPARSE), forgery, knows=True) as arena,
        structlog.testing.capture_logs() as told,
    ):
        outcome = arena.play()
        assert outcome.job.phase is JobPhase.ACCEPTED
        assert outcome.profit["challenger"] == 0
        assert any("max_data_requests_eth" in str(event.get("reason")) for event in told)
