"""The judge of jobs: whether the node stakes on a job, or signs in it, by the reasons that a role asks for.

    take       no reason holds
    decline    the first reason that holds; it is logged once for each job
    not known  `NOT_KNOWN`: the job is looked at again, and nothing is logged

The reasons come one by one, and none is asked for after the first that holds. So a role names cheap ones first, then
whether the job is measured, then those that need the estimate, and last those that have the disk or memory make room.
"""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping

import structlog

from ..reason import Reason

Reasons = Iterable[Reason | None]
"""A role's reasons in their order; None for one that does not hold."""

LEFT = "job.left_to_others"

_log = structlog.get_logger(__name__)


class NotKnown(Reason):
    text = "it is not measured yet"


NOT_KNOWN = NotKnown()


def first(reasons: Reasons) -> Reason | None:
    """Return the first reason that holds, None if there is none: then the answer is to take the job."""
    return next((reason for reason in reasons if reason is not None), None)


class JobJudge:
    """Judges, and logs once for each job why it is declined, as ``event``. ``told`` remembers of which jobs that is
    logged."""

    def __init__(self, event: str = LEFT, told: MutableMapping[int, bool] | None = None) -> None:
        self._event = event
        self._told = {} if told is None else told

    def takes(self, job_id: int, reasons: Reasons) -> bool:
        """Return whether to take the job: not if it is declined, and not before that is known."""
        reason = first(reasons)
        if reason is not None and reason is not NOT_KNOWN and not self._told.get(job_id):
            self._told[job_id] = True
            _log.warning(self._event, job=job_id, reason=str(reason), kind=type(reason).__name__)
        return reason is None
