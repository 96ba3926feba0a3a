"""The persistent state of a node, in one SQLite file.

    transactions    the outbox: every transaction, its nonce, how it ended and the gas it used
    attempts        each signed version of a transaction: the first, and its replacements with higher fees
    jobs            jobs that the node has seen, and its decision about them
    undone          per job: matches of ours that are not known to be done, with their hearings (`play.open_duties`)
    checkpoints     per job and step: the checkpoint and the state's tensor hashes (the tensors are in the store)
    logs            per job and step: the root of the rounding logs that the node wrote (they are in the store)
    kept_events     per query: logs of the chain, and the block that they were read through
    progress        small facts by name, as JSON

A state that is no longer kept leaves its row, with the checkpoint and without hashes.

NOTE: the chain always prevails over this file. Losing the file costs work, and money only where an endpoint then hides
events: the outbox is checked against the chain's nonces, matches are found by their events, the rest is computed again.
Integers of the chain are text, since SQLite's end at 2^63.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import structlog
from sqlalchemy import Integer, cast, create_engine, delete, event, func, select
from sqlalchemy.engine import Engine
from sqlalchemy.exc import OperationalError, SQLAlchemyError
from sqlalchemy.orm import Session, sessionmaker
from sqlalchemy.pool import StaticPool

from referee_py.errors import HashMismatch

from ..errors import ConfigError, DiskFailed, DiskFull, SchemaMismatch
from .disk import disk_errors
from .tables import (
    WANTED_UNTIL,
    Attempt,
    Base,
    Checkpoint,
    KeptEvents,
    KnownJob,
    Meta,
    Progress,
    Transaction,
    UndoneMatch,
    WrittenLog,
)

SCHEMA_VERSION = 2
HASH_BYTES = 32
KEPT_DAYS = 90
"""Days for which the outbox keeps transactions that are no longer open."""
_WAL_BYTES = 1 << 20
"""Maximum size of the write-ahead log between two transactions."""
_FREE_PART = 4
"""A file of which more than this part is free pages is written again."""
_REFUSALS = ("disk is full", "disk i/o error", "readonly", "unable to open")

_log = structlog.get_logger(__name__)


class Database:
    """The database file. Each method is a short transaction; safe for several threads of one process."""

    def __init__(self, path: Path | None) -> None:
        """Open or create the file; None is a database in memory. Raises SchemaMismatch, or ConfigError if the disk
        refuses it."""
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self.on_full: Callable[[], object] = lambda: None
        """Called when the disk is full, to give the next transaction room."""
        self._states = threading.RLock()
        """Held while states are written: what is known of the last ones is that of the file."""
        self._last_states: dict[int, int] = {}
        self._kept_states: dict[int, int] = {}
        self._engine = _engine(path)
        self._sessions = sessionmaker(self._engine, expire_on_commit=False)
        try:
            Base.metadata.create_all(self._engine)
        except OperationalError as error:
            raise ConfigError(
                f"cannot write to {path}: {error.orig}; make room, or use another folder"
            ) from error
        except SQLAlchemyError as error:
            raise SchemaMismatch(f"{path} is not a database of Assay: {error.__cause__ or error}") from error
        self._pin(
            "schema", str(SCHEMA_VERSION), "use the Assay version that wrote it, or another data directory"
        )

    def bind(self, deployment: str) -> None:
        """Pin the file to one deployment (chain, genesis, contracts). Raises SchemaMismatch for any other."""
        self._pin("deployment", deployment, "use another data directory for another deployment")

    @property
    def deployment(self) -> str | None:
        """The deployment that the file is pinned to; None before `bind`."""
        with self.session() as session:
            row = session.get(Meta, "deployment")
            return None if row is None else row.value

    @contextlib.contextmanager
    def session(self) -> Iterator[Session]:
        """Open a transaction: committed at the end, rolled back on an error. Raises DiskFull and DiskFailed."""
        try:
            with self._sessions.begin() as session:
                yield session
        except OperationalError as error:
            told = str(error.orig).lower()
            if not any(words in told for words in _REFUSALS):
                raise
            if "full" not in told:
                raise DiskFailed(f"{self.path} cannot be written: {error.orig}; check its disk") from error
            self.on_full()
            raise DiskFull(f"no space left on the disk of {self.path}: make room") from error

    def close(self) -> None:
        """Close the file."""
        self._engine.dispose()

    # ------------------------------------------------------------------ upkeep

    @property
    def size(self) -> int:
        """Bytes of the file, with its write-ahead log; zero in memory."""
        if self.path is None:
            return 0
        files = [self.path.with_name(self.path.name + end) for end in ("", "-wal", "-shm")]
        return sum(file.stat().st_size for file in files if file.exists())

    def fold(self, *, vacuum: bool = True) -> None:
        """Write the log into the file and empty it, drop what nobody needs, and give free pages back to the disk. Other
        threads may work meanwhile. What the disk refuses is left for the next time."""
        with contextlib.suppress(DiskFailed):
            if vacuum:
                self._drop_old()
                if self._free_part() > 1 / _FREE_PART:
                    self._execute("VACUUM")
            self._execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def check(self) -> list[str]:
        """Return what SQLite reports as wrong with the file; empty if nothing is."""
        with self._engine.connect() as connection:
            found = [str(row[0]) for row in connection.exec_driver_sql("PRAGMA integrity_check(20)")]
        return [] if found == ["ok"] else found

    def copy_to(self, path: Path) -> None:
        """Write a consistent copy to a new file, whatever other threads and processes do meanwhile: it is on disk when
        this returns. Raises DiskFailed."""
        with disk_errors(path):
            source = sqlite3.connect(f"file:{self.path}?mode=ro", uri=True)
            target = sqlite3.connect(path)
            try:
                source.backup(target)
            except sqlite3.Error as error:
                raise DiskFailed(
                    f"{path} cannot be written: {error}; make room, or name another place"
                ) from error
            finally:
                target.close()
                source.close()
            with path.open("rb") as file:
                os.fsync(file.fileno())

    def _drop_old(self) -> None:
        """Drop the outbox's closed transactions of long ago. INVARIANT: open ones stay."""
        before = (datetime.now(UTC) - timedelta(days=KEPT_DAYS)).isoformat(timespec="milliseconds")
        old = select(Transaction.id).where(Transaction.status != "open", Transaction.created < before)
        tried = Attempt.transaction_id.in_(old)
        named = select(func.printf(WANTED_UNTIL, func.lower(func.hex(Attempt.hash)))).where(tried)
        with self.session() as session:
            session.execute(delete(Progress).where(Progress.name.in_(named)))
            session.execute(delete(Attempt).where(tried))
            session.execute(delete(Transaction).where(Transaction.id.in_(old)))

    def _free_part(self) -> float:
        with self._engine.connect() as connection:
            free, all_ = (
                connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()
                for name in ("freelist_count", "page_count")
            )
        return float(free) / max(int(all_), 1)

    def _execute(self, statement: str) -> None:
        with self._engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            try:
                connection.exec_driver_sql(statement).close()
            except OperationalError as error:
                _log.warning("database.not_folded", statement=statement, reason=str(error.orig))

    # ------------------------------------------------------------------ jobs

    def put_job(self, job: int, status: str) -> None:
        """Store the node's status for a job."""
        with self.session() as session:
            session.merge(KnownJob(job=job, status=status))

    def jobs(self, status: str | None = None) -> list[int]:
        """Return known jobs in ascending order, optionally of one status only."""
        with self.session() as session:
            query = select(KnownJob) if status is None else select(KnownJob).where(KnownJob.status == status)
            return sorted(known.job for known in session.scalars(query))

    # ------------------------------------------------------------------ matches

    def put_undone(self, job: int, match: int, heard: bool, absent: int | None) -> None:
        """Store that a match of a job is not known to be done. ``heard``, ``absent``: see `undone.Open`."""
        with self.session() as session:
            session.merge(UndoneMatch(job=job, match=match, heard=heard, absent=absent))

    def undone(self) -> list[tuple[int, int, bool, int | None]]:
        """Return ``(job, match, heard, absent)`` of each match that is not known to be done."""
        with self.session() as session:
            rows = session.scalars(select(UndoneMatch))
            return sorted((row.job, row.match, row.heard, row.absent) for row in rows)

    def drop_undone(self, job: int, match: int) -> None:
        """Let go of a match that is done."""
        with self.session() as session:
            one = UndoneMatch.job == job, UndoneMatch.match == match
            session.execute(delete(UndoneMatch).where(*one))

    # ------------------------------------------------------------------ checkpoints

    def put_checkpoint(self, job: int, step: int, checkpoint: bytes | None, state: list[bytes]) -> None:
        """Store the state after a step: ``C_step`` (None if not computed) and a tensor hash for each slot."""
        row = Checkpoint(job=job, step=step, checkpoint=checkpoint, state=b"".join(state))
        with self._states:
            with self.session() as session:
                before = session.get(Checkpoint, (job, step))
                known = before is not None and before.checkpoint is not None and before.state != b""
                session.merge(row)
            if state and job in self._last_states:
                self._last_states[job] = max(step, self._last_states[job])
            if job in self._kept_states:
                self._kept_states[job] += (checkpoint is not None and bool(state)) - known

    def checkpoints(self, job: int) -> dict[int, tuple[bytes | None, int]]:
        """Return every checkpoint of a job by its step, ascending: ``(C_step or None, number of tensor hashes)``."""
        columns = select(Checkpoint.step, Checkpoint.checkpoint, func.length(Checkpoint.state))
        with self.session() as session:
            rows = session.execute(columns.where(Checkpoint.job == job))
            return dict(sorted((step, (root, size // HASH_BYTES)) for step, root, size in rows))

    def state(self, job: int, step: int) -> list[bytes]:
        """Return the tensor hashes of the state after a step; none if it is not kept."""
        with self.session() as session:
            state = row.state if (row := session.get(Checkpoint, (job, step))) is not None else b""
        return [state[i : i + HASH_BYTES] for i in range(0, len(state), HASH_BYTES)]

    def last_state(self, job: int) -> int:
        """Return the last step after which a run's state is kept; 0 if there is none.

        NOTE: the loop asks this of each job that it considers, and a run may have a million checkpoints. So the answer
        is kept: no other process writes to the file.
        """
        with self._states:
            if job not in self._last_states:
                last = func.max(cast(Checkpoint.step, Integer))
                kept = select(last).where(Checkpoint.job == job, Checkpoint.state != b"")
                with self.session() as session:
                    self._last_states[job] = session.scalar(kept) or 0
            return self._last_states[job]

    def kept_states(self, job: int) -> int:
        """Return the number of a run's checkpoints whose states are kept. NOTE: kept in memory, as `last_state`."""
        with self._states:
            if job not in self._kept_states:
                kept = select(func.count()).where(
                    Checkpoint.job == job, Checkpoint.checkpoint.is_not(None), Checkpoint.state != b""
                )
                with self.session() as session:
                    self._kept_states[job] = session.scalar(kept) or 0
            return self._kept_states[job]

    def drop_states(self, job: int, but: Collection[int] = ()) -> None:
        """Let go of a run's states, but for those after some steps. The checkpoints ``C_step`` stay."""
        with self._states:
            self._last_states.pop(job, None)
            self._kept_states.pop(job, None)
            left = 0
            with self.session() as session:
                kept = select(Checkpoint).where(Checkpoint.job == job, Checkpoint.state != b"")
                for row in session.scalars(kept):
                    if row.step not in but:
                        row.state = b""
                    elif row.checkpoint is not None:
                        left += 1
            self._kept_states[job] = left

    def runs(self) -> list[int]:
        """Return the runs that have checkpoints."""
        with self.session() as session:
            return sorted(session.scalars(select(Checkpoint.job).distinct()))

    # ------------------------------------------------------------------ rounding logs

    def put_logs(self, job: int, roots: Mapping[int, bytes]) -> None:
        """Store the roots of the logs written for some steps. Raises HashMismatch if the log of a step has another."""
        with self.session() as session:
            for step, root in roots.items():
                row = session.get(WrittenLog, (job, step))
                # INVARIANT: a stored log never changes. Another job of the same program may have written it meanwhile.
                if row is not None and row.root != root:
                    has = f"step {step} has the rounding log {row.root.hex()}, and not {root.hex()}"
                    raise HashMismatch(f"{has}: this run follows the first from its last checkpoint on")
                if row is None:
                    session.add(WrittenLog(job=job, step=step, root=root))

    def get_log(self, job: int, step: int) -> bytes | None:
        """Return the root of a step's logs, or None."""
        with self.session() as session:
            row = session.get(WrittenLog, (job, step))
            return row.root if row else None

    def logs(self, job: int) -> dict[int, bytes]:
        """Return the roots of a job's step logs by step, ascending."""
        with self.session() as session:
            rows = session.scalars(select(WrittenLog).where(WrittenLog.job == job))
            return dict(sorted((row.step, row.root) for row in rows))

    # ------------------------------------------------------------------ progress

    def put(self, name: str, value: Any) -> None:
        """Store a JSON value by name."""
        with self.session() as session:
            session.merge(Progress(name=name, value=json.dumps(value)))

    def get(self, name: str, default: Any = None) -> Any:
        """Return the JSON value of that name, or ``default``."""
        with self.session() as session:
            row = session.get(Progress, name)
            return default if row is None else json.loads(row.value)

    def drop(self, name: str) -> None:
        """Remove the value of that name."""
        with self.session() as session:
            session.execute(delete(Progress).where(Progress.name == name))

    # ------------------------------------------------------------------ events

    def put_events(self, query: str, through: int, hash_: bytes, logs: Sequence[str], oldest: int) -> None:
        """Store all logs of a query, in order, up to the block ``through``, with that block's hash. Queries that were
        last stored before the block ``oldest`` are dropped.

        NOTE: they are read again if the disk refuses them."""
        with contextlib.suppress(DiskFailed), self.session() as session:
            session.merge(KeptEvents(query=query, through=through, hash=hash_, logs=json.dumps(logs)))
            session.execute(delete(KeptEvents).where(KeptEvents.through < oldest))

    def get_events(self, query: str) -> tuple[int, bytes, list[str]] | None:
        """Return ``(through, hash, logs)`` of a query, or None."""
        with self.session() as session:
            row = session.get(KeptEvents, query)
            return (row.through, row.hash, json.loads(row.logs)) if row else None

    def drop_events(self, query: str) -> None:
        """Drop the logs of a query."""
        with self.session() as session:
            session.execute(delete(KeptEvents).where(KeptEvents.query == query))

    # ------------------------------------------------------------------ inside

    def _pin(self, key: str, value: str, remedy: str) -> None:
        with self.session() as session:
            row = session.get(Meta, key)
            if row is None:
                session.add(Meta(key=key, value=value))
            elif row.value != value:
                raise SchemaMismatch(f"{self.path} has {key} {row.value}, not {value}; {remedy}")


def _engine(path: Path | None) -> Engine:
    if path is None:  # in memory: one connection, shared by all threads
        engine = create_engine("sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False})
    else:
        engine = create_engine(f"sqlite:///{path}", connect_args={"timeout": 30})

    @event.listens_for(engine, "connect")
    def configure(connection: Any, _record: Any) -> None:
        cursor = connection.cursor()
        # SAFETY: FULL: a signed transaction is on disk before it is sent, even if the machine fails.
        for pragma in (
            "journal_mode=WAL",
            "synchronous=FULL",
            "foreign_keys=ON",
            f"journal_size_limit={_WAL_BYTES}",
            f"wal_autocheckpoint={_WAL_BYTES // 4096}",
        ):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    return engine
