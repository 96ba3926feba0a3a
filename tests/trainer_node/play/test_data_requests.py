"""Requests of logs that nobody serves: what is listed, and what is spent: enough where gas is dear, never more than the
job is worth, and nothing where it cannot be paid for to its end."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import structlog
from repops.opset import F32

from referee_py.availability import Piece, Place
from referee_py.availability.prices import deposit_of, request_price
from referee_py.jobs import fee_at
from referee_py.params import CROWD, MAX_OPEN, STEP
from referee_py.program import Program, SlotSource, TensorDescriptor
from referee_py.program.modes import Rounding
from referee_py.program.terms import Terms
from tests.referee_py.program.tiny import Writer, f32_bits
from trainer_node.chain import JobPhase, JobView
from trainer_node.chain.codec.availability import Ledger
from trainer_node.chain.fees import GWEI
from trainer_node.daemon.due import Due
from trainer_node.play.data_requests import LEAST_WEI, DataRequester, limit_of
from trainer_node.run import onchain_logs
from trainer_node.run.package import MAX_RUN_LEAVES, check_leaves
from trainer_node.settings.settings import load_settings

from ..desk import Sent, job
from ..sent import CONTRACTS

ETHER = 10**18
PLACES = [Place(Piece.BLOCKS, 1, 1, number) for number in range(STEP)]


def dear(gwei: float, **changes: Any) -> JobView:
    """Return a job whose logs are withheld, at a price of gas."""
    values = {"base_fee": int(gwei * GWEI), "high_fee": 10_000 * GWEI, "reward": 10_000 * ETHER, **changes}
    return job(phase=JobPhase.CHALLENGE, logs=b"l" * 32, **values)


def requested(of: JobView, max_wei: int | None = None) -> int:
    """Return how many pages are requested first."""
    requester = DataRequester(CONTRACTS, Sent(), None, max_wei, lambda _: 10**30)  # type: ignore[arg-type]
    snapshot: Any = SimpleNamespace(now=0)
    dues = requester._requests(snapshot, of, PLACES, Ledger(), least_gas=0)
    return sum(int(str(due.about["places"])) for due in dues)


@pytest.mark.parametrize("gwei", [0.001, 0.1, 1, 3, 3.55, 3.6, 10, 100, 1000])
def test_enough_pages_are_requested_at_any_price_of_gas(gwei: float) -> None:
    """The attack: above 3.55 gwei the limit was less than the deposits that make withheld logs come in time."""
    assert requested(dear(gwei)) >= CROWD


def test_a_fixed_limit_that_is_too_low_requests_nothing_and_says_so() -> None:
    with structlog.testing.capture_logs() as told:
        assert requested(dear(3.6), ETHER // 2) == 0
    (event,) = told
    assert f"max_data_requests_eth allows {ETHER // 2} wei; raise it" in event["reason"]


def test_no_more_is_spent_than_the_job_decides_about() -> None:
    claim: Any = SimpleNamespace(stake=ETHER, lost=False)
    lost: Any = SimpleNamespace(stake=9 * ETHER, lost=True)
    of = replace(dear(100, reward=2 * ETHER), claims=(claim, claim, lost))
    assert limit_of(of) == 4 * ETHER
    assert limit_of(replace(of, reward=1, claims=())) == LEAST_WEI, "what was spent before on any job"
    assert requested(replace(of, reward=1, claims=())) == 0


def test_the_client_cannot_raise_the_limit_by_the_bounds_of_its_price() -> None:
    """Its own trainer may be paid for what is requested."""
    plain = dear(5)
    for low in (GWEI, 1_000 * GWEI):
        assert limit_of(replace(plain, low_fee=low)) == limit_of(plain)
    highest = request_price(fee_at(10 * GWEI, 0, 10_000 * GWEI))
    assert limit_of(plain) == CROWD * deposit_of(Piece.BLOCKS, highest)


def test_the_default_follows_the_job_and_a_number_does_not() -> None:
    assert load_settings().max_data_requests is None
    assert load_settings(max_data_requests_eth=0).max_data_requests == 0
    assert load_settings(max_data_requests_eth=0.25).max_data_requests == ETHER // 4


NODES = 1024


def longest() -> tuple[Program, JobView]:
    """A run with the most steps that nodes take up, of operators that take no time, and the job that it is for."""
    initial = np.ones((), np.float32)
    op = Writer([], [initial])
    for _ in range(NODES):
        last = op("full", shape=(), dtype=F32, bits=f32_bits(1.0))
    program = Program(tuple(op.nodes), (SlotSource(last.index, 0),), (), (TensorDescriptor.of(initial),))
    terms = Terms.of(program, MAX_RUN_LEAVES, (1024, 32, 1), Rounding(32).mode)
    check_leaves(terms)
    price = {"base_fee": GWEI, "low_fee": 1, "high_fee": GWEI}
    month = 30 * 24 * 3600
    ends = {"commit_end": 0, "reveal_end": 0, "challenge_end": month, "challenge_period": month}
    return program, job(program=terms, phase=JobPhase.CHALLENGE, logs=b"\7" * 32, **price, **ends)


def due(program: Program, of: JobView, max_wei: int) -> list[Due] | None:
    """What a node that cannot replay the job without its logs does in a round, before anybody has requested any."""
    transactions: Any = SimpleNamespace(address="0x" + "aa" * 20, open=list)
    runner: Any = SimpleNamespace(starved=lambda _: program)
    snapshot: Any = SimpleNamespace(
        now=10, block=SimpleNamespace(number=5), ledger=lambda *_: Ledger(), head=lambda: 5
    )
    requester = DataRequester(CONTRACTS, transactions, runner, max_wei, spare=lambda _: 10**30)
    return requester.due(snapshot, of, opens=True)


def test_a_round_lists_no_more_pieces_than_can_be_requested(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run has 4 million pages of digests, all of them withheld."""
    program, of = longest()
    listed = 0

    def counted(*args: Any, **rest: Any) -> Place:
        nonlocal listed
        listed += 1
        return Place(*args, **rest)

    monkeypatch.setattr(onchain_logs, "Place", counted)
    found = due(program, of, max_wei=10**30)
    assert found is not None
    assert [(one.event, one.about["places"], one.opens) for one in found] == [
        ("data_request.made", STEP, True)
    ]
    assert 0 < listed <= MAX_OPEN + STEP


def test_what_cannot_be_paid_for_to_its_end_is_not_begun() -> None:
    """The fees of what is published go to who withheld it. The digests alone cost more than 3,000 ether."""
    program, of = longest()
    with structlog.testing.capture_logs() as logs:
        assert due(program, of, max_wei=100 * ETHER) == []
    reasons = [line["reason"] for line in logs if line["event"] == "job.left_to_others"]
    assert len(reasons) == 1
    assert "their digests alone take" in reasons[0]
    assert "max_data_requests_eth allows 100000000000000000000 wei" in reasons[0]
