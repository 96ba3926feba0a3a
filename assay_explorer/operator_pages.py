"""Pages below a dispute: its operator, and the number in which the sides differ."""

from __future__ import annotations

from typing import Any

from trainer_node.client.parties import Parties

from . import text
from .chain import Look
from .disputed import Disputed, records_of
from .graph_pages import graph_content, picture_of
from .history import moments
from .ladder import ladder
from .rendering import NotThere
from .whole_graph import WholeGraph

MAX_READERS = 40


class OperatorPages(Disputed):
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
            content["explore"] = self._command("explorer", "--bundle", "JOB")
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
                    "readers": list(graph.readers(here))[:MAX_READERS],
                    "more_readers": max(0, len(graph.readers(here)) - MAX_READERS),
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

    def whole(self, number: int, match: str, node: int | None, q: str, group: int | None) -> str:
        """The whole graph of the program, with the disputed operator in it."""

        def make(look: Look) -> str:
            case = self.case(look, number, match)
            job = case.job
            found = ladder(case, moments(case), Parties(job).name)
            got, address = self.graph(job), self._place.part(job.id, case.id, "graph")
            content = (
                {"graph": None}
                if got.value is None
                else graph_content(got.value, node, q, group, address, found.found.node)
            )
            return self._render(
                "graph.html",
                f"Graph of job {number}",
                live=address if got.pending else None,
                job=job,
                case=case,
                reason=got.reason,
                pending=got.pending,
                **content,
            )

        return self._chain.reading(make)

    def picture(self, number: int, match: str, group: int | None) -> bytes:
        """Return the data of the whole graph, or of a group of it. Raises NotThere."""

        def make(look: Look) -> WholeGraph | None:
            return self.graph(self.case(look, number, match).job).value

        found = self._chain.reading(make)
        if found is None:
            raise NotThere("the program is not here yet")
        return picture_of(found, group)

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
            records = records_of(case)
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
