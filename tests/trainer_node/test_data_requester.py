"""What a challenger spends on logs that nobody serves: enough where gas is dear, never more than the job is worth."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import structlog

from referee_py.availability import Piece, Place
from referee_py.availability.prices import deposit_of, request_price
from referee_py.jobs import fee_at
from referee_py.params import CROWD, STEP
from trainer_node.chain import JobPhase, JobView
from trainer_node.chain.codec.availability import Ledger
from trainer_node.chain.fees import GWEI
from trainer_node.config import load_settings
from trainer_node.data_requester import LEAST_WEI, DataRequester, limit_of

from .desk import Sent, job
from .sent import CONTRACTS

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
    dues = requester._requests(snapshot, of, PLACES, Ledger())
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
