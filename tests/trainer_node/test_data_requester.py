"""Requests of withheld logs: what a round lists, and what is not begun because it cannot be paid for to its end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from repops.opset import F32
from structlog.testing import capture_logs
from web3 import Web3

from referee_py.availability import Place
from referee_py.params import MAX_OPEN, STEP
from referee_py.program import Program, SlotSource, TensorDescriptor
from referee_py.program.mode import Rounding
from referee_py.program.terms import Terms
from tests.referee_py.program.tiny import Writer, f32_bits
from trainer_node import onchain_logs
from trainer_node.chain import Contracts, JobPhase, JobView
from trainer_node.chain.codec.availability import Ledger
from trainer_node.data_requester import DataRequester
from trainer_node.due import Due
from trainer_node.package import MAX_RUN_LEAVES, check_leaves

from .desk import job as a_job
from .endpoint import DEPLOYMENT

GWEI, ETHER = 10**9, 10**18
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
    return program, a_job(program=terms, phase=JobPhase.CHALLENGE, logs=b"\7" * 32, **price, **ends)


def due(program: Program, job: JobView, max_wei: int) -> list[Due] | None:
    """What a node that cannot replay the job without its logs does in a round, before anybody has requested any."""
    transactions: Any = SimpleNamespace(address="0x" + "aa" * 20, open=list)
    runner: Any = SimpleNamespace(starved=lambda _: program)
    snapshot: Any = SimpleNamespace(
        now=10, block=SimpleNamespace(number=5), ledger=lambda _: Ledger(), head=lambda: 5
    )
    contracts = Contracts(Web3(), DEPLOYMENT)
    requester = DataRequester(contracts, transactions, runner, max_wei, spare=lambda _: 10**30)
    return requester.due(snapshot, job)


def test_a_round_lists_no_more_pieces_than_can_be_requested(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run has 4 million pages of digests, all of them withheld."""
    program, job = longest()
    listed = 0

    def counted(*args: Any, **rest: Any) -> Place:
        nonlocal listed
        listed += 1
        return Place(*args, **rest)

    monkeypatch.setattr(onchain_logs, "Place", counted)
    found = due(program, job, max_wei=10**30)
    assert found is not None
    assert [(one.event, one.about["places"]) for one in found] == [("data_request.made", STEP)]
    assert 0 < listed <= MAX_OPEN + STEP


def test_what_cannot_be_paid_for_to_its_end_is_not_begun() -> None:
    """The fees of what is published go to who withheld it. The digests alone cost more than 3,000 ether."""
    program, job = longest()
    with capture_logs() as logs:
        assert due(program, job, max_wei=100 * ETHER) == []
    reasons = [line["reason"] for line in logs if line["event"] == "job.left_to_others"]
    assert len(reasons) == 1
    assert "their digests alone take" in reasons[0]
    assert "max_data_requests_eth allows 100000000000000000000 wei" in reasons[0]
