"""Attack: whoever asks for data of one job, again and again, keeps a node from requesting withheld logs of another: as
long as a transaction with answers is on its way, which nothing waits for, no logs are requested at all."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

from trainer_node.chain.codec.availability import Ledger
from trainer_node.chain.outbox import Call
from trainer_node.daemon.due import Due
from trainer_node.play.data_requests import DataRequester

from ..desk import Sent
from ..sent import CONTRACTS
from .test_data_requests import longest

ROUNDS = 500


def test_answers_in_one_job_keep_no_logs_of_another_from_being_requested() -> None:
    program, of = longest()
    sent = Sent()
    runner: Any = SimpleNamespace(starved=lambda _: program)
    requester = DataRequester(CONTRACTS, sent, runner, 10**30, spare=lambda _: 10**30)  # type: ignore[arg-type]
    answered: dict[int, int] = {}
    for number in range(ROUNDS):
        # `Loop._round`: what was mined is closed; then the flooded job, whose number is lower, sends the next answers.
        sent.outcomes = dict.fromkeys(sent.outcomes, ("mined", number))
        answer = Call("provideRecord", "0x" + "11" * 20, number.to_bytes(32, "big"))
        sent.send([Due(answer, sent=partial(answered.__setitem__, 1))])
        snapshot: Any = SimpleNamespace(
            now=10 + number,
            block=SimpleNamespace(number=5 + number),
            ledger=lambda *_: Ledger(),
            head=lambda number=number: 5 + number,
        )
        if requester.due(snapshot, of):
            return
    raise AssertionError(f"no log was requested in {ROUNDS} rounds")
