"""Stakes and signatures of ours, and what they may ask of us at once (`admission`): in memory and in the database.

After a restart, a job's cost is not measured at once, and a hearing is not judged at once. What they may ask of us is
known all the same, and which jobs yield to which (`yielding`).
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Collection, Iterable
from dataclasses import asdict, astuple, replace
from typing import NamedTuple

import structlog

from ..chain import JobView
from ..errors import DiskFailed
from ..reason import Reason
from ..run.cost_estimate import MARGIN, CostEstimate
from ..storage.database import Database
from .admission import Bond, Duty, Means, too_much_at_once
from .yielding import PROPORTION, Weight, bears, choose, given, left, yields_to

_DUTIES, _WEIGHTS, _BONDS = "duties", "weights", "bonds"

_log = structlog.get_logger(__name__)

Poor = Callable[[Collection[int]], Reason | None]
"""Why the account is too poor for a stake if these jobs yield to it."""


class DutyUnknown(Reason):
    text = (
        "it is not measured yet what job {job}, in which we have a stake, may ask of us at the same time; this job is "
        "looked at again"
    )
    job: int


class _Judged(NamedTuple):
    """A stake that may be given: the job's duty with it, the least prize, and who yields to it."""

    duty: Duty
    prize: int
    chosen: Collection[int]


class DutyBook:
    """The duties of jobs, and what we have put into them. ``reserved`` returns the jobs that may still take ether from
    us (`Reserve.jobs`).

    SAFETY: a stake that has been sent is reserved before a block shows it, so it is counted from then on. A job that
    was staked on before a restart is counted until a look at it shows that nothing of ours is left in it.
    """

    def __init__(self, database: Database, reserved: Callable[[], Collection[int]], means: Means) -> None:
        self._database, self._reserved, self._means = database, reserved, means
        kept: dict[str, dict[str, float]] = database.get(_DUTIES, {})
        self._known = {int(number): Duty(**duty) for number, duty in kept.items()}  # type: ignore[arg-type]
        self._staked = set(self._known)
        weights: dict[str, dict[str, int]] = database.get(_WEIGHTS, {})
        self._weights = {int(number): Weight(**weight) for number, weight in weights.items()}  # type: ignore[arg-type]
        self._judged: dict[tuple[int, int], _Judged] = {}
        """By job and number of stakes in it: the last stake that could be given."""
        self._bonds: set[tuple[int, bytes]] = set()
        """Bonds that are counted, by job and call."""
        self._saved = dict(self._known), dict(self._weights)

    # ------------------------------------------------------------------ before a stake

    def refuses(
        self,
        job: JobView,
        estimate: CostEstimate,
        stakes: int = 1,
        *,
        asked: bool = True,
        prize: int = 0,
        poor: Poor = lambda _: None,
    ) -> Reason | None:
        """Return why not to have so many ``stakes`` in a job, or None. What the job may ask is kept until `over`.
        ``asked``: data may be requested of us in it; ``prize``: the least wei that the new stake earns where it is
        disputed, 0 if it may be disputed and earn nothing. Where a prize is enough, other jobs yield."""
        duty = Duty.of(job, estimate, stakes, asked=asked)
        every = self._staked | set(self._reserved())
        held, before = every - {job.id}, self._known.get(job.id)
        if before is None or job.id not in every:
            self._known[job.id] = replace(duty, stakes=before.stakes if before is not None else 1)
        if unknown := held - self._known.keys():
            return DutyUnknown(min(unknown))
        others = {number: self._known[number] for number in held}
        standing = {number: yields_to(self._weights, number) - {job.id} for number in held}

        def why(chosen: Collection[int]) -> Reason | None:
            yields = {number: of | {job.id} if number in chosen else of for number, of in standing.items()}
            return too_much_at_once(others, job.id, duty, self._means, yields) or poor(chosen)

        weight = self._weights.get(job.id, Weight(over=True))
        if job.id in every and not weight.over and not weight.since and stakes <= self._known[job.id].stakes:
            return why({number for number in held if job.id in yields_to(self._weights, number)})
        chosen, reason = choose(self._weights, job.id, prize, why)
        if reason is None:
            self._judged[job.id, stakes] = _Judged(duty, prize, chosen)
        return reason

    def staking(self, job_id: int, stakes: int, wei: int) -> None:
        """Note that we are about to stake, so that a job holds so many stakes of ours, ``wei`` in all. Those yield that
        have to, as judged last."""
        before, weight = self._known.get(job_id), self._weights.get(job_id, Weight(over=True))
        judged = self._judged.pop((job_id, stakes), None)
        if weight.over or weight.since or before is None or before.stakes < stakes:
            _, prize, chosen = judged or (None, 0, ())
            self._weights = given(self._weights, job_id, wei, prize, chosen)
            if chosen:
                _log.warning("stake.others_yield", job=job_id, yield_to_it=sorted(chosen), prize=prize)
            if judged is not None:
                asked = before is not None and before.verdict_period > 0 and job_id in self._staked
                self._known[job_id] = before if asked and before is not None else judged.duty
        self.staked(job_id, stakes, wei)

    # ------------------------------------------------------------------ who yields

    def yields(self, job_id: int) -> bool:
        """Return whether a job yields to others."""
        return bool(yields_to(self._weights, job_id))

    def behind(self, job_id: int) -> set[int]:
        """Return the jobs that come after one that yields: those that have yielded no later."""
        since = self._weights[job_id].since
        return {number for number, of in self._weights.items() if 0 < of.since <= since}

    def rank(self, job_id: int) -> int:
        """Return the place of a job among those with our stakes: 0 for those that stand, then those that yield, of
        which the last to do so comes first."""
        weights = self._weights
        later = (
            {of.since for of in weights.values() if of.since >= weights[job_id].since}
            if job_id in weights
            else ()
        )
        return len(later) if self.yields(job_id) else 0

    def keeps(self, job_id: int) -> float:
        """Return the most wei that a job keeps from stakes in others."""
        wei = self._weights.get(job_id, Weight()).wei
        return math.inf if wei is None else PROPORTION * wei

    def puts(self, job_id: int, bond: bytes, wei: int) -> bool:
        """Return whether to put a bond into a job: not where it yields, and no prize would pay for it. It counts from
        then on; ``bond`` tells it from others."""
        weight = self._weights.get(job_id)
        if weight is None or weight.wei is None or (job_id, bond) in self._bonds:
            return True
        if not bears(self._weights, job_id, wei):
            return False
        self._bonds.add((job_id, bond))
        self._weights[job_id] = replace(weight, wei=weight.wei + wei)
        self._save()
        return True

    # ------------------------------------------------------------------ what is known

    def knows(self, job_id: int) -> bool:
        """Return whether it is known what a job may ask of us."""
        return job_id in self._known

    def learn(self, job: JobView, estimate: CostEstimate) -> None:
        """Note what a job may ask of us in which we have staked before."""
        self._known[job.id] = Duty.of(job, estimate)

    def staked(self, job_id: int, stakes: int, wei: int | None = None, *, idle: bool = False) -> None:
        """Note that a job holds so many stakes of ours, or will in a moment, ``wei`` in all, None if it never yields;
        the most count until it holds none. ``idle``: see `Weight`."""
        self._staked.add(job_id)
        duty, weight = self._known.get(job_id), self._weights.get(job_id, Weight())
        if duty is not None and duty.stakes < stakes:
            self._known[job_id] = replace(duty, stakes=stakes)
        most = None if wei is None else max(wei, weight.wei or 0)
        self._weights[job_id] = replace(weight, wei=most, idle=idle, over=False)
        self._save()

    def free(self, job_id: int) -> None:
        """Note that a job holds nothing of ours. What it would ask is still known, but not kept over a restart."""
        self._staked.discard(job_id)
        if not self._weights.get(job_id, Weight(over=True)).over:
            self._weights = left(self._weights, job_id)
        self._save()

    def over(self, job_id: int) -> None:
        """Drop what is known of a job that is over."""
        self._known.pop(job_id, None)
        self._judged = {key: of for key, of in self._judged.items() if key[0] != job_id}
        self._bonds = {key for key in self._bonds if key[0] != job_id}
        self.free(job_id)

    def _save(self) -> None:
        """NOTE: if the disk refuses, the next call tries again; what is not known after a restart is measured then."""
        duties = {number: self._known[number] for number in self._staked if number in self._known}
        if (duties, self._weights) != self._saved:
            with contextlib.suppress(DiskFailed):
                for key, of in ((_WEIGHTS, self._weights), (_DUTIES, duties)):
                    self._database.put(key, {str(number): asdict(one) for number, one in of.items()})
                self._saved = duties, dict(self._weights)


class BondBook:
    """The hearings in which a verdict that we have signed may be tried."""

    def __init__(self, database: Database) -> None:
        self._database = database
        kept: list[list[int | float]] = database.get(_BONDS, [])
        self._bonds = {
            (int(job), int(number)): Bond(float(trial_s), int(clock), int(wei))
            for job, number, trial_s, clock, wei in kept
        }
        self._saved = dict(self._bonds)

    def held(self, *, but: int) -> list[Bond]:
        """Return what our signatures may ask of us, in all hearings but that one."""
        return [bond for (_, number), bond in self._bonds.items() if number != but]

    def sign(self, job_id: int, hearing: int, bond: Bond) -> None:
        """Note that we sign a verdict."""
        self._bonds[job_id, hearing] = bond
        self._save()

    def seen(self, job_id: int, signed: Iterable[int], needed: Collection[int], clock: int, wei: int) -> None:
        """Note the hearings of a job that we have signed in, and which of them are open.

        NOTE: of a signature that is not known, the trial counts as the longest that we would have signed for.
        """
        for key in [key for key in self._bonds if key[0] == job_id and key[1] not in needed]:
            del self._bonds[key]
        for number in signed:
            self._bonds.setdefault((job_id, number), Bond(clock / MARGIN, clock, wei))
        self._save()

    def _save(self) -> None:
        """NOTE: if the disk refuses, the next call tries again."""
        if self._bonds != self._saved:
            with contextlib.suppress(DiskFailed):
                self._database.put(_BONDS, [[*key, *astuple(bond)] for key, bond in self._bonds.items()])
                self._saved = dict(self._bonds)
