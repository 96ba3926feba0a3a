"""What each page shows: one method makes a page from one look at the chain."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from referee_py.commit import Record
from referee_py.errors import AssayError, InvalidInput, Unavailable
from referee_py.program import Program, Structure
from referee_py.program.describe import Names, value_of
from referee_py.walk.reason import Reason
from trainer_node.bundle import Bundle
from trainer_node.chain import JobPhase, JobView, recorded
from trainer_node.fetch import Fetcher
from trainer_node.package import load_program
from trainer_node.result import fetch_result, save_result
from trainer_node.watched_job import standing

from . import curve, drawing, text
from .artifacts import Got, Shelf
from .chain import Case, Chain, Look
from .element import Question, Shown, shown
from .history import Moment, clocks, moments
from .intervals import intervals
from .ladder import CASES, SIDES, Ladder, ladder
from .money import flow
from .operator import Graph
from .parties import Parties
from .rendering import NotThere, Place, render

PER_PAGE = 20
MAX_SERVERS = 8
MAX_MOMENTS = 400
"""Transactions that a scrubber offers; a longer dispute is offered every second, third, ... one."""


class Pages:
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

    # ------------------------------------------------------------------ programs

    def _program_now(self, job: JobView) -> Program:
        bundle = self._bundles.get(job.program_file)
        if bundle is not None:
            return bundle.program
        uris = [job.uri, *dict.fromkeys(claim.uri for claim in job.claims if claim.uri)]
        return load_program(self._fetcher, job.program, job.program_file, uris)

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
            so_far = [one for one in all_ if at is None or one.sent.block <= at]
            if not so_far:
                raise NotThere(f"the dispute began in block {all_[0].sent.block}, after block {at}")
            return self._dispute(look, case, parties, all_, so_far, at)

        return self._chain.reading(make)

    def _dispute(
        self,
        look: Look,
        case: Case,
        parties: Parties,
        all_: list[Moment],
        so_far: list[Moment],
        at: int | None,
    ) -> str:
        found = ladder(case, so_far, parties.name)
        last = ladder(case, all_, parties.name) if len(so_far) < len(all_) else found
        ended = last.losers is not None and (case.hearing is None or case.hearing.over)
        clock = clocks(case, so_far[-1], None if at is not None or ended else look.now)
        rungs = [
            {
                "rung": rung,
                "number": k,
                "strip": drawing.strip(rung.strip, f"strip{k}") if rung.strip is not None else None,
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
            overview=drawing.overview(found),
            clock=clock,
            moments=_offered(all_),
            now=so_far[-1],
            before=all_[len(so_far) - 2] if len(so_far) > 1 else None,
            after=_next(all_, so_far[-1]),
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
        if found.found.values is None or case.hearing is None or found.found.output is None:
            return None
        structure = Structure.decode(case.hearing.terms.dispute.structure)
        dtype = structure.outputs[found.found.output].dtype
        first, second = found.found.values
        return value_of(first, dtype), value_of(second, dtype)

    def proof(self, number: int, match: str) -> str:
        """What a dispute proves, what it assumes, and the commands that check it again."""

        def make(look: Look) -> str:
            case = self.case(look, number, match)
            parties = Parties(case.job)
            found = ladder(case, moments(case), parties.name)
            return self._render(
                "proof.html",
                f"Proof of a dispute in job {number}",
                live=None if self._place.static else self._place.part(number, case.id, "proof"),
                look=look,
                case=case,
                job=case.job,
                summary=self._summary(case, found, parties),
                ladder=found,
                same=self._same(case),
                said=statements(case, found),
                deployment=look.client.deployment,
            )

        return self._chain.reading(make)

    @staticmethod
    def _same(case: Case) -> bool | None:
        """Return whether the rules in Python, given the same moves, decide as the contracts did; None: not known."""
        last = moments(case)[-1].trace
        if last is None:
            return None
        return bool(last == recorded(case.look.snapshot, case.job, case.id))

    def first_match(self, number: int) -> str:
        """Return the id of a job's first match. Raises NotThere if it has none."""

        def make(look: Look) -> str:
            found = look.matches(look.job(number))
            if not found:
                raise NotThere(f"job {number} has no dispute")
            return f"{found[0]:#066x}"

        return self._chain.reading(make)

    def check(self, number: int, match: str) -> list[tuple[str, bool | None]]:
        """Return statements about a dispute, and whether each holds; None if that cannot be found out."""

        def make(look: Look) -> list[tuple[str, bool | None]]:
            case = self.case(look, number, match)
            found = ladder(case, moments(case), Parties(case.job).name)
            said: list[tuple[str, bool | None]] = [
                ("the rules in Python, given the same moves, decide as the contracts did", self._same(case))
            ]
            question = (
                None if found.losers is None else self._question(case, found, self._program_now(case.job))
            )
            losers = found.losers or ()
            if question is None or found.reason is not Reason.OPERATOR:
                return said
            try:
                one = shown(question, self._fetcher, _servers(case), self._memory)
            except (Unavailable, InvalidInput) as error:
                return [*said, (f"the operator cannot be computed: {error}", None)]
            for side in (0, 1):
                right = None if one.right is None else one.right.bits == one.values[side].bits
                word = "lost" if side in losers else "won"
                holds = None if right is None else right is not (side in losers)
                is_right = "not known" if right is None else "right" if right else "wrong"
                said.append(
                    (
                        f"side {SIDES[side]} {word}; its element {one.element} is {is_right}: {one.values[side].hex}",
                        holds,
                    )
                )
            return said

        return self._chain.reading(make)

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

    def blocks(self, number: int, match: str) -> list[int]:
        """Return the blocks of a dispute's moments."""

        def make(look: Look) -> list[int]:
            return [one.sent.block for one in _offered(moments(self.case(look, number, match)))]

        return self._chain.reading(make)

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
            likely = sorted(job.claims, key=lambda claim: claim.lost)
            base = next((uri for uri in map(text.link, (claim.uri for claim in likely)) if uri), None)
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
        uris = _servers(case)
        if at.node is None or records is None:
            return Got(
                reason="the dispute has not come down to one operator, or both records of it are not shown"
            )
        graph = self.graph(job)
        if graph.value is None:
            return Got(reason=graph.reason)
        question = self._question(case, found, graph.value.program)
        assert question is not None
        key = ("element", case.id, records[0].hash(), records[1].hash(), at.element, question.judged)
        make = partial(shown, question, self._fetcher, uris, self._memory)
        return self._shelf.get(key, make)

    @staticmethod
    def _question(case: Case, found: Ladder, program: Program) -> Question | None:
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


def _servers(case: Case) -> list[str]:
    """Return the servers that may have the data: the client's, both spokesmen's, then the other claimants'."""
    players = [player.lower() for player in case.match.terms.players]
    claims = sorted(case.job.claims, key=lambda claim: claim.owner.lower() not in players)
    return list(dict.fromkeys([case.job.uri, *(claim.uri for claim in claims if claim.uri)]))[:MAX_SERVERS]


def statements(case: Case, found: Ladder) -> dict[str, list[str]]:
    """Return what a dispute proves, and what that assumes, by how it was decided."""
    reason = found.reason
    by_court = bool(case.trials) and reason is Reason.OPERATOR
    proves = ["The two run roots differ, and both sides have staked on theirs."]
    if found.found.step is not None:
        proves.append(
            f"Step {found.found.step} is the first step that differs: both sides commit to the same checkpoint before "
            "it, by paths under their own roots that the referee has checked."
        )
    if found.found.node is not None:
        proves.append(
            f"Operator {found.found.node} is the first one whose records differ; all operators before it have the same "
            "records on both sides."
        )
    assumes = [
        "SHA-256 and Keccak-256 have no collisions.",
        "The chain orders transactions, and lets both sides send theirs within their clocks.",
    ]
    if reason is None:
        proves.append("Nobody is shown wrong yet.")
    elif reason is Reason.TIMEOUT:
        proves.append("The loser did not move in time. That proves nothing about its numbers.")
    elif reason is Reason.OPERATOR and by_court:
        proves.append(
            "The contract computed one step of one element with its own floating point, from operands that are proven "
            "to be the operator's agreed inputs. The loser's number does not follow from them."
        )
        assumes.append(
            "The contracts' arithmetic is that of the operator's specification, which tests compare bit by bit."
        )
    elif reason is Reason.OPERATOR:
        proves.append(
            "Enough of the job's verifiers have signed the winner's record, and nobody appealed in time."
        )
        assumes.append(
            "The verifiers computed what they signed. Their bonds were at stake, and either side could have had the "
            "court judge instead."
        )
    else:
        proves.append(f"By hashes alone: {CASES[reason][1]}.")
    assumes.append(
        "Who accepts the job's result relies on one honest party having taken part. A dispute says who was wrong here; "
        "it does not say that the other side's whole run is right."
    )
    return {"proves": proves, "assumes": assumes}


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
        (
            "program file (SHA-256)",
            job.program_file,
            f"{base}/v1/blob/{job.program_file.hex()}" if base else "",
        ),
        ("program hash", terms.hash(), ""),
        ("structure root", terms.structure_root, ""),
        ("slot root", terms.slot_root, ""),
        ("constant root", terms.constant_root, ""),
        ("initial root (C0)", terms.initial_root, ""),
    ]
    if any(job.logs):
        found.append(("root of the rounding logs", job.logs, ""))
    if any(job.accepted_root):
        found += [
            ("accepted run root", job.accepted_root, ""),
            ("accepted last checkpoint", job.accepted_last, ""),
        ]
    return found
