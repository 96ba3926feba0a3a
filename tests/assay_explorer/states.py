"""States of jobs and disputes by name, and the pages about each, from real contracts.

Jobs come from the random games of `tests/referee_py/game`: each move is made on the contracts and in the chain's model.
The model says when a job is in a state of this table; the page is made from the chain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from assay_explorer.chain import Chain, IndexedClient
from assay_explorer.index import Index
from assay_explorer.pages import Pages
from referee_py.game.state import Phase
from referee_py.jobs import JobPhase
from referee_py.panel.state import HearingPhase
from referee_py.walk.reason import Reason
from tests.conftest import Anvil
from tests.model.jobs import Group, Match
from tests.model.panel import Hearing
from tests.referee_py.game.random_game import Game
from tests.trainer_node.monitor.generated import World
from trainer_node.network.fetcher import Fetcher
from trainer_node.storage.store import Store

SEEDS, JOBS, IDLE = (48, 49), 60, 6
"""Worlds that are played until all states are met; jobs in each, of which nobody takes part in the last number."""
FLAGS = ("--chain-id", "31337", "--rpc-url", "http://127.0.0.1:8545", "--deployment", "deployment.json")


@dataclass(frozen=True)
class Now:
    """A game at an instant of the contracts' clocks, as the model has it."""

    world: World
    game: Game
    now: int

    @property
    def phase(self) -> JobPhase:
        return self.game.job.phase(self.now)

    @property
    def roots(self) -> list[Group]:
        """Claimed roots, without refutations."""
        return [group for group in self.game.job.groups if group.refutes is None]

    @property
    def living(self) -> list[Group]:
        return [group for group in self.roots if not group.dead]

    @property
    def pending(self) -> int:
        """Open requests for data of the root that would be accepted."""
        job = self.game.job
        if job.waiting is None:
            return 0
        group, requests = job.groups[job.waiting], self.world.cohort.model.data_availability
        return int(requests.pending(self.game.job_id, job.logs, group.root, group.deaths + 1))

    def hearing_of(self, match: Match) -> Hearing | None:
        every = self.world.cohort.model.panel.hearings.values()
        ids = match.terms.match_id
        return next((one for one in every if one.terms.submission.match_id == ids), None)


@dataclass(frozen=True)
class JobState:
    """A state of a job. ``says``: words that its page must have, ``never``: such that would not be so."""

    name: str
    so: Callable[[Now], bool]
    says: tuple[str, ...] = ()
    never: tuple[str, ...] = ()


@dataclass(frozen=True)
class DisputeState:
    """A state of a dispute; ``so`` gets its hearing, too."""

    name: str
    so: Callable[[Now, Match, Hearing | None], bool]
    says: tuple[str, ...] = ()
    never: tuple[str, ...] = ()


State = JobState | DisputeState


@dataclass(frozen=True)
class Page:
    """A page as it was made, with the state and its job in the model at that instant."""

    state: State
    html: str
    job: int
    match: int | None


def _in(phase: JobPhase, more: Callable[[Now], bool] = lambda _: True) -> Callable[[Now], bool]:
    return lambda at: at.game.sane and at.phase is phase and more(at)


def _shown_wrong(match: Match) -> bool:
    """Return whether one side of a match was shown wrong, and did not only fail to answer."""
    return match.state.losers in (1, 2) and match.state.reason is not Reason.TIMEOUT


def _closed(more: Callable[[Now], bool]) -> Callable[[Now], bool]:
    """Return whether nothing but what ``more`` asks for keeps a job from its end."""

    def so(at: Now) -> bool:
        job = at.game.job
        return not job.open_matches and at.now >= job.reclaim_end and more(at)

    return _in(JobPhase.CLOSING, so)


JOB_STATES = (
    JobState(
        "nobody took it",
        _in(JobPhase.TRAINING, lambda at: not at.game.job.trainers),
        (
            "nobody has taken",
            "There is no result yet",
            "unclaimed: nobody says anything",
            "Nobody has claimed its result yet",
        ),
        ("is claimed by", "one party alone"),
    ),
    JobState(
        "training",
        _in(JobPhase.TRAINING, lambda at: bool(at.game.job.trainers)),
        ("trainers train, and commit", "progress of its trainers".capitalize()),
    ),
    JobState(
        "nothing to reveal",
        _in(JobPhase.REVEAL, lambda at: not any(any(t.commitment) for t in at.game.job.trainers)),
        ("no trainer has committed to a result",),
        ("trainers open their commitments",),
    ),
    JobState(
        "reveal",
        _in(JobPhase.REVEAL, lambda at: any(any(t.commitment) for t in at.game.job.trainers)),
        ("trainers open their commitments",),
    ),
    JobState(
        "nobody claimed",
        _in(JobPhase.CHALLENGE, lambda at: not at.roots),
        ("nobody has claimed a result: anybody may claim one", "unclaimed"),
        ("is claimed by", "may dispute a result"),
    ),
    JobState(
        "one claim",
        _in(JobPhase.CHALLENGE, lambda at: len(at.game.job.claims) == 1 == len(at.living)),
        (
            *("anybody may dispute a result", "All of it is claimed by", "unseen: one party alone says so"),
            "is held by the contracts, and not lost",
        ),
        ("unclaimed",),
    ),
    JobState(
        "claimed twice",
        _in(
            JobPhase.CHALLENGE,
            lambda at: len(at.roots) == 1 == len(at.living) and len(at.living[0].members) > 1,
        ),
        ("checked: several parties have the same result",),
    ),
    JobState(
        "two roots",
        _in(JobPhase.CHALLENGE, lambda at: len(at.living) == 2 and at.game.job.open_matches == 1),
        ("Still open", "other root is claimed, too"),
    ),
    JobState(
        "crowd",
        lambda at: at.game.sane and not at.phase.ended and len(at.living) > 2,
        ("other roots are claimed, too",),
    ),
    JobState(
        "refuted",
        lambda at: at.game.sane and any(group.refutes is not None for group in at.game.job.groups),
        ("a refutation",),
    ),
    JobState(
        "every claim has lost",
        _in(JobPhase.CHALLENGE, lambda at: bool(at.roots) and not at.living),
        ("every claim has lost: anybody may claim one", "No claim of it stands"),
    ),
    JobState(
        "closing, disputed",
        _in(JobPhase.CLOSING, lambda at: at.game.job.open_matches > 0),
        ("must be decided first",),
    ),
    JobState(
        "closing, claimable again",
        _in(JobPhase.CLOSING, lambda at: not at.game.job.open_matches and at.now < at.game.job.reclaim_end),
        ("may be claimed or refuted again",),
        (" 0 s left", "assay job finalize"),
    ),
    JobState(
        "closing, data requested",
        _closed(lambda at: at.pending > 0),
        ("for data must be answered first",),
        (" 0 s left", "assay job finalize"),
    ),
    JobState(
        "closing, accepted next",
        _closed(lambda at: at.game.job.waiting is not None and not at.pending),
        ("nothing is open any more", "assay job finalize"),
        ("must be decided", " 0 s left"),
    ),
    JobState(
        "closing, nobody claimed",
        _closed(lambda at: not at.roots),
        ("nobody has claimed a result: anybody may end the job", "assay job finalize"),
        ("must be decided", "are decided", " 0 s left", "one party"),
    ),
    JobState(
        "closing, all lost",
        _closed(lambda at: bool(at.roots) and not at.living),
        ("every claim has lost: anybody may end the job",),
        (" 0 s left",),
    ),
    JobState("accepted", _in(JobPhase.ACCEPTED), ("a result is accepted", "assay job result"), (" left",)),
    JobState(
        "accepted after a dispute",
        _in(JobPhase.ACCEPTED, lambda at: any(_shown_wrong(match) for match in at.game.matches)),
        ("was wrong",),
    ),
    JobState(
        "refunded, nobody claimed",
        _in(JobPhase.UNCLAIMED, lambda at: not at.roots),
        ("nobody has claimed a result: the client has its reward back", "There is no result that"),
        ("one party", "every claim has lost"),
    ),
    JobState(
        "refunded, all lost",
        _in(JobPhase.UNCLAIMED, lambda at: bool(at.roots)),
        ("every claim has lost: the client has its reward back",),
    ),
    JobState("void", _in(JobPhase.VOID), ("the trainer withheld its logs",)),
    JobState("with rounding logs", lambda at: at.game.job.rounded, ("rounded-f64",)),
    JobState("without rounding logs", lambda at: not at.game.job.rounded, ("repops-f32",)),
)


def _walking(phase: Phase) -> Callable[[Now, Match, Hearing | None], bool]:
    return lambda at, match, _: at.game.sane and match.state.phase is phase


def _heard(phase: HearingPhase) -> Callable[[Now, Match, Hearing | None], bool]:
    return lambda at, _, hearing: at.game.sane and hearing is not None and hearing.state.phase is phase


def _decided(reason: Reason, trials: bool | None = None) -> Callable[[Now, Match, Hearing | None], bool]:
    def so(at: Now, match: Match, hearing: Hearing | None) -> bool:
        ended = at.game.sane and match.state.phase is Phase.DONE and match.state.reason is reason
        tried = hearing is not None and hearing.state.trials > 0
        return ended and (trials is None or trials == tried)

    return so


def _of_a_refutation(at: Now, match: Match, _: Hearing | None) -> bool:
    groups = at.game.job.groups
    claimed = {group.root for group in groups if group.refutes is None}
    return at.game.sane and any(g.root in match.terms.roots and g.root not in claimed for g in groups)


DISPUTE_STATES = (
    DisputeState("walk", _walking(Phase.WALK), ("running",), ("was wrong",)),
    DisputeState("refine", _walking(Phase.REFINE), ("more finely",)),
    DisputeState("open", _walking(Phase.OPEN), ("Operator",)),
    DisputeState("voting", _heard(HearingPhase.VOTING), ("Hearing", "votes until")),
    DisputeState("verdict", _heard(HearingPhase.RULED), ("unless somebody appeals", "Now: The verifiers say")),
    DisputeState("trial", _heard(HearingPhase.TRIAL), ("Trial", "Now: The court narrows")),
    DisputeState("overruled", _heard(HearingPhase.DEFENCE), ("Overruled",)),
    DisputeState("stood by", _heard(HearingPhase.STAND), ("Trial",)),
    *(DisputeState(f"decided, {reason.name.lower()}", _decided(reason), ("Decision",)) for reason in Reason
      # NOTE: no game takes a step's number for something else.
      if reason not in (Reason.NONE, Reason.TIMEOUT, Reason.OPERATOR, Reason.INPUT_STEP)),
    DisputeState(
        "decided, timeout", _decided(Reason.TIMEOUT), (" lost:",),
        ("wrong:", "is wrong", "are wrong", "was right", "is searching where"),
    ),
    DisputeState(
        "of a refutation",
        _of_a_refutation,
        ("refutes it: one checkpoint does not follow",),
        ("claim different results", "results of the same"),
    ),
    DisputeState("decided by a verdict", _decided(Reason.OPERATOR, False), ("Verdict", "Decision")),
    DisputeState("decided by the court", _decided(Reason.OPERATOR, True), ("Trial", "Decision")),
)  # fmt: skip
STATES: tuple[State, ...] = (*JOB_STATES, *DISPUTE_STATES)


def explorer(world: World, folder: Path) -> tuple[Chain, Pages]:
    """Return an explorer of a world's chain. It finds no server of anybody there."""
    index = Index(None)
    client = IndexedClient(world.client.web3, world.client.deployment, cache=index)
    fetcher = Fetcher(Store(folder), attempts=1, timeout_s=1, budget_s=1)
    chain = Chain(client, index)
    return chain, Pages(chain, fetcher, folder, flags=FLAGS)


def generated(anvil: Anvil, folder: Path, on_page: Callable[[Page, Now, Chain, Pages], None]) -> list[str]:
    """Play jobs until each state has been met, and make the page of each; return the names of those that were not."""
    left = {state.name: state for state in STATES}
    for seed in SEEDS:
        world = World.on(anvil, seed, JOBS)
        chain, pages = explorer(world, folder)
        while left:
            for page, at in _met(world, left, chain, pages):
                del left[page.state.name]
                on_page(page, at, chain, pages)
            if not _play(world):
                break
    return list(left)


def _play(world: World) -> bool:
    """Let every job make a move, but for idle ones until all of their periods are over; return whether any is left."""
    cohort, now = world.cohort, world.now
    live = [
        game for k, game in enumerate(cohort.games) if k >= IDLE or game.job.phase(now) >= JobPhase.CLOSING
    ]
    live = [game for game in live if not game.over]
    if live:
        cohort._round(live, cohort._next_instant(live, hurry=False))
    return bool(live)


def _met(world: World, left: dict[str, State], chain: Chain, pages: Pages) -> Iterator[tuple[Page, Now]]:
    fresh = False
    for state in list(left.values()):
        for game in world.cohort.games:
            at = Now(world, game, world.now)
            match = _place(state, at)
            if match is None:
                continue
            if not fresh:
                chain.tick()
                assert chain.problem is None
                fresh = True
            number = match.terms.match_id if isinstance(match, Match) else None
            html = pages.job(game.job_id) if number is None else pages.dispute(game.job_id, f"{number:#066x}")
            yield Page(state, html, game.job_id, number), at
            break


def _place(state: State, at: Now) -> Match | bool | None:
    """Return the match of a game that is in this state, or True if the job is; None if it is not."""
    if isinstance(state, JobState):
        return state.so(at) or None
    return next((match for match in at.game.matches if state.so(at, match, at.hearing_of(match))), None)
