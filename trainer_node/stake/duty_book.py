"""Stakes and signatures of ours, and what they may ask of us at once (`admission`): in memory and in the database.

After a restart, a job's cost is not measured at once, and a hearing is not judged at once. What they may ask of us is
known all the same.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable
from dataclasses import asdict, astuple, replace

from referee_py.jobs import Rules

from ..chain import JobPhase, JobView
from ..errors import DiskFailed
from ..reason import Reason
from ..run.cost_estimate import MARGIN, CostEstimate
from ..storage.database import Database
from .admission import Bond, Duty, Means, reveals, too_much_at_once
from .resigned import Resigned

_DUTIES, _BONDS = "duties", "signed"


class DutyUnknown(Reason):
    text = (
        "it is not measured yet what job {job}, in which we have a stake, may ask of us at the same time; this job is "
        "looked at again"
    )
    job: int


def has_duties(database: Database) -> bool:
    """Return whether a node that starts has something at stake, by what it has noted before."""
    return bool(database.get(_DUTIES, {})) or bool(database.undone())


class DutyBook:
    """The duties of jobs. ``reserved`` returns the jobs that may still take ether from us (`Reserve.jobs`).

    SAFETY: a stake that has been sent is reserved before a block shows it, so it is counted from then on. A job that
    was staked on before a restart is counted until a look at it shows that nothing of ours is left in it.
    """

    def __init__(self, database: Database, reserved: Callable[[], Collection[int]], means: Means) -> None:
        self._database, self._reserved, self._means = database, reserved, means
        kept: dict[str, dict[str, float]] = database.get(_DUTIES, {})
        # NOTE: what another version has kept may not fit. The job is measured again then.
        self._known = dict[int, Duty]()
        for number, duty in kept.items():
            with contextlib.suppress(TypeError):
                self._known[int(number)] = Duty(**duty)  # type: ignore[arg-type]
        self._staked = set(map(int, kept))
        self._training = set[int]()
        self._saved = dict(self._known)
        self.resigned = Resigned(database)
        """Slots that were given back."""

    def refuses(self, job: JobView, estimate: CostEstimate, stakes: int = 1) -> Reason | None:
        """Return why not to have so many ``stakes`` in a job, or None. What the job may ask is kept until `over`."""
        duty = Duty.of(job, estimate, stakes)
        held = (self._staked | set(self._reserved())) - {job.id}
        unknown = held - self._known.keys()
        before = self._known.get(job.id)
        self._known[job.id] = replace(duty, stakes=before.stakes if before is not None else 1)
        if unknown:
            return DutyUnknown(min(unknown))
        return too_much_at_once({number: self._known[number] for number in held}, job.id, duty, self._means)

    def moves_s(self, but: int) -> float:
        """Return the seconds that all other jobs with stakes of ours may take: the processors for their matches and
        trials, and the loop for what it sends. SAFETY: whoever disputes a root chooses the moment."""
        return self.sends_s(but) + sum(duty.moves_s for duty in self._others({but}))

    def sends_s(self, but: int) -> float:
        """Return the seconds for which a round of the loop may wait for what is sent in other jobs with stakes of ours:
        one transaction for each stake. NOTE: jobs that train come first in a round, and nothing waits where a slot is
        given back."""
        return self._means.mined_s * sum(duty.stakes for duty in self._others({but} | self._training))

    def _others(self, but: set[int]) -> list[Duty]:
        held = (self._staked | set(self._reserved())) - but
        return [self._known[number] for number in held if number in self._known]

    def looked(self, job: JobView) -> None:
        """Note whether a job with a stake of ours trains, and whether its reveal is still to come."""
        (self._training.add if job.phase is JobPhase.TRAINING else self._training.discard)(job.id)
        duty = self._known.get(job.id)
        if duty is not None and duty.reveal_period and not reveals(job):
            self._known[job.id] = replace(duty, reveal_period=0)

    def knows(self, job_id: int) -> bool:
        """Return whether it is known what a job may ask of us."""
        return job_id in self._known

    def learn(self, job: JobView, estimate: CostEstimate) -> None:
        """Note what a job may ask of us in which we have staked before."""
        self._known[job.id] = Duty.of(job, estimate)

    def staked(self, job_id: int, stakes: int) -> None:
        """Note that a job holds so many stakes of ours, or will in a moment; the most count until it holds none."""
        self._staked.add(job_id)
        duty = self._known.get(job_id)
        if duty is not None and duty.stakes < stakes:
            self._known[job_id] = replace(duty, stakes=stakes)
        self._save()

    def free(self, job_id: int) -> None:
        """Note that a job holds nothing of ours. What it would ask is still known, but not kept over a restart."""
        self._staked.discard(job_id)
        self._training.discard(job_id)
        self._save()

    def over(self, job_id: int) -> None:
        """Drop what is known of a job that is over."""
        self._known.pop(job_id, None)
        self.free(job_id)

    def _save(self) -> None:
        """NOTE: if the disk refuses, the next call tries again; what is not known after a restart is measured then."""
        duties = {number: self._known[number] for number in self._staked if number in self._known}
        if duties != self._saved:
            with contextlib.suppress(DiskFailed):
                self._database.put(_DUTIES, {str(number): asdict(duty) for number, duty in duties.items()})
                self._saved = duties


class BondBook:
    """The hearings in which a verdict that we have signed may be tried."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._bonds = dict[tuple[int, int], Bond]()
        # NOTE: what another version has kept may not fit. `seen` puts the longest in its place.
        for row in database.get(_BONDS, []):
            with contextlib.suppress(TypeError, ValueError):
                job, number, trial_s, clock, wei, stand_s, period = row
                bond = Bond(float(trial_s), int(clock), int(wei), float(stand_s), int(period))
                self._bonds[int(job), int(number)] = bond
        self._saved = dict(self._bonds)

    def held(self, *, but: int) -> list[Bond]:
        """Return what our signatures may ask of us, in all hearings but that one."""
        return [bond for (_, number), bond in self._bonds.items() if number != but]

    def wei(self, job_id: int) -> int:
        """Return the wei that trials of what we have signed in a job may take."""
        return sum(bond.wei for (job, _), bond in self._bonds.items() if job == job_id)

    def sign(self, job_id: int, hearing: int, bond: Bond) -> None:
        """Note that we sign a verdict."""
        self._bonds[job_id, hearing] = bond
        self._save()

    def seen(
        self, job_id: int, signed: Iterable[int], needed: Collection[int], rules: Rules, wei: int
    ) -> None:
        """Note the hearings of a job that we have signed in, and which of them are open.

        NOTE: of a signature that is not known, the longest counts that we would have signed for.
        """
        clock, period = rules.clock, rules.appeal_period
        for key in [key for key in self._bonds if key[0] == job_id and key[1] not in needed]:
            del self._bonds[key]
        for number in signed:
            self._bonds.setdefault(
                (job_id, number), Bond(clock / MARGIN, clock, wei, period / MARGIN, period)
            )
        self._save()

    def _save(self) -> None:
        """NOTE: if the disk refuses, the next call tries again."""
        if self._bonds != self._saved:
            with contextlib.suppress(DiskFailed):
                self._database.put(_BONDS, [[*key, *astuple(bond)] for key, bond in self._bonds.items()])
                self._saved = dict(self._bonds)
