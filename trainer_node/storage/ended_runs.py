"""Runs by the jobs that they were computed for, so that their rows go with the last of them.

A stranger's job may have a million checkpoints, and a row for each stays longer than the state (`database`): others of
the same program continue from it. SAFETY: without an end, posted jobs would fill the disk with what no quota counts.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from sqlalchemy import ColumnElement, delete, select
from sqlalchemy.orm import Session

from .database import Database
from .tables import Checkpoint, Progress, WrittenLog

AT_ONCE = 500
"""Jobs in one statement: SQLite takes 32,766 values, and a node that was off may have more jobs that are over."""
_RUN = "run of job "
"""Name in `Progress` of the run of a job, before the job's number."""


def note_run(database: Database, job: int, run: int) -> None:
    """Note that a job rests on a run, before its first checkpoint is written. Raises DiskFailed."""
    database.put(f"{_RUN}{job}", str(run))


def forget_runs(database: Database, jobs: Sequence[int]) -> None:
    """Remove the rows of the runs of jobs that have let go of all that they held, but of those on which another job
    rests, too. Raises DiskFailed."""
    for at in range(0, len(jobs), AT_ONCE):
        _forget_runs(database, jobs[at : at + AT_ONCE])


def _forget_runs(database: Database, jobs: Sequence[int]) -> None:
    with database.session() as session:
        gone = _runs(session, Progress.name.in_([f"{_RUN}{job}" for job in jobs]))
        # NOTE: from the first row that is written, nobody else notes a run meanwhile.
        session.execute(delete(Progress).where(Progress.name.in_(gone)))
        unused = set(gone.values()) - set(_runs(session, Progress.name.startswith(_RUN)).values())
        for run in unused:
            for table in (Checkpoint, WrittenLog):
                session.execute(delete(table).where(table.job == run))
    for run in unused:
        database.drop_states(run)  # what is known of them in memory


def _runs(session: Session, which: ColumnElement[bool]) -> dict[str, int]:
    rows = session.execute(select(Progress.name, Progress.value).where(which))
    return {name: int(json.loads(value)) for name, value in rows}
