"""Maker of rungs from a dispute's events, one by one: state that all kinds of rungs share."""

from __future__ import annotations

from typing import Any

from referee_py.program import Structure
from referee_py.walk.reason import Reason
from trainer_node.chain.events import Event
from trainer_node.client.dispute_words import Words
from trainer_node.ids import short, side_of

from .chain import Case
from .history import Moment
from .rungs import Found, Moves, Names, Pair, Rung
from .text import moment


class RungMaker:
    """Rungs so far. Each method ``_on_...`` of a subclass takes the event of that name."""

    def __init__(self, case: Case, name: Names) -> None:
        self._case, self._name = case, name
        self._terms = case.match.terms.program
        self.rungs: list[Rung] = []
        self.found = Found()
        self.losers: tuple[int, ...] | None = None
        self.reason: Reason | None = None
        self._words = Words(self._terms, moment, side_of, name, self._whose)
        self._event: Event
        self._moment: Moment | None = None
        self._used: set[bytes] = set()
        self._roots: Pair = case.match.terms.roots
        self._nodes: Pair = self._roots
        self._trials: dict[int, Rung] = {}
        self._element: dict[int, Rung] = {}
        self._structure: Structure | None = None
        self._records: dict[int, Any] = {}

    def begin(self, moment_: Moment) -> None:
        self._moment = moment_
        if moment_.records is not None and self.rungs and self.rungs[-1].kind in ("step", "operator"):
            self._records = dict(enumerate(moment_.records))

    def _rung(self, rung: Rung) -> Rung:
        self.rungs.append(rung)
        return rung

    def _say(self, rung: Rung, line: str | None = None) -> None:
        """Add a line to the present transaction's part in a rung: by default that of the event that is taken."""
        assert self._moment is not None
        sent = self._moment.sent
        part = next((part for part in rung.moves if part.sent.hash == sent.hash), None)
        if part is None:
            part = Moves(sent, self._moment.since, sent.hash in self._used)
            self._used.add(sent.hash)
            rung.moves.append(part)
        part.lines.append(self._words.of(self._event) if line is None else line)

    def _whose(self, record: bytes) -> str:
        hearing = self._case.hearing
        pair = hearing.terms.submission.records if hearing is not None else (b"", b"")
        for side in (0, 1):
            if pair[side] == record:
                return f"the record of {side_of(side)}"
        return f"another record, {short(record)}"

    def _compare_records(self, rung: Rung) -> None:
        if len(self._records) < 2:
            return
        first, second = self._records[0], self._records[1]
        rung.pairs = rung.pairs[:1]
        rung.pairs.append(("structure", first.structure, second.structure))
        for what in ("inputs", "outputs"):
            one, other = getattr(first, what), getattr(second, what)
            for k in range(max(len(one), len(other))):
                pair = (one[k] if k < len(one) else b"", other[k] if k < len(other) else b"")
                rung.pairs.append((f"{what[:-1]} {k}", *pair))
        if any(first.log) or any(second.log):
            rung.pairs.append(("rounding log", first.log, second.log))
        differs = next((what for what, one, other in rung.pairs[1:] if one != other), "")
        rung.lead = {
            "structure": "One side names another operator. The program says which it is.",
            "rounding log": "The rounding logs differ. The trainer has committed to one of them."
            if self._terms.arithmetic.follows_logs
            else "One side names a rounding log, and this arithmetic has none.",
        }.get(
            differs,
            f"Structure and inputs are equal, but {differs} differs: somebody has to compute this one operator."
            if differs.startswith("output")
            else f"{differs.capitalize()} differs. Where it comes from decides who is right.",
        )
