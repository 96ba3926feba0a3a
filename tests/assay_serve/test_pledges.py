"""The contract Pledges on a chain: who is paid when, and what is refused. Disputes by daemons are tested in e2e."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest
from eth_account import Account

from assay_serve.backed import Backing
from assay_serve.model import Model
from assay_serve.pledges import NOTHING_WRITTEN, SLOTS, Conditions, hash_of, least_stake, written
from assay_serve.receipt import Signed
from referee_py.commit import Tag, Tree
from trainer_node.chain import Call, ChainClient, Deployment, TransactionManager, connect
from trainer_node.chain.contracts import error_decoder
from trainer_node.errors import Reverted
from trainer_node.local.bundle import Bundle
from trainer_node.operate.deploy import Parameters, deploy
from trainer_node.storage.database import Database

from ..conftest import Anvil
from . import tiny
from .pledged import (
    BURNED,
    CHARGE,
    ETHER,
    FORFEIT,
    NOTICE,
    PERIOD,
    SALT,
    SECONDS,
    Ground,
    answered,
    lying,
    one_wrong,
    run_of,
)

PARAMETERS = Parameters(min_bond=ETHER, leave_delay=60, stake_gas=10**7, min_period=10, commit_age=1)
UPHELD, WRONG, REPEATED = 0, 1, 2


@pytest.fixture(scope="module")
def ground(module_anvil: Anvil, tmp_path_factory: pytest.TempPathFactory) -> Ground:
    web3 = connect(module_anvil.url, module_anvil.chain_id)
    key = Account.from_key(module_anvil.keys[0])
    sender = TransactionManager(
        web3, key, Database(None), chain_id=module_anvil.chain_id, decode=error_decoder(), poll_s=0.01
    )
    path = tmp_path_factory.mktemp("chain") / "deployment.json"
    deploy(web3, sender, path, PARAMETERS, chain_id=module_anvil.chain_id)
    return Ground.on(web3, ChainClient(web3, Deployment.load(path)), sender, ETHER)


@dataclasses.dataclass
class Case:
    """A pledge, an honest receipt with it, and one in which a token is another."""

    ground: Ground
    owner: TransactionManager
    terms: Conditions
    backing: Backing
    right: Signed
    wrong: Signed
    bundle: Bundle

    def opened(self, signed: Signed, least: int = 0) -> tuple[TransactionManager, int]:
        """Let a new client challenge a receipt; return it with the job's number."""
        client = self.ground.account()
        return client, self.ground.challenge(client, self.terms, signed, self.bundle, least)

    def decided(self, signed: Signed, *, empty: bool = False) -> tuple[int, int]:
        """Let anybody decide the next challenge; return the outcome, and what the pledge paid."""
        proof = NOTHING_WRITTEN if empty else written(self.bundle).words
        pledges = self.ground.pledges
        receipt = self.ground.send(self.ground.account(), pledges.decide(self.terms, signed, proof))
        (event,) = [
            pledges.contract.events["Decided"]().process_log(log)
            for log in receipt.logs
            if bytes(log["topics"][0]).hex() == pledges.contract.events["Decided"]().topic.removeprefix("0x")
        ]
        return int(event["args"]["outcome"]), int(event["args"]["paid"])

    @property
    def pledged(self) -> int:
        return self.ground.pledges.pledge(self.owner.address).amount


@pytest.fixture
def case(ground: Ground, model: Model) -> Iterator[Case]:
    owner, terms, backing = ground.pledged()
    right = answered(model, backing, ground.now)
    wrong = lying(model, backing, right, one_wrong(right))
    yield Case(ground, owner, terms, backing, right, wrong, run_of(model, right))
    ground.check_money()  # whatever happened


def refused(error: str, ground: Ground, who: TransactionManager, call: Call) -> None:
    with pytest.raises(Reverted) as caught:
        ground.send(who, call)
    assert caught.value.name == error


def test_a_wrong_receipt_costs_the_forfeit_once_and_half_of_it_is_burned(case: Case) -> None:
    """A server that keeps silent loses: somebody claims the right run, and nobody disputes it."""
    burned = case.ground.credit(BURNED)
    client, job = case.opened(case.wrong, least=2 * FORFEIT)
    case.ground.accept(case.bundle, job)
    assert case.decided(case.wrong) == (WRONG, FORFEIT)
    assert case.pledged == FORFEIT
    assert case.ground.credit(client.address) == CHARGE + FORFEIT // 2
    assert case.ground.credit(BURNED) - burned == FORFEIT // 2
    again = case.ground.account()
    case.ground.commit(again, case.wrong)
    call = case.ground.pledges.challenge(case.terms, case.wrong, case.bundle, "", 0, SALT)
    refused("AlreadyWrong", case.ground, again, call)


def test_a_right_receipt_costs_its_challenger_the_charge(case: Case) -> None:
    burned = case.ground.credit(BURNED)
    client, job = case.opened(case.right)
    case.ground.accept(case.bundle, job)
    assert case.decided(case.right) == (UPHELD, 0)
    assert case.pledged == 2 * FORFEIT
    assert case.ground.credit(client.address) == 0
    assert case.ground.credit(case.owner.address) == CHARGE // 2
    assert case.ground.credit(BURNED) - burned == CHARGE // 2


def test_a_challenger_that_claims_nothing_loses_its_charge(case: Case) -> None:
    """NOTE: also of a wrong receipt: who challenges can claim."""
    client, job = case.opened(case.wrong)
    case.ground.pass_over(job)
    assert case.decided(case.wrong, empty=True) == (UPHELD, 0)
    assert (case.pledged, case.ground.credit(client.address)) == (2 * FORFEIT, 0)
    assert not case.ground.pledges.is_wrong(case.wrong.backed.digest)  # type: ignore[union-attr]


def test_two_challenges_at_once_are_paid_in_the_order_of_their_opening(case: Case, model: Model) -> None:
    """Three receipts are wrong, the pledge is for two: each has its own job, and the last finds nothing."""
    other = lying(model, case.backing, case.right, one_wrong(case.right, 7))
    third = lying(model, case.backing, case.right, one_wrong(case.right, 9))
    _, job = case.opened(case.wrong, least=2 * FORFEIT)
    second, later = case.opened(other, least=FORFEIT)
    assert later == job + 1
    last = case.ground.account()
    case.ground.commit(last, third)
    call = case.ground.pledges.challenge(case.terms, third, case.bundle, "", 1, SALT)
    refused("CoveredBy", case.ground, last, call)
    call = case.ground.pledges.challenge(case.terms, third, case.bundle, "", 0, SALT)
    case.ground.send(last, call)
    case.ground.accept(case.bundle, later)
    proof = written(case.bundle).words
    refused("OtherReceipt", case.ground, second, case.ground.pledges.decide(case.terms, other, proof))
    refused("JobRuns", case.ground, second, case.ground.pledges.decide(case.terms, case.wrong, proof))
    case.ground.send(case.owner, case.ground.pledges.notice(case.terms))
    case.ground.skip(NOTICE)
    refused("ChallengesOpen", case.ground, case.owner, case.ground.pledges.reclaim())
    # NOTE: the periods of both other jobs are long over by now, and nobody has claimed anything in them.
    assert case.ground.client.snapshot().job(job).phase.name == "CLOSING"


def test_each_of_several_open_challenges_is_decided(case: Case, model: Model) -> None:
    other = lying(model, case.backing, case.right, one_wrong(case.right, 7))
    opened = [case.opened(one) for one in (case.wrong, case.right, other, case.wrong)]
    case.ground.accept(case.bundle, *(job for _, job in opened))
    assert case.decided(case.wrong) == (WRONG, FORFEIT)
    assert case.decided(case.right) == (UPHELD, 0)
    assert case.decided(other) == (WRONG, FORFEIT)
    assert case.decided(case.wrong) == (REPEATED, 0)
    owed = [case.ground.credit(client.address) for client, _ in opened]
    assert owed == [CHARGE + FORFEIT // 2, 0, CHARGE + FORFEIT // 2, CHARGE]
    assert case.pledged == 0


def test_what_no_pledge_is_behind_cannot_be_challenged(case: Case, model: Model) -> None:
    ground, pledges, client = case.ground, case.ground.pledges, case.ground.account()
    backed = case.wrong.backed
    assert backed is not None

    def challenge(signed: Signed, terms: Conditions = case.terms, bundle: Bundle = case.bundle) -> Call:
        return pledges.challenge(terms, signed, bundle, "", 0, SALT)

    refused("NothingCommitted", ground, client, challenge(case.wrong))
    ground.commit(client, case.wrong)
    stranger = Account.from_key(b"\x09" * 32)
    foreign = bytes(stranger.sign_message(backed.message()).signature)
    refused("NotSigned", ground, client, challenge(dataclasses.replace(case.wrong, backed_signature=foreign)))
    for place in ({"chain": 5}, {"contract": stranger.address}):
        elsewhere = backed.model_copy(update=place)
        signature = bytes(tiny.ACCOUNT.sign_message(elsewhere.message()).signature)
        told = dataclasses.replace(case.wrong, backed=elsewhere, backed_signature=signature)
        refused("NotSigned", ground, client, challenge(told))
    changed = backed.model_copy(update={"until": backed.until + 1})
    refused("NotSigned", ground, client, challenge(dataclasses.replace(case.wrong, backed=changed)))
    rich = dataclasses.replace(case.terms, forfeit=1)
    refused("OtherConditions", ground, client, challenge(case.wrong, rich))
    longer = run_of(model, answered(model, case.backing, ground.now, count=11))
    refused("OtherProgram", ground, client, challenge(case.wrong, bundle=longer))
    cheap = dataclasses.replace(
        pledges.challenge(case.terms, case.wrong, case.bundle, "", 0, SALT), value=CHARGE - 1
    )
    refused("WrongCharge", ground, client, cheap)
    nobody = backed.model_copy(update={"owner": stranger.address})
    refused("NothingPledged", ground, client, challenge(dataclasses.replace(case.wrong, backed=nobody)))
    ground.skip(SECONDS)
    refused("ReceiptExpired", ground, client, challenge(case.wrong))


def test_a_commitment_must_have_its_age_and_its_sender(case: Case) -> None:
    """The attack: who sees a challenge on its way makes it himself, and takes the prize."""
    ground, thief = case.ground, case.ground.account()
    client = ground.account()
    ground.commit(client, case.wrong)
    call = ground.pledges.challenge(case.terms, case.wrong, case.bundle, "", 0, SALT)
    refused("NothingCommitted", ground, thief, call)
    ground.send(client, call)


def test_a_pledge_stays_for_its_notice_and_then_leaves(case: Case) -> None:
    ground, owner, pledges = case.ground, case.owner, case.ground.pledges
    refused("StillPledged", ground, owner, pledges.reclaim())
    ground.send(owner, pledges.notice(case.terms))
    refused("AlreadyLeaving", ground, owner, pledges.notice(case.terms))
    ground.skip(NOTICE - 100)
    refused("StillPledged", ground, owner, pledges.reclaim())
    ground.skip(100)
    client = ground.account()
    ground.commit(client, case.wrong)
    refused("PledgeGone", ground, client, pledges.challenge(case.terms, case.wrong, case.bundle, "", 0, SALT))
    ground.send(owner, pledges.reclaim())
    assert ground.credit(owner.address) == 2 * FORFEIT
    ground.send(owner, pledges.withdraw())
    refused("NothingPledged", ground, owner, pledges.reclaim())
    refused("OtherConditions", ground, owner,
            pledges.pledging(dataclasses.replace(case.terms, charge=1), FORFEIT))  # fmt: skip
    ground.send(owner, pledges.pledging(case.terms, FORFEIT))
    kept = pledges.pledge(owner.address)
    assert (kept.amount, kept.leaves_at) == (FORFEIT, 0)


@pytest.mark.parametrize(
    ("other", "error"),
    [
        ({"forfeit": 0}, "BadConditions"),
        ({"notice": 0}, "BadConditions"),
        ({"notice": 1 << 31}, "BadConditions"),
        ({"charge": ETHER // 32 + 1}, "StakeTooLow"),
        ({"forfeit": FORFEIT + 1}, "StakeTooLow"),
    ],
)
def test_conditions_of_no_use_to_a_challenger_are_refused(
    ground: Ground, other: dict[str, int], error: str
) -> None:
    with pytest.raises(Reverted) as caught:
        ground.pledged(**other)
    assert caught.value.name == error


def test_to_keep_a_challenger_from_the_slots_costs_a_forfeit_and_many_charges(case: Case) -> None:
    """The attack: the server takes all slots of the job, and gives them back in its last second."""
    ground, jobs = case.ground, case.ground.client.contracts.jobs
    assert least_stake(FORFEIT, CHARGE) == ETHER
    client, job = case.opened(case.wrong)
    burned = int(jobs.functions.credit(BURNED).call())
    allies = [ground.account() for _ in range(SLOTS)]
    for ally in allies:
        ground.send(ally, Call.of(jobs, "join", job, value=ETHER))
    refused("NoFreeSlot", ground, client, Call.of(jobs, "join", job, value=ETHER))
    for ally in allies:
        ground.send(ally, Call.of(jobs, "resign", job))
    cost = int(jobs.functions.credit(BURNED).call()) - burned
    ground.pass_over(job)
    assert case.decided(case.wrong, empty=True) == (UPHELD, 0)
    assert cost >= FORFEIT
    assert cost - ground.credit(case.owner.address) > 16 * CHARGE
    ground.challenge(client, case.terms, case.wrong, case.bundle)  # and it can be challenged again


def test_a_first_pledge_is_a_forfeit_at_least(ground: Ground) -> None:
    with pytest.raises(Reverted) as caught:
        ground.pledged(FORFEIT - 1)
    assert caught.value.name == "PledgeTooSmall"


def test_a_proof_of_another_place_decides_nothing(case: Case) -> None:
    """The attack: whoever decides shows another record, checkpoint or slot than the accepted run's."""
    ground, pledges = case.ground, case.ground.pledges
    _, job = case.opened(case.right)
    ground.accept(case.bundle, job)
    who = ground.account()
    last, last_path, node, output, slot_path, record, path = written(case.bundle).words
    false = (record[0], record[1], [bytes(32), *record[2][1:]], record[3])
    for proof in (
        (bytes(32), last_path, node, output, slot_path, record, path),
        (last, last_path, node, output, slot_path, false, path),
        (last, last_path, node - 1, output, slot_path, record, path),
        (last, last_path, node, output + 1, slot_path, record, path),
    ):
        refused("PathMismatch", ground, who, pledges.decide(case.terms, case.right, proof))
    for proof in (
        (last, last_path[1:], node, output, slot_path, record, path),
        (last, last_path, node, output, slot_path[1:], record, path),
        (last, last_path, node, output, slot_path, record, path[1:]),
    ):
        refused("WrongPathLength", ground, who, pledges.decide(case.terms, case.right, proof))
    assert case.decided(case.right) == (UPHELD, 0)
    refused("NothingOpen", ground, who, pledges.decide(case.terms, case.right, written(case.bundle).words))


def test_a_run_of_several_checkpoints_is_decided_by_the_last(case: Case, model: Model) -> None:
    long = answered(model, case.backing, case.ground.now, count=70)
    case.bundle = run_of(model, long)
    assert case.bundle.terms.strides == (8, 1)
    told = lying(model, case.backing, long, one_wrong(long, 70))
    for signed, expected in ((told, (WRONG, FORFEIT)), (long, (UPHELD, 0))):
        _, job = case.opened(signed)
        case.ground.accept(case.bundle, job)
        assert len(written(case.bundle).words[1]) == 4
        assert case.decided(signed) == expected


def test_a_root_of_no_run_holds_nothing_up(case: Case) -> None:
    """The attack: an ally challenges first, and claims a hash of nonsense, which nobody disputes and nobody can open.
    All challenges behind it would wait for ever."""
    ground, pledges, who = case.ground, case.ground.pledges, case.ground.account()
    _, job = case.opened(case.right)
    _, later = case.opened(case.wrong)
    steps = case.bundle.terms.steps
    nonsense = Tree(Tag.RUN_TREE, [bytes([k]) * 32 for k in range(steps)])
    refused("JobRuns", ground, who, pledges.close(case.terms, case.right))
    ground.accept_root(nonsense.root, nonsense.leaves[-1], nonsense.path(steps - 1), [job])
    refused("PathMismatch", ground, who, pledges.decide(case.terms, case.right, written(case.bundle).words))
    ground.send(who, pledges.close(case.terms, case.right))
    refused("StillOpen", ground, who, pledges.close(case.terms, case.right))
    ground.skip(PERIOD)
    ground.send(who, pledges.close(case.terms, case.right))
    assert case.pledged == 2 * FORFEIT
    ground.pass_over(later)
    refused("NothingAccepted", ground, who, pledges.close(case.terms, case.wrong))
    assert case.decided(case.wrong, empty=True) == (UPHELD, 0)


def test_whoever_can_show_the_run_decides_until_the_challenge_is_closed(case: Case) -> None:
    ground, pledges, who = case.ground, case.ground.pledges, case.ground.account()
    _, job = case.opened(case.wrong)
    ground.accept(case.bundle, job)
    ground.send(who, pledges.close(case.terms, case.wrong))
    ground.skip(PERIOD - 10)
    assert case.decided(case.wrong) == (WRONG, FORFEIT)


def test_python_and_the_contract_hash_alike(case: Case) -> None:
    pledges, backed = case.ground.pledges, case.right.backed
    assert backed is not None
    assert bytes(pledges.contract.functions.digestOf(backed.words).call()) == backed.digest
    kept = pledges.pledge(case.owner.address)
    assert kept.conditions == hash_of(case.terms)
    assert pledges.conditions(case.owner.address) == case.terms


def test_the_gas_of_each_call(case: Case) -> None:
    """NOTE: bounds, so that a call that becomes dearer is noticed; the figures are in docs/economics.md."""
    _, job = case.opened(case.wrong)
    case.ground.accept(case.bundle, job)
    case.decided(case.wrong)
    ground, gas, pledges = case.ground, case.ground.gas, case.ground.pledges
    gas["claimed"] = gas.pop("commit")  # NOTE: that of Jobs has the same name
    ground.commit(ground.account(), case.right)
    ground.send(case.owner, pledges.notice(case.terms))
    ground.skip(NOTICE)
    ground.send(case.owner, pledges.reclaim())
    print(gas)
    most = {"deploy": 3_500_000, "pledge": 90_000, "commit": 50_000, "challenge": 450_000, "decide": 190_000}
    for name, bound in {**most, "giveNotice": 50_000, "reclaim": 80_000}.items():
        assert gas[name] < bound, name
