"""The moments of a dispute: its transactions in order, with what the Python rules say of the state after each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from referee_py.commit import Record
from referee_py.errors import AssayError
from referee_py.trial import Stage
from referee_py.walk.clock import Clocked, owing
from trainer_node.chain import MatchTrace, retraced
from trainer_node.chain.codec.base import calls_in
from trainer_node.chain.codec.match import match_move
from trainer_node.chain.rpc import guarded
from trainer_node.client.dispute_words import Told
from trainer_node.errors import RpcUnavailable

from .chain import Case
from .index import Sent

MAX_MOMENTS = 400
"""Transactions that a scrubber offers; a longer dispute is offered every second, third, ... one."""


@dataclass(frozen=True)
class Moment:
    """A transaction of a dispute. ``told`` are its events, ``since`` the seconds since the one before it, ``trace`` the
    state after it; None if the Python rules cannot follow (a contract has sent a move)."""

    number: int
    sent: Sent
    since: int
    told: tuple[Told, ...]
    trace: MatchTrace | None
    records: tuple[Record, Record] | None = None
    """Both sides' records of the disputed node, if the transaction shows them to the judge."""


@dataclass(frozen=True)
class Clock:
    """A side's chess clock: seconds left of ``full``; ``running`` while it owes a move."""

    left: int
    full: int
    running: bool


def moments(case: Case) -> list[Moment]:
    """Return the moments of a dispute up to the block of the look. Raises RpcUnavailable or RpcCorrupt."""
    key = case.id, tuple((bytes(told.event.raw["blockHash"]), told.event.index) for told in case.told)
    return case.look.kept.get(key, lambda: _moments(case))


def _moments(case: Case) -> list[Moment]:
    by_tx: dict[bytes, list[Told]] = {}
    for told in case.told:
        by_tx.setdefault(told.event.tx_hash, []).append(told)
    traces = _traces(case)
    found, before = list[Moment](), None
    for number, (tx_hash, events) in enumerate(by_tx.items(), 1):
        sent = case.sent(tx_hash)
        since = 0 if before is None else sent.instant - before
        found.append(Moment(number, sent, since, tuple(events), traces.get(tx_hash), _records(case, sent)))
        before = sent.instant
    return found


def _records(case: Case, sent: Sent) -> tuple[Record, Record] | None:
    contracts = case.look.client.contracts
    if sent.to.lower() != str(contracts.referee.address).lower():
        return None
    try:
        with guarded("a transaction's moves"):
            for name, arguments in calls_in(contracts.referee, sent.data):
                exhibit = getattr(match_move(name, arguments), "exhibit", None)
                if exhibit is not None and next(iter(arguments), None) == case.id:
                    return exhibit.record0, exhibit.record1
    except AssayError:
        return None
    return None


def _traces(case: Case) -> dict[bytes, MatchTrace]:
    try:
        return dict(retraced(case.look.snapshot, case.job, case.id))
    except RpcUnavailable:
        raise
    except AssayError:
        return {}


def clocks(case: Case, moment: Moment, at: int | None) -> tuple[str, tuple[Clock, Clock]] | None:
    """Return what the clocks are of, and both sides' clocks ``at`` an instant of the contracts' time, or right after
    the moment if None. None if they are not known."""
    trace = moment.trace
    if trace is None:
        return None
    running: tuple[str, Clocked, int] = ("match", trace.match, case.match.terms.clock)
    trials: Sequence[tuple[int, Clocked]] = [
        (number, trial) for number, trial in enumerate(trace.trials, 1) if trial.stage is not Stage.DONE
    ]
    if trials:
        number, trial = trials[-1]
        running = (f"trial {number}", trial, case.job.rules.clock)
    of, state, full = running
    mask = owing(state)
    spent = max(0, at - state.tick) if at is not None else 0
    sides = [
        Clock(max(0, left - spent * (mask >> side & 1)), full, bool(mask >> side & 1))
        for side, left in enumerate(state.clock)
    ]
    return of, (sides[0], sides[1])


def offered(all_: Sequence[Moment]) -> list[Moment]:
    """Return the moments that the scrubber offers: the last transaction of each block, thinned out if they are many."""
    last = {one.sent.block: one for one in all_}
    found = list(last.values())
    every = -(-len(found) // MAX_MOMENTS)
    return [one for k, one in enumerate(found) if k % every == 0 or k == len(found) - 1]


def next_after(all_: Sequence[Moment], now: Moment) -> Moment | None:
    """Return the first moment of a later block."""
    return next((one for one in all_ if one.sent.block > now.sent.block), None)
