"""Roots from sources that the operator of the monitor trusts: given by hand, from a run, from a challenger.

    --trust 7=8a3f...            the run root of job 7, from anywhere
    --trust 7=run                a folder of `assay program run ... --out run`, of the same program
    --findings challenger.log    `claim.valid` and `claim.invalid` of a challenger that logs with --log-format json

NOTE: all this is the operator's own. Nothing of it comes from the chain, or from a party of the job.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError
from pydantic_core import from_json

from referee_py.errors import InvalidInput

from ..chain import JobView
from ..local.claim_file import CLAIM, MAX_CLAIM_BYTES, Claim

MAX_LINE = 1 << 16
MAX_READ = 16 << 20
"""Bytes of a log that one round reads; the rest follows in later rounds."""


@dataclass
class Trusted:
    """By job: the roots that were computed. Two different ones for a job cancel each other (`of`)."""

    roots: dict[int, set[bytes]] = field(default_factory=dict)
    runs: dict[int, tuple[bytes, bytes]] = field(default_factory=dict)
    """By job: program hash and rounding logs' root of the run that gave the root, if it came from a folder."""
    findings: list[Findings] = field(default_factory=list)

    @classmethod
    def of_flags(cls, given: Iterable[str], logs: Iterable[Path]) -> Trusted:
        """Read the flags. Raises InvalidInput."""
        trusted = cls(findings=[Findings(path) for path in logs])
        for text in given:
            number, equals, what = text.partition("=")
            if not (equals and number.isascii() and number.isdigit() and int(number)):
                raise InvalidInput(f"--trust {text[:80]!r} is not JOB=ROOT or JOB=FOLDER, as 7=run")
            trusted._add(int(number), what)
        return trusted

    def _add(self, job: int, what: str) -> None:
        folder = Path(what)
        if folder.is_dir():
            claim = _claim(folder / CLAIM)
            self.roots.setdefault(job, set()).add(bytes.fromhex(claim.root))
            self.runs[job] = bytes.fromhex(claim.program_hash), bytes.fromhex(claim.logs)
            return
        try:
            root = bytes.fromhex(what.removeprefix("0x"))
        except ValueError:
            root = b""
        if len(root) != 32:
            raise InvalidInput(f"{what[:80]!r} is neither a folder of a run nor a root of 64 hex digits")
        self.roots.setdefault(job, set()).add(root)

    def refresh(self) -> None:
        """Read what the challengers' logs have gained. Raises OSError."""
        for findings in self.findings:
            for job, root in findings.new():
                self.roots.setdefault(job, set()).add(root)

    def of(self, job: JobView) -> bytes | None:
        """Return the root to compare a job's claims with; None if there is none, or the sources disagree.

        Raises InvalidInput if the run that gave the root is of another program.
        """
        found = self.roots.get(job.id, set())
        if len(found) != 1:
            return None
        program, logs = self.runs.get(job.id, (None, job.logs))
        if program is not None and program != job.program.hash():
            raise InvalidInput(
                f"the run that --trust names for job {job.id} is of program {program.hex()}, the job's is "
                f"{job.program.hash().hex()}; name the job's run"
            )
        # NOTE: in a mode with logs a run with logs of its own has another root, and both may be right.
        if job.program.arithmetic.follows_logs and logs != job.logs:
            return None
        return next(iter(found))

    def disagree(self, job: int) -> bool:
        """Return whether the sources give different roots for a job."""
        return len(self.roots.get(job, ())) > 1


def _claim(path: Path) -> Claim:
    try:
        with path.open("rb") as file:
            return Claim.model_validate_json(file.read(MAX_CLAIM_BYTES + 1))
    except FileNotFoundError:
        raise InvalidInput(
            f"{path} is missing: no whole run is in this folder; let it run to its end"
        ) from None
    except ValidationError as error:
        raise InvalidInput(f"{path} is not a claim of a run: {error.error_count()} errors in it") from error


@dataclass
class Findings:
    """A challenger's log in JSON, read as it grows. A log that was cut or replaced is read from its beginning."""

    path: Path
    _at: int = 0
    _file: tuple[int, int] = (0, 0)

    def new(self) -> Iterator[tuple[int, bytes]]:
        """Yield job and computed root of each finding since the last call. Other lines are passed over."""
        with self.path.open("rb") as file:
            about = os.fstat(file.fileno())
            if (about.st_dev, about.st_ino) != self._file or about.st_size < self._at:
                self._file, self._at = (about.st_dev, about.st_ino), 0
            file.seek(self._at)
            data = file.read(MAX_READ)
        end = data.rfind(b"\n") + 1
        if not end and len(data) > MAX_LINE:
            end = len(data)  # a line that no logger of ours writes
        self._at += end
        for line in data[:end].splitlines():
            if len(line) <= MAX_LINE and b'"claim.' in line:
                yield from _finding(line)


def _finding(line: bytes) -> Iterator[tuple[int, bytes]]:
    try:
        row = from_json(line)
        if row["event"] in ("claim.valid", "claim.invalid"):
            job, root = row["job"], bytes.fromhex(row["own"])
            if type(job) is int and job > 0 and len(root) == 32:
                yield job, root
    except (ValueError, KeyError, TypeError):
        return
