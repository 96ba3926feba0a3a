"""State that all pages share: the chain, labels of programs, and data fetched from strangers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from referee_py.program import Program, Structure
from referee_py.program.describe import Names, value_of
from trainer_node.chain import JobView
from trainer_node.client.dispute_words import CASES
from trainer_node.local.bundle import Bundle
from trainer_node.network.fetcher import Fetcher
from trainer_node.network.sources import Served
from trainer_node.run.package import load_program

from . import text
from .artifacts import Shelf
from .chain import Case, Chain, Look
from .parties import Parties
from .rendering import NotThere, Place, render
from .rungs import Ladder


class Desk:
    """Makes pages. ``names``: labels of programs by the hash of their files. ``hosts``: names that this server is
    reached by; empty to allow any."""

    def __init__(
        self,
        chain: Chain,
        fetcher: Fetcher,
        folder: Path,
        *,
        bundles: Sequence[Bundle] = (),
        hosts: frozenset[str] = frozenset(),
        place: Place | None = None,
        memory: int = 4 << 30,
    ) -> None:
        self._chain, self._fetcher, self._folder, self._memory = chain, fetcher, folder, memory
        self.hosts = hosts
        self._bundles = {bundle.program.file_hash(): bundle for bundle in bundles}
        self._shelf = Shelf()
        self._place = place or Place()

    def close(self) -> None:
        self._shelf.close()

    def _render(self, template: str, title: str, *, live: str | None = None, **content: Any) -> str:
        return render(template, title, self._place, live=live, problem=self._chain.problem, **content)

    def failure(self, title: str, reason: str) -> str:
        """Return a page that says why there is no other."""
        return self._render("failure.html", title, reason=reason)

    def _name(self, job: JobView) -> str:
        bundle = self._bundles.get(job.program_file)
        return bundle.name if bundle is not None else ""

    def names(self, job: JobView) -> Names:
        """The labels of a job's program that this explorer knows."""
        bundle = self._bundles.get(job.program_file)
        return bundle.names if bundle is not None else Names()

    def _program_now(self, job: JobView) -> Program:
        bundle = self._bundles.get(job.program_file)
        if bundle is not None:
            return bundle.program
        return load_program(Served(self._fetcher, job.servers(client=True)), job.program, job.program_file)

    def case(self, look: Look, number: int, match: str) -> Case:
        """Return a match of a job by the beginning of its id. Raises NotThere."""
        job = look.job(number)
        for found in look.matches(job):
            if match == str(found) or (len(match) > 3 and f"{found:#066x}".startswith(match.lower())):
                return look.case(job, found)
        raise NotThere(f"job {number} has no match {text.said(match, 70)}")

    def _summary(self, case: Case, found: Ladder, parties: Parties) -> dict[str, Any]:
        """Return the subject of a dispute and its state, in a few words."""
        job, terms = case.job, case.match.terms
        who = [parties.name(player) for player in terms.players]
        where = []
        if found.found.step is not None:
            where.append(f"step {found.found.step}")
        if found.found.node is not None:
            where.append(f"operator {found.found.node}")
        if found.found.element is not None:
            where.append(f"element {found.found.element}")
        reason = CASES.get(found.reason) if found.reason is not None else None
        losers = [] if found.losers is None else [who[side] for side in found.losers]
        return {
            "case": case,
            "who": who,
            "where": ", ".join(where),
            "reason": reason,
            "losers": losers,
            "winners": [] if found.losers is None else [who[s] for s in (0, 1) if s not in found.losers],
            "losing_sides": found.losers or (),
            "link": self._place.dispute(job.id, case.id),
            "ladder": found,
            "numbers": self.numbers(case, found),
        }

    def numbers(self, case: Case, found: Ladder) -> tuple[str, str] | None:
        """Both sides' values of the disputed element, as decimals, once a trial has found it."""
        if found.found.values is None or case.hearing is None or found.found.output is None:
            return None
        structure = Structure.decode(case.hearing.terms.dispute.structure)
        dtype = structure.outputs[found.found.output].dtype
        first, second = found.found.values
        return value_of(first, dtype), value_of(second, dtype)
