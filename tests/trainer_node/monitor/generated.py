"""Many jobs on one chain, at random points of their lives, with the truth about each from the chain's model.

The games are those of `tests/referee_py/game`: honest and lying claimants, refuters, verifiers that vote falsely, data
requests, trials, pauses; each move is compared with the model, so the model is the truth.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from eth_utils.address import to_checksum_address

from referee_py.availability.state import RequestState
from referee_py.game.state import Phase
from referee_py.jobs import JobPhase, fee_at
from referee_py.panel.state import HearingPhase
from referee_py.params import BURNED
from referee_py.walk import clock
from referee_py.walk.sides import sides
from tests.conftest import Anvil
from tests.model.jobs import Job
from tests.model.timekeeper import Timekeeper
from tests.referee_py.game.chain import DEPLOYER, Chain, Contract
from tests.referee_py.game.random_game import LEAVE_DELAY, MIN_STAKE, Game
from tests.referee_py.game.random_play import Cohort, Tally
from tests.referee_py.game.synthetic_run import Run
from trainer_node.chain import ChainClient, Deployment, connect
from trainer_node.monitor.alerts import Kind

from .idle import left_alone

PAUSE_BUDGET = 80
NEAR = 0.25


@dataclass
class World:
    """A chain with a cohort of jobs on it, and a client of their deployment."""

    chain: Chain
    cohort: Cohort
    client: ChainClient

    @classmethod
    def on(cls, anvil: Anvil, seed: object, jobs: int) -> World:
        chain = Chain(anvil.url, MIN_STAKE, LEAVE_DELAY, PAUSE_BUDGET)
        watch = Contract("Watch")
        chain._deploy(DEPLOYER, watch)
        contracts = {
            "Timekeeper": chain.timekeeper,
            "VerifierRegistry": chain.registry,
            "Court": chain.court,
            "Panel": chain.panel,
            "Referee": chain.referee,
            "DataAvailability": chain.data_availability,
            "Notary": chain.notary,
            "Jobs": chain.jobs,
            "Watch": watch,
        }
        addresses = {name: str(to_checksum_address(found.address)) for name, found in contracts.items()}
        deployment = Deployment(anvil.chain_id, 1, addresses, {})
        cohort = Cohort(chain, Timekeeper(PAUSE_BUDGET), seed, jobs, Tally(), 0)
        return cls(chain, cohort, ChainClient(connect(anvil.url, anvil.chain_id), deployment))

    @property
    def now(self) -> int:
        """The contracts' time."""
        return self.cohort.clocks.time(self.chain.now)

    def play(self, rounds: int) -> None:
        """Let every job make that many moves."""
        for _ in range(rounds):
            live = [game for game in self.cohort.games if not game.over]
            if not live:
                return
            if self.cohort.rng.random() < 0.1:
                self.cohort._guard()
            self.cohort._round(live, self.cohort._next_instant(live, hurry=False))

    def pass_time(self, seconds: int) -> None:
        """Mine an empty block."""
        self.chain.mine([], self.chain.now + seconds)

    def ends(self) -> dict[int, list[Job]]:
        """Return how each job ends if nobody moves, with either order of what is possible at the same instant."""
        found: dict[int, list[Job]] = {}
        for last_first in (False, True):
            for number, job in left_alone(self.cohort.model, self.now, last_first=last_first).jobs.items():
                found.setdefault(number, []).append(job)
        return found


def honest_root(game: Game) -> bytes:
    """Return the root of a game's honest run."""
    return Run(game.graph).root


def truth(world: World, game: Game) -> set[str]:
    """Return the ids of the alerts that a monitor without grace must raise about a job: what is so, from the model."""
    return set(_truth(world, game))


def _truth(world: World, game: Game) -> Iterator[str]:
    job, model, now, number = game.job, world.cohort.model, world.now, game.job_id
    if job.ended:
        for k, claim in enumerate(job.claims):
            if not claim.lost and not claim.collected:
                yield f"{number}:{Kind.UNCLAIMED}:{k}"
    else:
        yield from _running(world, game, job)
    if job.finder is not None and not job.ended:
        yield f"{number}:{Kind.WITHHELD}"
    for match in game.matches:
        if match.state.phase in (Phase.WALK, Phase.REFINE, Phase.OPEN):
            key = f"{match.terms.match_id:#x}"
            yield from _clock(number, key, match.state, game.terms.rules.clock, now)
    for hearing in game.hearings:
        key, state = f"{hearing.terms.submission.match_id:#x}", hearing.state
        rules = game.terms.rules
        length = rules.verdict_period if state.phase is HearingPhase.VOTING else rules.appeal_period
        if state.in_trial:
            trial = model.panel.trial_of(hearing.terms.hearing_id)
            assert trial is not None
            yield from _clock(number, f"{trial:#x}", model.panel.trials[trial].state, rules.clock, now)
        elif now >= state.until:
            yield f"{number}:{Kind.OVERDUE}:{key}"
        elif state.phase is not HearingPhase.RULED and state.until - now <= NEAR * length:
            yield f"{number}:{Kind.HEARING}:{key}"


def _clock(number: int, key: str, state, period: int, now: int) -> Iterator[str]:
    if clock.late(state, now):
        yield f"{number}:{Kind.OVERDUE}:{key}"
        return
    for side in sides(clock.owing(state)):
        if state.tick + state.clock[side] - now <= NEAR * period:
            yield f"{number}:{Kind.CLOCK}:{key}:{side}"


def _running(world: World, game: Game, job: Job) -> Iterator[str]:
    model, now, number, terms = world.cohort.model, world.now, game.job_id, game.terms
    for k, group in enumerate(job.groups):
        if group.refutes is not None and not group.dead and not job.groups[group.refutes].dead:
            yield f"{number}:{Kind.REFUTATION}:{k}"
    until: dict[bytes, int] = {}
    for (subject, _), request in model.data_availability.requests.items():
        if subject.job_id != number or request.state is not RequestState.OPEN:
            continue
        asked = job.group_of(subject.root)
        binds = (
            job.finder is None
            if request.life == 0
            else bool(asked and not asked.dead and asked.deaths + 1 == request.life)
        )
        if binds:
            until[subject.root] = min(until.get(subject.root, request.until), request.until)
    for root, at in until.items():
        if now > at:
            yield f"{number}:{Kind.OVERDUE}:request:{root.hex()}"
        elif at - now <= NEAR * terms.rules.verdict_period:
            yield f"{number}:{Kind.REQUEST}:{root.hex()}"
    registry, panel = model.panel.registry, model.panel.address
    least = MIN_STAKE * fee_at(world.chain.base_fee, terms.low_fee, terms.high_fee)
    for verifier in terms.verifiers:
        kept = registry.verifiers.get(verifier)
        if kept is None or kept.panel != panel or kept.bond < least or kept.leaves_at:
            yield f"{number}:{Kind.BOND}:{verifier.lower()}"
    if job.phase(now) is JobPhase.CLOSING and not job.open_matches:
        due = max(job.challenge_end, job.reclaim_end)
        roots = set(until) if job.waiting is not None else set()
        bound = any(root == job.groups[job.waiting].root or root == job.logs for root in roots)  # type: ignore[index]
        if now >= due and not bound and (game.reward or job.trainers):
            yield f"{number}:{Kind.OVERDUE}:finalize"


def end_of(job: Job) -> tuple[str, bytes | None]:
    """Return phase and accepted root of a job that has ended."""
    return job.ended.name.lower(), None if job.accepted is None else job.groups[job.accepted].root


def comes_out_wrong(now: Job, end: Job, right: bytes) -> bool:
    """Return whether a wrong root is accepted in the end, or the right one, which lives now, has lost all claims."""
    root = end_of(end)[1]
    own = now.group_of(right)
    left = end.group_of(right)
    lost = own is not None and not own.dead and left is not None and left.dead and not now.ended
    return (root is not None and root != right) or lost


def owed(world: World) -> set[tuple[str, str]]:
    """Return escrow and account of each credit that nobody has withdrawn."""
    model = world.cohort.model
    escrows = {"Jobs": model, "Panel": model.panel, "DataAvailability": model.data_availability}
    return {
        (name, account.lower())
        for name, escrow in escrows.items()
        for account, wei in escrow.credits.items()
        if wei and account.lower() != BURNED.lower()
    }
