"""A small driver for scenario tests: one hearing with all its parties, on a simulated clock."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache

import numpy as np
from eth_account import Account

from referee_py.attestation import Verdict, sign
from referee_py.commit import Record
from referee_py.jobs import Rules
from referee_py.panel.state import (
    Appeal,
    Attest,
    Escalate,
    HearingState,
    HearingTerms,
    Move,
    Proceed,
    Stand,
    Submission,
    hearing_id,
)
from referee_py.walk.dispute import dispute_hash
from referee_py.walk.reason import Reason
from referee_py.walk.refusals import Refusal
from tests.model.panel import Hearing, Panel
from tests.model.registry import Registry
from tests.referee_py.trial.parties import Setting

KEYS = tuple(bytes([k]) * 32 for k in range(1, 5))
VERIFIERS = tuple(str(Account.from_key(key).address) for key in KEYS)
SPOKESMEN = ("0x" + "A0" * 20, "0x" + "B1" * 20)
STRANGER = "0x" + "EE" * 20
JOBS, REFEREE, PANEL = ("0x" + digit * 40 for digit in "123")
CHAIN_ID, MATCH_ID = 31337, 7
STAKE, BOND = 1001, 501
START, VERDICT_PERIOD, APPEAL_PERIOD, CLOCK = 1_000, 50, 30, 10


@cache
def setting() -> Setting:
    """Return a sum of two vectors, of which side 1 has one element wrong."""
    inputs = [np.arange(5, dtype=np.float32) + k for k in (1, 2)]
    made = Setting.of("add", inputs, {}, 0.5, honest=0)
    assert made is not None
    return made


RIGHT, WRONG = setting().dispute.records
NEITHER = Record(RIGHT.structure, RIGHT.inputs, (bytes([9]) * 32,), RIGHT.log)


@cache
def signature(record: bytes, verifier: int) -> bytes:
    """Return the signature of a verifier, by number, for this hearing."""
    terms = terms_of(1)
    verdict = Verdict(terms.hearing_id, terms.submission.step, terms.submission.node, record)
    return sign(verdict, CHAIN_ID, PANEL, Account.from_key(KEYS[verifier]))


def terms_of(threshold: int, verifiers: int = 3) -> HearingTerms:
    dispute = setting().dispute
    return HearingTerms(
        hearing_id=hearing_id(REFEREE, MATCH_ID),
        submission=Submission(
            match_id=MATCH_ID,
            jobs=JOBS,
            job_id=3,
            step=5,
            node=2,
            players=SPOKESMEN,
            records=(RIGHT.hash(), WRONG.hash()),
            dispute=dispute_hash(dispute),
        ),
        dispute=dispute,
        rules=Rules(threshold, VERDICT_PERIOD, APPEAL_PERIOD, CLOCK),
        stake=STAKE,
        verifiers=VERIFIERS[:verifiers],
        chain_id=CHAIN_ID,
        panel=PANEL,
    )


@dataclass
class Scene:
    """A hearing from its submission on. Tests set ``now``. Side 0 is right."""

    threshold: int = 1
    verifiers: int = 3
    now: int = START
    paid: dict[str, int] = field(default_factory=dict)
    """Bonds of appeals in wei, by payer."""
    decided: list[tuple[int, Reason, tuple[str, ...]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.terms = terms_of(self.threshold, self.verifiers)
        self.registry = Registry()
        for verifier in self.terms.verifiers:
            self.registry.register(PANEL, verifier, BOND)
        self.panel = Panel(PANEL, self.registry, self._decide_match)
        self.panel.hear(self.panel.opening(self.terms, self.now))

    def _decide_match(
        self, match_id: int, losers: int, reason: Reason, deciders: tuple[str, ...], now: int
    ) -> None:
        assert (match_id, now) == (MATCH_ID, self.now)
        self.decided.append((losers, reason, deciders))

    @property
    def hearing(self) -> Hearing:
        return self.panel.hearings[self.terms.hearing_id]

    @property
    def state(self) -> HearingState:
        return self.hearing.state

    # --- moves ----------------------------------------------------------------------------------------------------

    def play(self, move: Move, sender: str = STRANGER, value: int = 0) -> Scene:
        self.panel.play(self.terms.hearing_id, move, sender, value, self.now)
        if value:
            self.paid[sender] = self.paid.get(sender, 0) + value
        return self

    def voted(self, record: Record, *verifiers: int) -> Scene:
        for verifier in verifiers:
            self.play(self.vote(record, verifier))
        return self

    def vote(self, record: Record, verifier: int) -> Attest:
        return Attest(self.terms.submission, record.hash(), signature(record.hash(), verifier))

    @property
    def appeal(self) -> Appeal:
        return Appeal(self.terms.submission, self.terms.dispute)

    @property
    def escalate(self) -> Escalate:
        return Escalate(self.terms.submission, self.terms.dispute)

    @property
    def proceed(self) -> Proceed:
        return Proceed(self.terms.submission)

    def stand(self, record: Record) -> Stand:
        return Stand(self.terms.submission, self.terms.dispute, record)

    def appealed(self, side: int) -> Scene:
        return self.play(self.appeal, SPOKESMEN[side], STAKE)

    def tried(self, losers: int, *, late: bool = False) -> Scene:
        """End the running trial with these losers, without any moves."""
        self.panel.trial_decided(self.terms.hearing_id, losers, late, self.now)
        return self

    def over(self) -> Scene:
        """Go to the end of the period."""
        self.now = self.state.until
        return self

    # --- views ----------------------------------------------------------------------------------------------------

    def refused(self, move: Move, sender: str = STRANGER, value: int = 0) -> str | None:
        """Return the name of the refusal, which changes nothing; None if the move would be accepted."""
        trial, name = self.copy(), ""
        try:
            trial.play(move, sender, value)
        except Refusal as refusal:
            name = type(refusal).__name__
        assert not name or trial.kept() == self.kept()
        return name or None

    def kept(self) -> list[object]:
        """Return all state that a chain keeps."""
        panel, registry = self.panel, self.registry
        return [
            self.paid,
            self.state,
            panel.credits,
            panel.trials,
            registry.verifiers,
            registry.held,
            self.decided,
        ]

    def copy(self) -> Scene:
        """Return a copy that continues on its own."""
        other = object.__new__(Scene)
        vars(other).update(vars(self))
        other.decided, other.paid = list(self.decided), dict(self.paid)
        other.registry = object.__new__(Registry)
        vars(other.registry).update(vars(self.registry))
        other.registry.verifiers, other.registry.held = (
            dict(self.registry.verifiers),
            dict(self.registry.held),
        )
        other.panel = Panel(PANEL, other.registry, other._decide_match)
        other.panel.credits, other.panel.trials = dict(self.panel.credits), dict(self.panel.trials)
        other.panel.hearings = {k: Hearing(h.terms, h.state) for k, h in self.panel.hearings.items()}
        return other

    def credits(self, *accounts: str) -> list[int]:
        return [self.panel.credits.get(account, 0) for account in accounts]

    def bonds(self, *verifiers: int) -> list[int]:
        """Return the verifiers' remaining bonds, in wei."""
        found = [self.registry.verifiers.get(VERIFIERS[k]) for k in verifiers]
        return [verifier.bond if verifier else 0 for verifier in found]

    def holds(self) -> list[int]:
        """Return the number of holds on each verifier's bond."""
        return [self.registry.held.get((verifier, PANEL), 0) for verifier in self.terms.verifiers]

    def conserved(self) -> bool:
        """Return whether ether in = credits + bonds of appeals + bonds of verifiers."""
        bonds = sum(verifier.bond for verifier in self.registry.verifiers.values())
        held = sum(self.panel.credits.values()) + self.panel.at_risk() + bonds
        return held == sum(self.paid.values()) + BOND * len(self.terms.verifiers)
