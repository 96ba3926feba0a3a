"""Pages about jobs: the list, and one job."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any

from referee_py.errors import AssayError
from trainer_node.chain import JobPhase, JobView
from trainer_node.client.result import fetch_result, save_result
from trainer_node.client.watched_job import standing

from . import curve, drawing, text
from .chain import Look
from .desk import Desk
from .history import moments
from .intervals import intervals
from .job_words import artifacts, claims_by_root, judges, phase
from .ladder import ladder
from .money import flow
from .parties import Parties
from .rendering import NotThere

PER_PAGE = 20


class JobPages(Desk):
    """The list of jobs, a job, and its result."""

    def home(self, page: int = 1) -> str:
        """The list of jobs, the newest first."""

        def make(look: Look) -> str:
            count = look.snapshot.job_count()
            last = max(1, -(-count // PER_PAGE))
            if not 1 <= page <= last:
                raise NotThere(f"there is no page {page}; the jobs fill {last}")
            top = count - (page - 1) * PER_PAGE
            rows = []
            for number in range(top, max(0, top - PER_PAGE), -1):
                try:
                    rows.append(self._row(look, look.job(number)))
                except AssayError as error:
                    rows.append({"id": number, "reason": str(error)})
            return self._render(
                "jobs.html",
                "Jobs",
                live="/" if page == 1 else None,
                look=look,
                rows=rows,
                page=page,
                last=last,
                count=count,
            )

        return self._chain.reading(make)

    def _row(self, look: Look, job: JobView) -> dict[str, Any]:
        matches = look.matches(job)
        return {
            "id": job.id,
            "job": job,
            "name": self._name(job),
            "phase": phase(job, look.now),
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
            cases = [look.case(job, match) for match in look.matches(job)]
            told = [(case, ladder(case, moments(case), parties.name)) for case in cases]
            money = flow(look, job, parties)
            strip = intervals(job, [one for _, one in told], parties)
            return self._render(
                "job.html",
                f"Job {number}",
                live=None if self._place.static else self._place.job(number),
                look=look,
                job=job,
                name=self._name(job),
                parties=parties,
                phase=phase(job, look.now),
                judges=judges(job),
                claims=claims_by_root(job),
                disputes=[self._summary(case, one, parties) for case, one in told],
                money=money,
                money_chart=drawing.money(money),
                strip=strip,
                strip_chart=drawing.intervals(strip),
                curve=self._curve(job),
                artifacts=artifacts(job),
                accepted=job.phase is JobPhase.ACCEPTED,
            )

        return self._chain.reading(make)

    def _curve(self, job: JobView) -> dict[str, Any]:
        """The numbers that trainers publish of their runs, as curves; each series by the server that reports it."""
        series, notes = [], []
        for claim_or_slot in job.servers():
            got = self._shelf.get(
                ("standing", job.id, claim_or_slot), partial(standing, job, claim_or_slot), fresh_s=5.0
            )
            if got.value is None or got.value.report is None:
                if got.value is not None:
                    notes.append(f"{text.said(claim_or_slot, 60)}: {text.said(got.value.reason, 120)}")
                continue
            names = {tuple(place): name for name, place in self.names(job).metrics.items()}
            report = got.value.report
            owner = next(claim.owner for claim in job.claims if claim.uri == claim_or_slot)
            for column, place in enumerate(report.nodes):
                points = [
                    (point.step, point.numbers[column])
                    for point in report.history
                    if column < len(point.numbers) and math.isfinite(point.numbers[column])
                ]
                what = names.get(tuple(place), f"node {place[0]}")
                if len(points) == 1:
                    notes.append(
                        f"{Parties(job).name(owner)}: {text.said(what, 40)} {points[0][1]:.6g} "
                        f"after step {points[0][0]}"
                    )
                if len(points) > 1:
                    series.append((f"{text.said(what, 40)}, {Parties(job).name(owner)}", points))
        return {"drawing": curve.draw(series[:4], job.program.steps) if series else None, "notes": notes}

    def result(self, number: int) -> Path:
        """Fetch an accepted result; return the path of a safetensors file with it. Raises NotThere or AssayError."""

        def make(look: Look) -> Path:
            job = look.job(number)
            if job.phase is not JobPhase.ACCEPTED:
                raise NotThere(f"job {number} has no accepted result")
            path = self._folder / f"job-{number}-{job.accepted_root.hex()[:16]}.safetensors"
            if not path.exists():
                program = self._program_now(job)
                names = self.names(job).slots or [f"slot.{k}" for k in range(len(program.slots))]
                save_result(fetch_result(self._fetcher, job, program), list(names), path, job)
            return path

        return self._chain.reading(make)
