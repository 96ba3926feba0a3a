"""Pages about jobs: the list, and one job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from referee_py.errors import AssayError
from referee_py.program import SlotSource
from trainer_node.audit.job import roots_of
from trainer_node.chain import JobPhase, JobView
from trainer_node.client.parties import Parties
from trainer_node.client.result import fetch_result, file_name, save_result
from trainer_node.ids import short

from . import curve, drawing, text
from .chain import Look
from .disputed import Disputed
from .finding import SHOW, filtered
from .history import moments
from .intervals import intervals
from .job_words import artifacts, claims_by_root, judges, phase
from .ladder import ladder
from .money import flow
from .rendering import NotThere
from .shown_commands import shell

PER_PAGE = 20
MAX_ROOTS = 4
"""Claimed roots of a job for which its page has a command."""


class JobPages(Disputed):
    """The list of jobs, a job, and its result."""

    def home(self, page: int = 1, show: str = "all") -> str:
        """The list of jobs, the newest first; ``show`` is a filter (`finding.SHOW`)."""
        if show not in SHOW:
            raise NotThere(f"there is no filter {text.said(show, 40)}; there are {', '.join(SHOW)}")

        def make(look: Look) -> str:
            numbers = filtered(look, show)
            count = len(numbers)
            last = max(1, -(-count // PER_PAGE))
            if not 1 <= page <= last:
                raise NotThere(f"there is no page {page}; the jobs fill {last}")
            rows = []
            for number in numbers[(page - 1) * PER_PAGE : page * PER_PAGE]:
                try:
                    rows.append(self._row(look, look.job(number)))
                except AssayError as error:
                    rows.append({"id": number, "reason": str(error)})
            return self._render(
                "jobs.html",
                "Jobs",
                live=None if page > 1 else "/" if show == "all" else f"/?show={show}",
                look=look,
                rows=rows,
                page=page,
                last=last,
                count=count,
                total=look.snapshot.job_count(),
                show=show,
                filters=list(
                    zip(SHOW, ("all", "open", "disputed", "accepted", "without a result"), strict=True)
                ),
                build=shell("program", "build", "gpt2-tiny", "JOB"),
                post=self._command("job", "post", "JOB"),
                demo=shell("demo", "--explorer"),
            )

        return self._chain.reading(make)

    def _row(self, look: Look, job: JobView) -> dict[str, Any]:
        matches = look.matches(job)
        return {
            "id": job.id,
            "job": job,
            "name": self._name(job),
            "phase": phase(job, look.now, _pending(look, job)),
            "claims": claims_by_root(job),
            "judges": judges(job),
            "matches": matches,
            "first": matches[0] if matches else None,
            "reason": "",
        }

    def job(self, number: int) -> str:
        """One job."""

        def make(look: Look) -> str:
            job = look.job(number)
            parties = Parties(job)
            now = phase(job, look.now, _pending(look, job))
            names = {SlotSource(*place): name for name, place in self.names(job).metrics.items()}
            runs = self._watch.runs(look, job, names)
            cases = [look.case(job, match) for match in look.matches(job)]
            told = [(case, ladder(case, moments(case), parties.name)) for case in cases]
            money = flow(look, job, parties)
            strip = intervals(job, [(case.match.terms, one) for case, one in told], parties)
            return self._render(
                "job.html",
                f"Job {number}",
                live=None if self._place.static else self._place.job(number),
                look=look,
                job=job,
                name=self._name(job),
                parties=parties,
                phase=now,
                judges=judges(job),
                claims=claims_by_root(job),
                # NOTE: a job may have many disputes, so no server is waited for: the next look has what came.
                disputes=[self._summary(case, one, parties, 0) for case, one in told],
                commands=self._commands(job, over=now["over"], disputed=bool(cases)),
                money=money,
                money_chart=drawing.money(money),
                strip=strip,
                others=sum(group.refutes is None and not group.dead for group in job.groups) - 1,
                strip_chart=drawing.intervals(strip),
                runs=runs,
                curve=curve.draw(runs.curves, job.program.steps) if runs.curves else None,
                beside=self._beside(job),
                artifacts=artifacts(job),
                accepted=job.phase is JobPhase.ACCEPTED,
            )

        return self._chain.reading(make)

    def _commands(self, job: JobView, *, over: bool, disputed: bool) -> list[tuple[str, str]]:
        """Return what may be asked or done about a job in its phase: a purpose, and the command."""
        found = [("its terms, claims and disputes", self._command("job", "show", job.id))]
        if job.phase <= JobPhase.CHALLENGE:
            found.append(("progress of its trainers", self._command("job", "watch", job.id)))
        if disputed:
            found.append(("its disputes, move by move", self._command("dispute", "show", job.id)))
        roots = roots_of(job)
        for root in roots[:MAX_ROOTS]:
            # NOTE: named even if it is the only one, since another may be claimed while somebody reads the page.
            which = "the run" if len(roots) == 1 else f"the run with root {short(root)}, one of {len(roots)}"
            audit = self._command("audit", "--job", job.id, "--root", root.hex())
            found.append((f"a check of some of {which}", audit))
        if job.phase is JobPhase.ACCEPTED:
            found.append(("the trained state", self._command("job", "result", job.id)))
        if over:
            found.append(("end the job, with a key", self._command("job", "finalize", job.id)))
        return found

    def result(self, number: int) -> Path:
        """Fetch an accepted result; return the path of a safetensors file with it. Raises NotThere or AssayError."""

        def make(look: Look) -> Path:
            job = look.job(number)
            if job.phase is not JobPhase.ACCEPTED:
                raise NotThere(f"job {number} has no accepted result")
            path = self._folder / file_name(job)
            if not path.exists():
                program = self._program_now(job)
                names = self.names(job).slots or [f"slot.{k}" for k in range(len(program.slots))]
                save_result(fetch_result(self._fetcher, job, program), list(names), path, job)
            return path

        return self._chain.reading(make)


def _pending(look: Look, job: JobView) -> int:
    """Return how many requests for data keep a job from its end."""
    waiting = job.waiting if job.phase is JobPhase.CLOSING else None
    return 0 if waiting is None else look.snapshot.pending(job, job.groups[waiting])
