"""The subject of a dispute: its program, the number that differs, and both in a few words."""

from __future__ import annotations

from functools import partial
from typing import Any

from referee_py.commit import Record
from referee_py.program import Program, Structure
from referee_py.program.describe import value_of
from referee_py.walk.reason import Reason
from trainer_node.chain import JobView
from trainer_node.client.dispute_words import case_words
from trainer_node.client.parties import Parties
from trainer_node.network.sources import Served

from .artifacts import WAIT_S, Got
from .chain import Case
from .desk import Desk
from .element import Question, Shown, shown
from .history import moments
from .rungs import Ladder
from .whole_graph import WholeGraph

MAX_SERVERS = 8


class Disputed(Desk):
    """Finds the operator and the number of a dispute, from the chain and from what servers have."""

    def graph(self, job: JobView, wait_s: float = WAIT_S) -> Got[WholeGraph]:
        """Return a job's program with what it takes to draw it, if somebody serves it."""
        key = "graph", job.program_file
        return self._shelf.get(key, lambda: WholeGraph(self._program_now(job), self.names(job)), wait_s)

    def _element(self, case: Case, found: Ladder, wait_s: float = WAIT_S) -> Got[Shown]:
        job, at, records = case.job, found.found, records_of(case)
        uris = servers_of(case)
        if at.node is None or records is None:
            return Got(
                reason="the dispute has not come down to one operator, or both records of it are not shown"
            )
        graph = self.graph(job, wait_s)
        if graph.value is None:
            return Got(reason=graph.reason)
        question = question_about(case, found, graph.value.program)
        assert question is not None
        key = ("element", case.id, records[0].hash(), records[1].hash(), at.element, question.judged)
        make = partial(shown, question, Served(self._fetcher, uris), self._memory)
        return self._shelf.get(key, make, wait_s)

    def _summary(self, case: Case, found: Ladder, parties: Parties, wait_s: float = WAIT_S) -> dict[str, Any]:
        """Return the subject of a dispute and its state, in a few words. ``wait_s``: for data from servers."""
        job, terms, at = case.job, case.match.terms, found.found
        who = [parties.name(player) for player in terms.players]
        places = ("step", at.step), ("operator", at.node), ("element", at.element)
        where = [f"{what} {place}" for what, place in places if place is not None]
        numbers, more = self.numbers(case, found), 0
        # NOTE: a past moment knows no more than it showed, so nothing is fetched before both records are.
        if numbers is None and any(rung.kind in ("hearing", "decision") for rung in found.rungs):
            one = self._element(case, found, wait_s).value
            if one is not None:
                where.append(f"{one.what} {one.number}, element {one.element}")
                numbers, more = (one.values[0].decimal, one.values[1].decimal), one.differing - 1
        reason = None if found.reason is None else case_words(found.reason, found.losers or ())
        losers = [] if found.losers is None else [who[side] for side in found.losers]
        return {
            "case": case,
            "who": who,
            "where": ", ".join(where),
            "refuter": case.refuter,
            "reason": reason,
            "losers": losers,
            # NOTE: who did not answer in time is not shown wrong.
            "lost": "lost"
            if found.reason is Reason.TIMEOUT
            else f"{'was' if len(losers) == 1 else 'were'} wrong",
            "won": "won" if found.reason is Reason.TIMEOUT else "was right",
            "losing_sides": found.losers or (),
            "link": self._place.dispute(job.id, case.id),
            "ladder": found,
            "numbers": numbers,
            "more": more,
        }

    def numbers(self, case: Case, found: Ladder) -> tuple[str, str] | None:
        """Both sides' values of the disputed element, as decimals, once a trial has found it."""
        if found.found.values is None or case.hearing is None or found.found.output is None:
            return None
        structure = Structure.decode(case.hearing.terms.dispute.structure)
        dtype = structure.outputs[found.found.output].dtype
        first, second = found.found.values
        return value_of(first, dtype), value_of(second, dtype)


def question_about(case: Case, found: Ladder, program: Program) -> Question | None:
    """Return what is asked about the disputed number; None if the dispute has not come down to an operator."""
    at, records = found.found, records_of(case)
    if at.node is None or records is None:
        return None
    structure = program.nodes[at.node]
    one_step = at.hi is not None and at.lo is not None and at.hi - at.lo == 1
    return Question(
        structure,
        records,
        case.job.program.mode,
        tuple(program.type_of(operand) for operand in structure.inputs),
        at.output if case.trials else None,
        at.element,
        at.entry,
        at.hi if case.trials and one_step else None,
    )


def records_of(case: Case) -> tuple[Record, Record] | None:
    """Return both sides' records of the disputed node, if the chain has them."""
    if case.hearing is not None:
        first, second = case.hearing.terms.dispute.records
        return first, second
    told = [one.records for one in moments(case) if one.records is not None]
    return told[-1] if told else None


def servers_of(case: Case) -> list[str]:
    """Return the servers that may have the data: the client's, both spokesmen's, then the other claimants'."""
    players = [player.lower() for player in case.match.terms.players]
    return case.job.servers(first=lambda claim: claim.owner.lower() in players, client=True)[:MAX_SERVERS]
