"""Pages below a dispute: its operator, and the number in which the sides differ."""

from __future__ import annotations

from functools import partial
from typing import Any

from referee_py.commit import Record
from referee_py.program import Program
from trainer_node.chain import JobView
from trainer_node.network.sources import Served

from . import text
from .artifacts import Got
from .chain import Case, Look
from .desk import Desk
from .element import Question, Shown, shown
from .history import moments
from .ladder import ladder
from .operator import Graph
from .parties import Parties
from .rendering import NotThere
from .rungs import Ladder

MAX_SERVERS = 8


class OperatorPages(Desk):
    """An operator in its graph, and a disputed number."""

    def operator(self, number: int, match: str, node: int | None, q: str, group: str) -> str:
        """The graph around the disputed node, or another one, and the rest of the program."""

        def make(look: Look) -> str:
            case = self.case(look, number, match)
            job, parties = case.job, Parties(case.job)
            found = ladder(case, moments(case), parties.name)
            got = self.graph(job)
            disputed = found.found.node
            content: dict[str, Any] = {"graph": None, "reason": got.reason, "pending": got.pending}
            words, module = q[:200], group[:400]
            if got.value is not None:
                graph, count = got.value, len(got.value.program.nodes)
                here = node if node is not None else disputed if disputed is not None else 0
                if not 0 <= here < count:
                    raise NotThere(f"the program has no operator {here}; it has {count}")
                link = "" if self._place.static else self._place.part(job.id, case.id, "operator") + "?node="
                picture, left_out = graph.draw(here, link, disputed)
                rows, more = graph.search(words, module or None) if words or module else ([], 0)
                modules, fewer = graph.modules()
                content |= {
                    "graph": graph,
                    "picture": picture,
                    "left_out": left_out,
                    "here": graph.shown(here),
                    "readers": list(graph.readers(here))[:40],
                    "rows": [graph.shown(row) for row in rows],
                    "more": more,
                    "modules": modules,
                    "fewer": fewer,
                    "labelled": bool(graph.names.nodes),
                }
            return self._render(
                "operator.html",
                f"Operator in job {number}",
                live=self._place.part(job.id, case.id, "operator")
                if got.pending and not self._place.static
                else None,
                job=job,
                case=case,
                disputed=disputed,
                found=found.found,
                q=text.said(words, 200),
                group=text.said(module, 400),
                summary=self._summary(case, found, parties),
                **content,
            )

        return self._chain.reading(make)

    def graph(self, job: JobView) -> Got[Graph]:
        """Return a job's program with what it takes to draw it, if somebody serves it."""
        return self._shelf.get(
            ("graph", job.program_file), lambda: Graph(self._program_now(job), self.names(job))
        )

    def fetching(self, number: int, match: str) -> bool:
        """Return whether something that the dispute's pages show is still being fetched."""

        def make(look: Look) -> bool:
            case = self.case(look, number, match)
            found = ladder(case, moments(case), Parties(case.job).name)
            return self.graph(case.job).pending or self._element(case, found).pending

        return self._chain.reading(make)

    def element(self, number: int, match: str) -> str:
        """The number in which the sides differ."""

        def make(look: Look) -> str:
            case = self.case(look, number, match)
            job, parties = case.job, Parties(case.job)
            found = ladder(case, moments(case), parties.name)
            got = self._element(case, found)
            # NOTE: tensors of a step are at the claimants' servers, and whoever was right is likely to serve them.
            likely = job.servers(first=lambda claim: not claim.lost)
            base = next((uri for uri in map(text.link, likely) if uri), None)
            records = _records(case)
            return self._render(
                "element.html",
                f"Number in job {number}",
                live=self._place.part(job.id, case.id, "element")
                if got.pending and not self._place.static
                else None,
                job=job,
                case=case,
                summary=self._summary(case, found, parties),
                found=found.found,
                got=got,
                one=got.value,
                base=base,
                records=records,
                trial=bool(case.trials),
            )

        return self._chain.reading(make)

    def _element(self, case: Case, found: Ladder) -> Got[Shown]:
        job, at, records = case.job, found.found, _records(case)
        uris = servers_of(case)
        if at.node is None or records is None:
            return Got(
                reason="the dispute has not come down to one operator, or both records of it are not shown"
            )
        graph = self.graph(job)
        if graph.value is None:
            return Got(reason=graph.reason)
        question = question_about(case, found, graph.value.program)
        assert question is not None
        key = ("element", case.id, records[0].hash(), records[1].hash(), at.element, question.judged)
        make = partial(shown, question, Served(self._fetcher, uris), self._memory)
        return self._shelf.get(key, make)


def question_about(case: Case, found: Ladder, program: Program) -> Question | None:
    """Return what is asked about the disputed number; None if the dispute has not come down to an operator."""
    at, records = found.found, _records(case)
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


def _records(case: Case) -> tuple[Record, Record] | None:
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
