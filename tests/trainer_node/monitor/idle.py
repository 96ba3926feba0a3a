"""What becomes of jobs if nobody moves, by the chain's model: whatever anybody may do is done at the first instant."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy

from referee_py import trial as court
from referee_py.availability.state import RequestState
from referee_py.errors import InvalidEncoding
from referee_py.game.state import Phase, Timeout
from referee_py.panel.state import Escalate, HearingPhase, Proceed
from referee_py.walk import clock
from referee_py.walk.refusals import Refusal
from tests.model.chain_model import ChainModel
from tests.model.panel import Hearing

STRANGER = "0x" + "EE" * 20
Due = tuple[int, Callable[[ChainModel, int], object]]


def left_alone(model: ChainModel, now: int, *, last_first: bool = False) -> ChainModel:
    """Return the model with all jobs ended, from ``now`` on, in seconds of the contracts' clocks.

    ``last_first``: the other order of what is possible at the same instant.
    """
    model = deepcopy(model)
    while True:
        found = list(_due(model))
        due = [(max(at, now), act) for at, act in (reversed(found) if last_first else found)]
        due.sort(key=lambda pair: pair[0])
        while due:
            at, act = due.pop(0)
            now = max(now, at)
            try:
                act(model, now)
            except (Refusal, InvalidEncoding):
                # A request that cannot be closed while its root is in a match; a trial of an unsound program, which the
                # model cannot open.
                continue
            break
        else:
            return model


def _due(model: ChainModel) -> Iterator[Due]:
    for match_id, match in model.matches.items():
        if match.state.phase in (Phase.WALK, Phase.REFINE, Phase.OPEN):
            yield (
                clock.first_deadline(match.state) + 1,
                lambda m, at, i=match_id: m.play(i, [Timeout()], STRANGER, at),  # type: ignore[misc]
            )
    for hearing_id, hearing in model.panel.hearings.items():
        yield from _hearing(model, hearing_id, hearing)
    requests = model.data_availability
    for (subject, place), request in requests.requests.items():
        if request.state is RequestState.OPEN and not model.jobs[subject.job_id].ended:
            yield (
                request.until + 1,
                lambda m, at, s=subject, p=place: m.data_availability.close(s, p, at),  # type: ignore[misc]
            )
    for job_id, job in model.jobs.items():
        if not job.ended and not job.open_matches:
            yield max(job.challenge_end, job.reclaim_end), lambda m, at, i=job_id: m.finalize(i, at)  # type: ignore[misc]


def _hearing(model: ChainModel, hearing_id: int, hearing: Hearing) -> Iterator[Due]:
    state, terms = hearing.state, hearing.terms
    moves = {
        HearingPhase.VOTING: Escalate(terms.submission, terms.dispute),
        HearingPhase.RULED: Proceed(terms.submission),
        HearingPhase.DEFENCE: Proceed(terms.submission),
    }
    if state.phase in moves:
        move = moves[state.phase]
        yield state.until, lambda m, at: m.panel.play(hearing_id, move, STRANGER, 0, at)
    elif state.in_trial:
        number = model.panel.trial_of(hearing_id)
        assert number is not None
        late = clock.first_deadline(model.panel.trials[number].state) + 1
        yield late, lambda m, at: m.panel.plead(number, [court.Timeout()], STRANGER, at)
