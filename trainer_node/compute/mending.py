"""Makes good what the disk has refused of finished runs, once there is room: a dispute needs the state before its part.

    a run ends without some states ─▶ nothing more is staked on it (`look` says why) ─▶ there is room
                                                    ▲                                       │
                                                    └── refused again ◀── computed and kept ┴─▶ as any other run

Where a stake rests on the run already, it is played from what there is, and /readyz says what is lacking.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial

import structlog

from ..observe.problems import Problems
from ..reason import Reason
from ..run.checkpoints import StoredCheckpoints
from ..run.replay import Interrupted, Replay
from ..run.tensors import Tensors
from ..storage.database import Database
from ..storage.disk import on_disk
from ..storage.disk_keeper import Keeper
from .packages import Work
from .runs import Runs

MEND_S = 60.0
"""Seconds between the beginnings of two attempts for a run."""

_log = structlog.get_logger(__name__)


class StatesLacking(Reason):
    text = (
        "the disk has kept the states after {kept} of the {checkpoints} checkpoints of its run; a dispute beyond the "
        "others takes more than an interval. They are computed again while there is room: make room"
    )
    kept: int
    checkpoints: int


class ComesBack(Reason):
    text = "an earlier job has left its run on this disk; it is looked at before anything is staked on it"


class Mending:
    """Computes among ``runs``, with the share of each, until ``stop`` is set. ``rests`` gets a run that is whole
    again. ``clock``: seconds."""

    def __init__(
        self,
        database: Database,
        runs: Runs,
        stop: threading.Event,
        *,
        tensors: Tensors,
        problems: Problems,
        keeper: Keeper | None,
        rests: Callable[[Work], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database, self._runs, self._stop = database, runs, stop
        self._tensors, self._problems, self._keeper = tensors, problems, keeper
        self._rests, self._clock = rests, clock
        self._wanted: set[int] = set()
        self._going: dict[int, Future[None]] = {}
        self._begun: dict[int, float] = {}
        """Time at which the last attempt for a run began."""
        self._told: set[int] = set()

    def look(self, work: Work) -> StatesLacking | None:
        """Return which states of a finished run are lacking, and so why not to stake on it; or None. Begin to make them
        good if there is room. /readyz says it.

        NOTE: the loop asks this in every round; it looks at two numbers.
        """
        terms = work.job.program
        checkpoints = -(-terms.steps // terms.strides[0])
        kept = StoredCheckpoints(self._database, work.key).kept if terms.slot_count else checkpoints
        reason = StatesLacking(kept, checkpoints) if kept < checkpoints else None
        if reason is not None:
            self._begin(work)
        self._tell(work, reason)
        return reason

    def forget(self, job_id: int) -> None:
        """Stop what runs for a job after its step."""
        self._told.discard(job_id)
        self._wanted.discard(job_id)
        self._begun.pop(job_id, None)
        if (going := self._going.pop(job_id, None)) is not None:
            going.cancel()

    def works_at(self, job_id: int) -> bool:
        """Return whether the states of a job's run are being computed again."""
        going = self._going.get(job_id)
        return going is not None and not going.done()

    # ------------------------------------------------------------------ inside

    def _tell(self, work: Work, reason: StatesLacking | None) -> None:
        number = work.job.id
        self._problems.job(number, "states", reason, ours=work.ours)
        if reason is not None and number not in self._told:
            self._told.add(number)
            _log.error("run.lacks_states", job=number, ours=work.ours, reason=str(reason))
        elif reason is None and number in self._told:
            self._told.discard(number)
            _log.info("run.made_good", job=number)

    def _begin(self, work: Work) -> None:
        number, replay, now = work.job.id, work.replay, self._clock()
        if replay is None or self.works_at(number) or now < self._begun.get(number, -MEND_S) + MEND_S:
            return
        state = sum(on_disk(descriptor.type.nbytes) for descriptor in replay.program.initial)
        if self._keeper is not None and self._keeper.fits(number, state) is not None:
            return
        self._begun[number] = now
        self._wanted.add(number)
        self._going[number] = self._runs.submit(work.share, partial(self._mend, work, replay))

    def _mend(self, work: Work, replay: Replay, pass_on: Callable[[], bool]) -> None:
        number = work.job.id

        def stop() -> bool:
            return pass_on() or self._stop.is_set() or number not in self._wanted

        try:
            with self._tensors.lent(number, must=work.ours):
                replay.make_good(stop)
            self._rests(work)
        except Interrupted:
            raise  # it continues when it is its turn again
        except Exception as error:
            # NOTE: also for our own mistakes: what is lacking is reported until it is there.
            _log.warning("run.not_made_good", job=number, error=type(error).__name__, reason=str(error))
