"""The moments of a dispute: its transactions in order, with what the Python rules say of the state after each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from referee_py.errors import AssayError
from referee_py.trial import Stage
from referee_py.walk.clock import Clocked, owing
from trainer_node.chain import MatchTrace, retraced
from trainer_node.errors import RpcUnavailable

from .chain import Case, Told
from .index import Sent


@dataclass(frozen=True)
class Moment:
    """A transaction of a dispute. ``told`` are its events, ``since`` the seconds since the one before it, ``trace`` the
    state after it; None if the Python rules cannot follow (a contract has sent a move)."""

    number: int
    sent: Sent
    since: int
    told: tuple[Told, ...]
    trace: MatchTrace | None


@dataclass(frozen=True)
class Clock:
    """A side's chess clock: seconds left of ``full``; ``running`` while it owes a move."""

    left: int
    full: int
    running: bool


def moments(case: Case) -> list[Moment]:
    """Return the moments of a dispute up to the block of the look. Raises RpcUnavailable or RpcCorrupt."""
    by_tx: dict[bytes, list[Told]] = {}
    for told in case.told:
        by_tx.setdefault(told.event.tx_hash, []).append(told)
    traces = _traces(case)
    found, before = list[Moment](), None
    for number, (tx_hash, told) in enumerate(by_tx.items(), 1):
        sent = case.sent(tx_hash)
        since = 0 if before is None else sent.instant - before
        found.append(Moment(number, sent, since, tuple(told), traces.get(tx_hash)))
        before = sent.instant
    return found


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
