"""A dispute as a ladder: one rung for each tree that is walked, from the run roots down to one step of one element.

Everything to the left of a rung's first difference is equal on both sides, which the descent has proven. What lies to
the right of it does not matter: both sides computed it from different states.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from trainer_node.chain.events import Event

from .chain import Case
from .hearing_rungs import HearingRungs
from .history import Moment
from .match_rungs import MatchRungs
from .rungs import Ladder, Names
from .trial_rungs import TrialRungs

_CAPITAL = re.compile(r"(?<!^)([A-Z])")


def ladder(case: Case, moments: Sequence[Moment], name: Names) -> Ladder:
    """Return the dispute after these moments, the first of all or all of them. Raises RpcCorrupt."""
    made = _AllRungs(case, name)
    for moment_ in moments:
        made.begin(moment_)
        for told in moment_.told:
            made.take(told.event, told.trial)
    sent = [one.sent for one in moments]
    length = sent[-1].instant - sent[0].instant if sent else 0
    decided = made.losers is not None
    return Ladder(
        made.rungs,
        made.found,
        made.losers if decided else None,
        made.reason,
        len(sent),
        sum(one.gas for one in sent),
        length,
    )


class _AllRungs(MatchRungs, HearingRungs, TrialRungs):
    def take(self, event: Event, trial: int) -> None:
        """Take one event; ones that add nothing are passed over."""
        name = _CAPITAL.sub(r"_\1", event.name).lower()
        method: Callable[..., None] | None = getattr(self, f"_on_{name}", None)
        if method is not None:
            self._event = event
            method(event.args, trial) if trial else method(event.args)
