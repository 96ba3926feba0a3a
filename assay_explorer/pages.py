"""What each page shows: one method makes a page from one look at the chain."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jinja2

from referee_py.errors import AssayError, InvalidInput
from referee_py.program.describe import Names
from referee_py.walk.sides import sides
from trainer_node.bundle import Bundle
from trainer_node.chain import JobPhase, JobView
from trainer_node.cli.arithmetic import mode_words
from trainer_node.fetch import Fetcher
from trainer_node.package import load_program
from trainer_node.result import fetch_result, save_result
from trainer_node.verifier import servers
from trainer_node.watched_job import standing

from . import curve, drawing, text
from .artifacts import Got, Shelf
from .chain import Case, Chain, Look
from .history import Moment, clocks, moments
from .intervals import Interval, intervals
from .ladder import CASES, SIDES, Ladder, ladder
from .money import flow
from .parties import Parties

PER_PAGE = 20
MAX_MOMENTS = 400
"""Transactions that a scrubber offers; a longer dispute is offered every second, third, ... one."""


class NotThere(Exception):
    """There is no such thing to show."""


@dataclass(frozen=True)
class Place:
    """Where a page is: it makes addresses of others. ``static``: the pages are files of one folder."""

    static: bool = False
    at: Mapping[int, str] | None = None
    """With ``static``: the files of a dispute's moments, by block."""

    def home(self) -> str:
        return "/" if not self.static else "index.html"

    def asset(self, name: str) -> str:
        return f"assets/{name}" if self.static else f"/static/{name}"

    def job(self, job: int) -> str:
        return "job.html" if self.static else f"/job/{job}"

    def dispute(self, job: int, match: int, at: int | None = None) -> str:
        if self.static:
            return "index.html" if at is None else f"at-{at}.html"
        return f"/job/{job}/dispute/{match:#066x}" + ("" if at is None else f"?at={at}")

    def part(self, job: int, match: int, page: str, **query: object) -> str:
        if self.static:
            return f"{page}.html"
        words = "&".join(f"{key}={value}" for key, value in query.items() if value is not None)
        return f"/job/{job}/dispute/{match:#066x}/{page}" + (f"?{words}" if words else "")


class Pages:
    """Makes pages. ``names``: labels of programs by the hash of their files. ``hosts``: names that this server is
    reached by; empty to allow any."""

    DIGEST = "@@digest@@"

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
        self._templates = jinja2.Environment(
            loader=jinja2.PackageLoader("assay_explorer"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters |= {
            "said": text.said,
            "link": text.link,
            "short": text.short,
            "whole": text.whole,
            "ether": text.ether,
            "ether_short": text.ether_short,
            "seconds": text.seconds,
            "moment": text.moment,
        }
        self._templates.globals |= {"plural": text.plural, "SIDES": SIDES, "mode_words": mode_words}

    def close(self) -> None:
        self._shelf.close()

    def _render(self, template: str, title: str, *, live: str | None = None, **content: Any) -> str:
        problem = self._chain.problem
        return self._templates.get_template(template).render(
            title=title, place=self._place, live=live, digest=self.DIGEST, problem=problem, **content
        )

    def failure(self, title: str, reason: str) -> str:
        """Return a page that says why there is no other."""
        return self._render("failure.html", title, reason=reason)

    # ------------------------------------------------------------------ jobs

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
                "jobs.html", "Jobs", live="/" if page == 1 else None, look=look, rows=rows, page=page, last=last, count=count
            )

        return str(self._chain.reading(make))

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

    def _name(self, job: JobView) -> str:
        bundle = self._bundles.get(job.program_file)
        return bundle.name if bundle is not None else ""

    def names(self, job: JobView) -> Names:
        """The labels of a job's program that this explorer knows."""
        bundle = self._bundles.get(job.program_file)
        return bundle.names if bundle is not None else Names()

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
                live=self._place.job(number),
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

        return str(self._chain.reading(make))

    def _curve(self, job: JobView) -> dict[str, Any]:
        """The numbers that trainers publish of their runs, as curves; each series by the server that tells it."""
        series, notes = [], []
        for claim_or_slot in dict.fromkeys(claim.uri for claim in job.claims if claim.uri):
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
                if points:
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

        found = self._chain.reading(make)
        assert isinstance(found, Path)
        return found

    # ------------------------------------------------------------------ programs

    def _program_now(self, job: JobView) -> Any:
        bundle = self._bundles.get(job.program_file)
        if bundle is not None:
            return bundle.program
        uris = [job.uri, *dict.fromkeys(claim.uri for claim in job.claims if claim.uri)]
        return load_program(self._fetcher, job.program, job.program_file, uris)

    def program(self, job: JobView) -> Got[Any]:
        """Return a job's program, if somebody serves it."""
        return self._shelf.get(("program", job.program_file), partial(self._program_now, job))

    # ------------------------------------------------------------------ disputes

    def case(self, look: Look, number: int, match: str) -> Case:
        """Return a match of a job by the beginning of its id. Raises NotThere."""
        job = look.job(number)
        for found in look.matches(job):
            if match == str(found) or (len(match) > 3 and f"{found:#066x}".startswith(match.lower())):
                return look.case(job, found)
        raise NotThere(f"job {number} has no match {text.said(match, 70)}")

    def dispute(self, number: int, match: str, at: int | None = None) -> str:
        """The ladder of one dispute, now or at a block."""

        def make(look: Look) -> str:
            case = self.case(look, number, match)
            parties = Parties(case.job)
            all_ = moments(case)
            shown = [one for one in all_ if at is None or one.sent.block <= at]
            if not shown:
                raise NotThere(f"the dispute began in block {all_[0].sent.block}, after block {at}")
            return self._dispute(look, case, parties, all_, shown, at)

        return str(self._chain.reading(make))

    def _dispute(
        self, look: Look, case: Case, parties: Parties, all_: list[Moment], shown: list[Moment], at: int | None
    ) -> str:
        found = ladder(case, shown, parties.name)
        last = ladder(case, all_, parties.name) if len(shown) < len(all_) else found
        ended = last.losers is not None and (case.hearing is None or case.hearing.over)
        clock = clocks(case, shown[-1], None if at is not None or ended else look.now)
        rungs = [
            {
                "rung": rung,
                "number": k,
                "strip": drawing.strip(
                    rung.strip,
                    funnel=rung.strip.found and k < len(found.rungs) and rung.kind in _FUNNELS,
                    ident=f"strip{k}",
                )
                if rung.strip is not None
                else None,
                "link": self._place.part(case.job.id, case.id, rung.page) if rung.page else None,
            }
            for k, rung in enumerate(found.rungs, 1)
        ]
        return self._render(
            "dispute.html",
            f"Dispute in job {case.job.id}",
            live=None if at is not None or self._place.static else self._place.dispute(case.job.id, case.id),
            look=look,
            case=case,
            job=case.job,
            parties=parties,
            ladder=found,
            summary=self._summary(case, found, parties),
            rungs=rungs,
            clock=clock,
            moments=_offered(all_),
            now=shown[-1],
            before=all_[len(shown) - 2] if len(shown) > 1 else None,
            after=_next(all_, shown[-1]),
            at=at,
            total=len(all_),
        )

    def _summary(self, case: Case, found: Ladder, parties: Parties) -> dict[str, Any]:
        """What a dispute is about and how it stands, in a few words."""
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
        from referee_py.program import Structure
        from referee_py.program.describe import value_of

        if found.found.values is None or case.hearing is None or found.found.output is None:
            return None
        structure = Structure.decode(case.hearing.terms.dispute.structure)
        dtype = structure.outputs[found.found.output].dtype
        first, second = found.found.values
        return value_of(first, dtype), value_of(second, dtype)

    def proof(self, number: int, match: str) -> str:
        raise NotThere("not yet")

    def operator(self, number: int, match: str, node: int | None, q: str, group: str) -> str:
        raise NotThere("not yet")

    def element(self, number: int, match: str) -> str:
        raise NotThere("not yet")


_FUNNELS = frozenset({"run", "interval", "step", "trial", "element"})


def _offered(all_: Sequence[Moment]) -> list[Moment]:
    """Return the moments that the scrubber offers: the last transaction of each block, thinned out if they are many."""
    last = {one.sent.block: one for one in all_}
    found = list(last.values())
    every = -(-len(found) // MAX_MOMENTS)
    return [one for k, one in enumerate(found) if k % every == 0 or k == len(found) - 1]


def _next(all_: Sequence[Moment], now: Moment) -> Moment | None:
    return next((one for one in all_ if one.sent.block > now.sent.block), None)


def phase(job: JobView, now: int) -> dict[str, Any]:
    """Return a job's phase: its name, seconds left, and their part of the phase."""
    spans = {
        JobPhase.TRAINING: (job.posted, job.commit_end),
        JobPhase.REVEAL: (job.commit_end, job.reveal_end),
        JobPhase.CHALLENGE: (job.reveal_end, job.challenge_end),
        JobPhase.CLOSING: (job.challenge_end, max(job.reclaim_end, job.challenge_end)),
    }
    begin, end = spans.get(job.phase, (0, 0))
    left, full = max(0, end - now), max(1, end - begin)
    return {
        "name": job.phase.name.lower(),
        "left": left,
        "full": full,
        "ended": job.phase.ended,
        "good": job.phase is JobPhase.ACCEPTED,
        "words": _PHASES[job.phase.name],
    }


_PHASES = {
    "NONE": "no job",
    "TRAINING": "trainers take slots, train, and commit to their results, sealed",
    "REVEAL": "trainers open their commitments",
    "CHALLENGE": "anybody may dispute a result, by staking on another one",
    "CLOSING": "open disputes are decided",
    "ACCEPTED": "a result is accepted, and paid for",
    "UNCLAIMED": "no claim is left: the client has its reward back",
    "VOID": "the trainer withheld its logs: the client has its reward back",
}


def judges(job: JobView) -> dict[str, Any]:
    """Return who judges a disputed operator, and whom the result depends on."""
    count, threshold = len(job.verifiers), job.rules.threshold
    if not job.rules.has_verifiers:
        who = "the court: a contract computes one step of one element"
        depends = "nobody: one honest party is enough"
    else:
        who = f"{threshold} of {text.plural(count, 'verifier')}; on appeal, the court"
        depends = "nobody, if one honest party can appeal in time; verifiers pay for false verdicts"
    return {"who": who, "depends": depends, "verifiers": count, "threshold": threshold}


def claims_by_root(job: JobView) -> list[dict[str, Any]]:
    """Return each claimed root with its claims: who, stake, whether it has lost."""
    found = []
    for group in job.groups:
        claims = [job.claims[member] for member in group.members]
        found.append(
            {
                "group": group,
                "claims": claims,
                "dead": group.dead,
                "accepted": group.refutes is None and group.root == job.accepted_root and any(group.root),
                "disputed": bool(group.match_id),
            }
        )
    return found


def artifacts(job: JobView) -> list[tuple[str, bytes, str]]:
    """Return what the chain commits to: what it is, its hash, and its address at the client's server, if it has one."""
    terms = job.program
    base = text.link(job.uri)
    found = [
        ("program file (SHA-256)", job.program_file, f"{base}/v1/blob/{job.program_file.hex()}" if base else ""),
        ("program hash", terms.hash(), ""),
        ("structure root", terms.structure_root, ""),
        ("slot root", terms.slot_root, ""),
        ("constant root", terms.constant_root, ""),
        ("initial root (C0)", terms.initial_root, ""),
    ]
    if any(job.logs):
        found.append(("root of the rounding logs", job.logs, ""))
    if any(job.accepted_root):
        found += [("accepted run root", job.accepted_root, ""), ("accepted last checkpoint", job.accepted_last, "")]
    return found


__all__ = ["NotThere", "Pages", "Place", "Interval", "servers", "sides", "InvalidInput"]
