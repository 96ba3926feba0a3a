"""The contracts Panel and Court in Python: hearings, trials and credits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from referee_py import trial as court
from referee_py.panel import refusals, rules
from referee_py.panel.rules import Bonded, Credit, DecideMatch, Effect, Hold, OpenTrial, Release, Slash
from referee_py.panel.state import HearingState, HearingTerms, Move, trial_terms_of
from referee_py.params import BURNED, PRIZE_DIVISOR
from referee_py.trial import Stage, Timeout, TrialState
from referee_py.walk.dispute import Dispute, TrialTerms
from referee_py.walk.reason import Reason
from referee_py.walk.refusals import require

from .escrow import Escrow
from .registry import Registry

MatchDecider = Callable[[int, int, Reason, tuple[str, ...], int], None]
"""Callback that ends a match: its id, losers, reason, the deciding verifiers, and the instant in seconds."""
BondOf = Callable[[HearingTerms], int]
"""Callback that returns the present bond of an appeal in a hearing, in wei."""


@dataclass(slots=True)
class Hearing:
    """A hearing with its fixed facts."""

    terms: HearingTerms
    state: HearingState


@dataclass(slots=True)
class Trial:
    """A trial of a hearing."""

    hearing_id: int
    trial_terms: TrialTerms
    dispute: Dispute
    state: TrialState


@dataclass(frozen=True, slots=True)
class Opening:
    """A hearing that can begin, and the trial with which it begins, if any, by the Court's id."""

    hearing: Hearing
    trials: dict[int, Trial]


class Panel(Escrow):
    """Hearings by id, and trials by the Court's id. A move takes full effect or raises a Refusal.

    INVARIANT: ether in = credits + bonds of appeals whose hearings are not over + ether withdrawn.
    """

    def __init__(
        self,
        address: str,
        registry: Registry,
        decide_match: MatchDecider,
        bond: BondOf = lambda terms: terms.stake,
    ) -> None:
        super().__init__()
        self.address = address
        self.registry = registry
        self.hearings: dict[int, Hearing] = {}
        self.trials: dict[int, Trial] = {}
        self._decide_match = decide_match
        self._bond = bond

    # --- moves ----------------------------------------------------------------------------------------------------

    def opening(self, terms: HearingTerms, now: int) -> Opening:
        """Check a submission and return its hearing, which `hear` begins. Raises a Refusal."""
        if terms.hearing_id in self.hearings:
            raise refusals.AlreadyHeard(f"hearing {terms.hearing_id:#x}")
        state, effects = rules.heard(terms, now)
        return Opening(Hearing(terms, state), self._opened(terms, effects, now))

    def hear(self, opening: Opening) -> None:
        self.hearings[opening.hearing.terms.hearing_id] = opening.hearing
        self.trials |= opening.trials

    def play(self, hearing_id: int, move: Move, sender: str, value: int, now: int) -> None:
        """Play a move of a hearing; ``value`` is the wei sent as an appeal's bond."""
        hearing = self.hearings.get(hearing_id)
        if hearing is None:
            raise refusals.WrongHearingPhase(f"there is no hearing {hearing_id:#x}")
        # NOTE: the bond of an appeal follows the price of gas, so it is read anew for each move.
        terms = replace(hearing.terms, stake=self._bond(hearing.terms))
        self._enact(hearing, rules.apply(hearing.state, terms, move, sender, value, now), now)

    def plead(self, trial: int, moves: Sequence[court.Move], sender: str, now: int) -> None:
        """Play moves of one trial in one transaction, and apply the trial's result if it ends."""
        tried = self.trials.get(trial)
        if tried is None:
            raise court.refusals.WrongStage(f"there is no trial {trial:#x}")
        state = tried.state
        for move in moves:
            state = court.apply(state, tried.dispute, move, sender, now)
        tried.state = state
        if state.stage is Stage.DONE:
            self.trial_decided(tried.hearing_id, state.losers, isinstance(moves[-1], Timeout), now)

    def trial_decided(self, hearing_id: int, losers: int, late: bool, now: int) -> None:
        """Apply the Court's result of the trial that runs in this hearing."""
        hearing = self.hearings[hearing_id]
        self._enact(hearing, rules.trial_decided(hearing.state, losers, late, now), now)

    # --- effects --------------------------------------------------------------------------------------------------

    def _opened(self, terms: HearingTerms, effects: Sequence[Effect], now: int) -> dict[int, Trial]:
        clock = (terms.rules.clock, terms.rules.clock)
        opened = [effect for effect in effects if isinstance(effect, OpenTrial)]
        trial_terms = [
            trial_terms_of(terms, effect.number, effect.players, effect.dispute) for effect in opened
        ]
        return {
            trial_terms.trial(): Trial(
                terms.hearing_id,
                trial_terms,
                effect.dispute,
                court.open_trial(effect.dispute, effect.players, clock, now),
            )
            for trial_terms, effect in zip(trial_terms, opened, strict=True)
        }

    def _enact(self, hearing: Hearing, outcome: rules.Outcome, now: int) -> None:
        state, effects = outcome
        for effect in effects:
            if isinstance(effect, Bonded):
                bonded = self.registry.answers(effect.verifier, self.address)
                require(bonded, refusals.NoBond, effect.verifier)
        trials = self._opened(hearing.terms, effects, now)
        for effect in effects:
            if isinstance(effect, Hold):
                self.registry.hold(effect.verifier, self.address)
        # INVARIANT: from here on nothing is refused.
        hearing.state = state
        self.trials |= trials
        for effect in effects:
            self._carry_out(effect, hearing, now)

    def _carry_out(self, effect: Effect, hearing: Hearing, now: int) -> None:
        match effect:
            case Release():
                self.registry.release(effect.verifier, self.address)
            case Slash():
                bond, alone = self.registry.take(effect.signer, self.address)
                # SAFETY: otherwise a signer could first lose its bond to itself in its own hearing, and keep half.
                prize = bond // PRIZE_DIVISOR if alone else 0
                self.credit(effect.accuser, prize)
                self.credit(BURNED, bond - prize)
            case Credit():
                self.credit(effect.account, effect.amount)
            case DecideMatch():
                match_id = hearing.terms.submission.match_id
                self._decide_match(match_id, effect.losers, effect.reason, effect.deciders, now)

    # --- views ----------------------------------------------------------------------------------------------------

    def at_risk(self) -> int:
        """Return the sum of the bonds of appeals whose hearings are not over, in wei."""
        return sum(hearing.state.bond for hearing in self.hearings.values())

    def trial_of(self, hearing_id: int) -> int | None:
        """Return the Court's id of the trial that runs in a hearing, or None."""
        state = self.hearings[hearing_id].state
        if not state.in_trial:
            return None
        return next(
            k for k, trial in self.trials.items() if trial.trial_terms.id == hearing_id | state.trials
        )
