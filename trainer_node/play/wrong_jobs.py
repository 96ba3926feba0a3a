"""Jobs in which something is wrong that we may stake against, now or later: what, and by which terms it was found.

It is on disk, as what concerns us is (`job_queue`): after a restart what a stake will rest on is kept from the first
moment on, and is used again though a look would say that it is too late to begin with the job. Each thing that is wrong
has a row of its own, since a job may hold hundreds of lies: one more costs one row.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

import structlog
from sqlalchemy import delete

from ..chain import JobView, Snapshot
from ..errors import DiskFailed
from ..run.refutation import Refuted
from ..storage.database import Database
from ..storage.tables import Progress
from .ends import Changes

T = TypeVar("T")
_log = structlog.get_logger(__name__)


class WrongJobs(Generic[T]):
    """``kind``: how the database calls what is wrong. It is of type T: ``write`` makes a list of JSON values of it, and
    ``read`` makes it of that.

    SAFETY: whoever serves could hide once what is wrong in a job, and what a refutation or a claim rests on would go to
    a stranger's job in the same round. The lie's author, or the client, need not serve it a second time."""

    def __init__(
        self, database: Database, kind: str, write: Callable[[T], list[Any]], read: Callable[[list[Any]], T]
    ) -> None:
        self._database, self._kind, self._write = database, kind, write
        self._changes = Changes("job.lie_not_confirmed")
        self._known: dict[int, tuple[str, T]] = {}
        """Digests of terms, and what is wrong."""
        self._saved: dict[int, list[Any]] = {}
        """Values that the rows of a job have."""
        self._unsaved = set[int]()
        for job in self._jobs():
            with self._told(job):
                digest, count = database.get(self._name(job))
                values = [database.get(self._name(job, at)) for at in range(count)]
                self._known[job] = str(digest), read(values)
                self._saved[job] = values

    def __contains__(self, job: int) -> bool:
        return job in self._known

    def __iter__(self) -> Iterator[int]:
        return iter(self._known)

    def by_number(self, job: int) -> T:
        """Return what is wrong in one of the jobs, by whatever terms."""
        return self._known[job][1]

    def of(self, job: JobView) -> T | None:
        """Return what is wrong in a job, if it was found by the terms that a look shows."""
        return self._known[job.id][1] if job.id in self._known and not self.differs(job) else None

    def differs(self, job: JobView) -> bool:
        """Return whether what is wrong in a job was found by other terms than a look shows."""
        return job.id in self._known and self._known[job.id][0] != _digest(job)

    def still(self, snapshot: Snapshot, job: JobView, wrong: T | None) -> bool:
        """Note what is wrong in a job, as known by this look. Return whether anything is: also as long as nobody
        confirms that nothing is any more."""
        if wrong is not None:
            row = _digest(job), wrong
            if self._known.get(job.id) != row or job.id in self._unsaved:
                self._known[job.id] = row
                self._save(job.id, row[0], self._write(wrong))
            return True
        if job.id in self._known:
            if not self._changes.believed(snapshot, job.id):
                return True
            self.forget(job.id)
        return False

    def forget(self, job: int) -> None:
        """Note that nothing in a job can be staked against any more."""
        if self._known.pop(job, None) is not None:
            self._save(job, "", [])

    # ------------------------------------------------------------------ inside

    @property
    def _index(self) -> str:
        return f"jobs with {self._kind}"

    def _name(self, job: int, at: int | None = None) -> str:
        return f"{self._kind} in job {job}" + (f", {at}" if at is not None else "")

    def _jobs(self) -> list[int]:
        with self._told(None):
            return [int(job) for job in self._database.get(self._index, [])]
        return []

    @contextlib.contextmanager
    def _told(self, job: int | None) -> Iterator[None]:
        """Continue without rows of another shape, as another version may have written: what they say is found again
        where it still counts, and what rests in other jobs is known."""
        try:
            yield
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            _log.warning(
                "job.wrong_unread", kind=self._kind, job=job, reason=f"{type(error).__name__}: {error}"
            )

    def _save(self, job: int, digest: str, values: list[Any]) -> None:
        # NOTE: what the disk refuses is tried again in the next look; a row that is not in the index is not read.
        before = self._saved.get(job, [])
        rows = {self._name(job, at): one for at, one in enumerate(values) if before[at : at + 1] != [one]}
        gone = [self._name(job, at) for at in range(len(values), len(before))]
        if job in self._known:
            rows[self._name(job)] = digest, len(values)
        else:
            gone.append(self._name(job))
        self._unsaved.add(job)
        with contextlib.suppress(DiskFailed):
            self._write_rows({**rows, self._index: sorted(self._known)}, gone)
            self._saved[job] = values
            self._unsaved.discard(job)
            if job not in self._known:
                del self._saved[job]

    def _write_rows(self, rows: Mapping[str, Any], gone: Sequence[str]) -> None:
        """SAFETY: in one transaction, or what a crash leaves would have the lies of two looks, and lack one of each."""
        with self._database.session() as session:
            for name, value in rows.items():
                session.merge(Progress(name=name, value=json.dumps(value)))
            session.execute(delete(Progress).where(Progress.name.in_(gone)))


def lies(database: Database) -> WrongJobs[tuple[Refuted, ...]]:
    """Return the jobs in which intervals are wrong."""
    return WrongJobs(
        database,
        "lies",
        lambda found: [lie.words() for lie in found],
        lambda rows: tuple(Refuted.of_words(row) for row in rows),
    )


def results(database: Database) -> WrongJobs[bytes]:
    """Return the jobs in which something differs from the root of our whole run."""
    return WrongJobs(
        database, "another result", lambda root: [root.hex()], lambda rows: bytes.fromhex(rows[0])
    )


def _digest(job: JobView) -> str:
    return hashlib.sha256(repr(job.terms).encode()).hexdigest()
