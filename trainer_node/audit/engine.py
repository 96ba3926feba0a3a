"""Engines that check intervals: processes of this machine (`pool`), or a Ray cluster (`engine_ray`). Both report."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from referee_py.errors import InvalidEncoding

from .claimed import ClaimedRun
from .interval import Finding
from .pool import Task, findings
from .published import PublishedRun
from .receipt_kernels import kernel_digest

MAX_REPORT_BYTES = 1 << 14
MAX_TIME = 253_402_300_799
"""The last second of the year 9999, with which the calendars of most software end."""
_MAX_NUMBER, _MAX_WORDS = 1 << 48, 2000
_Finding = TypeAdapter(Finding)


class _How(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)

    claim: str = Field(pattern="^[0-9a-f]{64}$")
    device: Literal["cpu", "cuda"]
    kernels: str = Field(pattern="^[0-9a-f]{64}$")
    time: Annotated[int, Field(gt=0, le=MAX_TIME)]


@dataclass(frozen=True)
class IntervalReport:
    """A finding, the claim that it is about (`ClaimedRun.identity`), what computed it (`receipt_kernels`), and when
    (unix seconds)."""

    claim: str
    device: Literal["cpu", "cuda"]
    kernels: str
    time: int
    finding: Finding

    @classmethod
    def of(cls, run: ClaimedRun, device: str, finding: Finding) -> IntervalReport:
        """Return the report of what this machine has found now."""
        kernels = kernel_digest(run.terms.mode, device)
        return cls(run.identity, "cuda" if device == "cuda" else "cpu", kernels, int(time.time()), finding)

    def to_json(self) -> bytes:
        """Return one line of JSON without its end."""
        how = {name: value for name, value in vars(self).items() if name != "finding"}
        return json.dumps({**how, **self.finding.to_json()}).encode()

    @classmethod
    def read(cls, line: bytes, run: PublishedRun) -> IntervalReport:
        """Read a line about this run. Raises InvalidEncoding for any other bytes, however they are made."""
        if len(line) > MAX_REPORT_BYTES:
            raise InvalidEncoding(f"a report of {len(line)} bytes; the limit is {MAX_REPORT_BYTES}")
        try:
            how = _How.model_validate_json(line)
            finding = _Finding.validate_json(line, strict=True)
        except ValidationError as error:
            first = error.errors()[0]
            raise InvalidEncoding(f"no report: {'.'.join(map(str, first['loc']))}: {first['msg']}") from error
        if how.claim != run.identity or not 1 <= finding.interval <= run.count:
            raise InvalidEncoding("a report about another run")
        if (finding.start, finding.end) != run.span(finding.interval) or not _bounded(asdict(finding)):
            raise InvalidEncoding("a report with numbers or words out of range")
        return cls(how.claim, how.device, how.kernels, how.time, finding)


def reports(run: PublishedRun, task: Task, intervals: Sequence[int], jobs: int) -> Iterator[IntervalReport]:
    """Yield the reports of intervals, as they are ready, from ``jobs`` processes of this machine."""
    for finding in findings(replace(task, identity=run.identity), intervals, jobs):
        start, end = run.span(finding.interval)
        yield IntervalReport.of(run, task.device, replace(finding, start=start, end=end))


def _bounded(fields: dict[str, Any]) -> bool:
    for value in fields.values():
        if isinstance(value, str) and len(value) > _MAX_WORDS:
            return False
        if isinstance(value, int) and not 0 <= value < _MAX_NUMBER:
            return False
    return True
