"""State that all pages share: the chain, labels of programs, and data fetched from strangers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from referee_py.program import Program
from referee_py.program.describe import Names
from trainer_node.chain import JobView
from trainer_node.local.bundle import Bundle
from trainer_node.network.fetcher import Fetcher
from trainer_node.network.sources import Served
from trainer_node.run.package import load_program

from . import text
from .artifacts import Shelf
from .beside import Beside, beside
from .chain import Case, Chain, Look
from .rendering import NotThere, Place, render
from .running import Watch
from .shown_commands import FILE, shell


class Desk:
    """Makes pages. ``bundles``: programs whose labels are known. ``hosts``: names that this server is reached by; empty
    to allow any. ``flags``: those that name the chain in commands. ``trainers``: servers that no claim reveals."""

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
        flags: Sequence[str] = (),
        trainers: Sequence[str] = (),
    ) -> None:
        self._chain, self._fetcher, self._folder, self._memory = chain, fetcher, folder, memory
        self.hosts, self._flags = hosts, tuple(flags)
        self._bundles = {bundle.program.file_hash(): bundle for bundle in bundles}
        self._shelf = Shelf()
        self._watch = Watch(self._shelf, trainers)
        self._place = place or Place()

    def close(self) -> None:
        self._shelf.close()

    def _render(self, template: str, title: str, *, live: str | None = None, **content: Any) -> str:
        return render(template, title, self._place, live=live, problem=self._chain.problem, **content)

    def _command(self, *words: object) -> str:
        """Return a command about this chain, whole."""
        return shell(*words, *self._flags)

    def deployment(self) -> str:
        """Return the file of the contracts' addresses that the commands name. Raises NotThere if they name none."""
        if FILE not in self._flags:
            raise NotThere("the commands on these pages name a list of releases, and no deployment file")
        return self._chain.client.deployment.text()

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

    def _beside(self, job: JobView) -> Beside | None:
        """Return what was measured of a job's program beside eager PyTorch, if its bundle is known."""
        bundle = self._bundles.get(job.program_file)
        return beside(bundle.labels) if bundle is not None else None

    def _program_now(self, job: JobView) -> Program:
        bundle = self._bundles.get(job.program_file)
        if bundle is not None:
            return bundle.program
        return load_program(Served(self._fetcher, job.servers(client=True)), job.program, job.program_file)

    def case(self, look: Look, number: int, match: str) -> Case:
        """Return a match of a job by the beginning of its id. Raises NotThere."""
        job = look.job(number)
        for found in look.matches(job):
            # NOTE: an id may begin with zeros, which some write and some do not.
            known = match.lower() in (str(found), hex(found))
            if known or (len(match) > 3 and f"{found:#066x}".startswith(match.lower())):
                return look.case(job, found)
        raise NotThere(f"job {number} has no match {text.said(match, 70)}")
