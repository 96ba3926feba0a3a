"""A job's progress as its client sees it: the phase from the chain, the rest from the trainers' own servers.

SAFETY: a trainer may report anything about its run, so reports are only shown. An answer is bounded in bytes and time,
its schema is checked, and it must be about this job and this program.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import httpx
from pydantic import ValidationError

from referee_py.errors import InvalidInput, Unavailable
from referee_py.program import SlotSource

from ..chain import JobView, Snapshot
from ..network.uri import check_uri
from ..observe.run_reports import MAX_REPORT_BYTES, RunReport

TIMEOUT_S = 5.0
"""Longest wait for the next bytes of a report; the whole of it may take twice as long."""
MAX_LEFT_S = 1e11
"""3,000 years. A rate that gives more says nothing, and infinity is not a number of JSON."""


MAX_SERVERS = 16
"""Trainers that are asked: as many as a job has slots."""
MAX_EARLIER_JOBS = 32
"""Jobs before this one that are searched for the address of a trainer that has not claimed yet."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Report of one server about a run, or the reason why it gives none."""

    uri: str
    report: RunReport | None
    reason: str = ""

    @property
    def left_s(self) -> float | None:
        """Seconds to the end of the run at the trainer's rate; None if that is not known, or no time to speak of."""
        if self.report is None or not self.report.rate:
            return None
        left = (self.report.steps - self.report.step) / self.report.rate
        return left if left < MAX_LEFT_S else None

    def numbers(self, names: Mapping[SlotSource, str]) -> dict[str, float]:
        """Return the numbers of the last step. Those without a name are called after the node that gives them."""
        if self.report is None or not self.report.history:
            return {}
        sources = [SlotSource(*place) for place in self.report.nodes]
        labels = [names.get(source, f"node {source.node}.{source.output}") for source in sources]
        return dict(zip(labels, self.report.history[-1].numbers, strict=False))


def servers(job: JobView, given: Iterable[str]) -> list[str]:
    """Return the addresses of those who may compute the job: those given, then those of claims of slot holders."""
    claimed = job.servers(claim for claim in job.claims if claim.slot)
    return list(dict.fromkeys([*given, *claimed]))[:MAX_SERVERS]


class Earlier:
    """Addresses that trainers of a job have named in their claims of earlier jobs: their claims here come last.

    NOTE: a trainer may serve this job elsewhere. A report is shown only if it is about this job and program.
    """

    def __init__(self) -> None:
        self._found: dict[str, str] = {}

    def of(self, snapshot: Snapshot, job: JobView) -> list[str]:
        """Return the newest address of each trainer that has not claimed yet; those that have named none have none."""
        claimed = {claim.owner for claim in job.claims}
        silent = [trainer.owner for trainer in job.trainers if trainer.owner not in claimed]
        wanted = {owner for owner in silent if owner not in self._found}
        self._found |= dict.fromkeys(wanted, "")
        for number in range(job.id - 1, max(job.id - 1 - MAX_EARLIER_JOBS, 0), -1):
            if not wanted:
                break
            for claim in snapshot.job(number).claims:
                if claim.owner in wanted and claim.uri:
                    self._found[claim.owner] = claim.uri
                    wanted.discard(claim.owner)
        return [self._found[owner] for owner in silent if self._found[owner]]

    def owner(self, uri: str) -> str | None:
        """Return the trainer whose address was found to be this one."""
        return next((owner for owner, known in self._found.items() if known == uri), None)


def standing(job: JobView, uri: str) -> Standing:
    """Ask a server how its run of a job stands."""
    try:
        return Standing(uri, _report(job, check_uri(uri)))
    except (Unavailable, InvalidInput) as error:
        return Standing(uri, None, str(error))


def _report(job: JobView, uri: str) -> RunReport:
    """Return a report that can be about this job. Raises Unavailable."""
    try:
        report = RunReport.model_validate_json(_download(f"{uri}/v1/progress/{job.id}"))
    except ValidationError as error:
        raise Unavailable(f"its report has {error.error_count()} errors in it") from error
    terms = job.program
    if (report.job, report.program, report.steps) != (job.id, terms.hash().hex(), terms.steps):
        raise Unavailable("its report is about another run")
    if max(report.step, report.kept, *(point.step for point in report.history)) > terms.steps:
        raise Unavailable(f"its report is about more than the {terms.steps} steps of the program")
    return report


def _download(url: str) -> bytes:
    """Return at most `MAX_REPORT_BYTES` of an answer. Raises Unavailable.

    SAFETY: one deadline bounds all of it, headers and interim answers too, however its bytes are dripped.
    """
    try:
        return asyncio.run(asyncio.wait_for(_answer(url), 2 * TIMEOUT_S))
    except TimeoutError:
        raise Unavailable(f"its report took longer than {2 * TIMEOUT_S:.0f} s") from None
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
        raise Unavailable(f"{type(error).__name__} {error}".strip()) from error


async def _answer(url: str) -> bytes:
    found = b""
    async with (
        httpx.AsyncClient(timeout=TIMEOUT_S, follow_redirects=False, trust_env=False) as client,
        client.stream("GET", url, headers={"Accept-Encoding": "identity"}) as response,
    ):
        if response.status_code == 404:
            raise Unavailable("no run is known there yet")
        if response.status_code != 200:
            raise Unavailable(f"the server answers {response.status_code}")
        async for chunk in response.aiter_raw():
            found += chunk
            if len(found) > MAX_REPORT_BYTES:
                raise Unavailable(f"its report is larger than {MAX_REPORT_BYTES} bytes")
    return found
