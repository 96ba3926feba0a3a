"""The next random move of a hearing, of its trials, or of a verifier's bond."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from eth_account import Account

from referee_py import trial as court
from referee_py.attestation import Verdict, sign
from referee_py.commit import Record
from referee_py.panel.solver import plan
from referee_py.panel.state import Appeal, Attest, Escalate, HearingPhase, Move, Proceed, Stand
from referee_py.trial import NodesReveal, ShowLeaf, Timeout
from referee_py.trial.solver import Operator
from referee_py.trial.solver import plan as plan_trial
from referee_py.walk import clock
from tests.model.panel import Hearing, Trial
from tests.referee_py.trial.parties import Known
from tests.support.planned import moves_of, planned
from trainer_node.chain.codec.hearing import hearing_call
from trainer_node.chain.codec.trial import trial_call

from .actions import Action, spoil
from .chain import Transaction
from .real import RealGraph
from .synthetic import value

if TYPE_CHECKING:
    from .random_game import Game

FORGED_VERIFIER_KEY = bytes([9]) * 32
WRONG_PLAY = 0.15
"""Probability that a party that is right plays a trial wrongly."""


class Bar:
    """The accounts that act before the panel in one game: spokesmen, verifiers, and anybody else."""

    def __init__(self, game: Game) -> None:
        self.game = game
        self._seen: dict[tuple[int, int], Known] = {}
        """By trial and side: the data that this side knows of the other."""
        self._last: dict[int, tuple[court.Move, ...]] = {}

    @property
    def rng(self) -> Random:
        return self.game.rng

    def act(self, hearing: Hearing, now: int) -> Action | None:
        if hearing.state.in_trial and self.rng.random() < 0.9:
            return self._trial_action(hearing, now)
        found = self._move(hearing, now)
        if found is None:
            return None
        move, sender = found
        if isinstance(move, Appeal | Escalate) and not self.game.sane:
            return None
        move = self._spoiled(move) if self.rng.random() < 0.08 else move
        value = self.game.model.stake_of(self.game.job_id) if isinstance(move, Appeal) else 0
        if value and self.rng.random() < 0.08:
            value += self.rng.choice((-1, 1))
        return self._hearing_action(hearing, move, sender, value)

    def instants(self, hearing: Hearing) -> list[int]:
        """Return the instants at which something changes."""
        state, panel = hearing.state, self.game.model.panel
        number = panel.trial_of(hearing.terms.hearing_id)
        if number is None:
            return [state.until]
        trial = panel.trials[number].state
        owing = clock.owing(trial)
        return [trial.tick + trial.clock[side] for side in (0, 1) if owing >> side & 1]

    # --- moves of a hearing -------------------------------------------------------------------------------------------

    def _hearing_action(self, hearing: Hearing, move: Move, sender: str, value: int) -> Action:
        game, hearing_id = self.game, hearing.terms.hearing_id
        function, arguments = hearing_call(move, hearing_id)
        data = game.chain.panel.calldata(function, *arguments)
        return Action(
            f"panel.{move.function}",
            Transaction(sender, game.chain.panel.address, data, value),
            lambda at: game.model.panel.play(hearing_id, move, sender, value, at),
            match=game.model.matches[hearing.terms.submission.match_id],
            hearing=hearing,
        )

    def _move(self, hearing: Hearing, now: int) -> tuple[Move, str] | None:
        """Return a move and its sender: one that is due, one that somebody wants, or one that does not fit."""
        rng, state, terms = self.rng, hearing.state, hearing.terms
        anybody = rng.choice(self.game.accounts)
        if rng.random() < 0.12:
            return rng.choice(self._every(hearing)), anybody
        match state.phase:
            case HearingPhase.VOTING if now < state.until or rng.random() < 0.05:
                return self._vote(hearing), anybody
            case HearingPhase.VOTING if rng.random() < 0.3:
                move = rng.choice((Escalate(terms.submission, terms.dispute), Proceed(terms.submission)))
                return move, anybody
            case HearingPhase.RULED if rng.random() < 0.3:
                return Appeal(terms.submission, terms.dispute), rng.choice(terms.submission.players)
            case HearingPhase.DEFENCE if rng.random() < 0.3:
                signer = rng.choice(state.signers(state.verdict))
                return self._stand(hearing), signer if rng.random() < 0.85 else anybody
        right = rng.choice(self._records(hearing))
        me = rng.choice((*terms.submission.players, *state.voters, anybody))
        due = plan(state, terms, me, right, now)
        return (due, me) if due else None

    def _every(self, hearing: Hearing) -> list[Move]:
        submission, dispute = hearing.terms.submission, hearing.terms.dispute
        return [
            Appeal(submission, dispute),
            Escalate(submission, dispute),
            Proceed(submission),
            self._stand(hearing),
            self._vote(hearing),
        ]

    def _records(self, hearing: Hearing) -> list[Record]:
        """Return records for votes: the true one (twice as likely), each side's, and one that nobody claims."""
        graph, (one, other) = self.game.graph, hearing.terms.dispute.records
        truth = graph.truth(hearing.terms.submission.node, one.inputs, one.log)
        if not truth.outputs:
            return [truth, one, other]
        bent = replace(truth, outputs=(graph.bent(truth.outputs[0], 77), *truth.outputs[1:]))
        return [truth, truth, one, other, bent]

    def _vote(self, hearing: Hearing) -> Attest:
        """Return a vote, mostly for the record that most verifiers call right, which may be wrong."""
        rng, terms = self.rng, hearing.terms
        records = self._records(hearing)
        record = Random(terms.hearing_id).choice(records) if rng.random() < 0.8 else rng.choice(records)
        named = record.hash() if rng.random() < 0.97 else value("no record")
        key = rng.choice(self.game.keys) if rng.random() < 0.95 else FORGED_VERIFIER_KEY
        verdict = Verdict(terms.hearing_id, terms.submission.step, terms.submission.node, named)
        return Attest(
            terms.submission, named, sign(verdict, terms.chain_id, terms.panel, Account.from_key(key))
        )

    def _stand(self, hearing: Hearing) -> Stand:
        records, verdict = self._records(hearing), hearing.state.verdict
        signed = [record for record in records if record.hash() == verdict]
        record = self.rng.choice(signed if signed and self.rng.random() < 0.9 else records)
        return Stand(hearing.terms.submission, hearing.terms.dispute, record)

    def _spoiled(self, move: Move) -> Move:
        rng, submission = self.rng, move.submission
        spoiled: list[Move] = [
            replace(move, submission=replace(submission, step=submission.step + 1)),
            replace(move, submission=replace(submission, records=submission.records[::-1])),
            replace(move, submission=replace(submission, players=submission.players[::-1])),
        ]
        match move:
            case Attest():
                spoiled += [replace(move, signature=spoil(rng, move.signature))] * 3
                spoiled.append(replace(move, record=spoil(rng, move.record)))
            case Appeal() | Escalate() | Stand():
                records = move.dispute.records[::-1]
                spoiled.append(replace(move, dispute=replace(move.dispute, records=records)))
                spoiled.append(replace(move, dispute=replace(move.dispute, mode=move.dispute.mode ^ 1)))
        return rng.choice(spoiled)

    # --- moves of a trial ---------------------------------------------------------------------------------------------

    def _trial_action(self, hearing: Hearing, now: int) -> Action | None:
        rng, game = self.rng, self.game
        number = game.model.panel.trial_of(hearing.terms.hearing_id)
        assert number is not None
        trial, side = game.model.panel.trials[number], rng.randrange(2)
        moves = self._pleadings(number, trial, side, now)
        if not moves:
            return None
        sender = trial.state.players[side] if rng.random() < 0.93 else rng.choice(game.accounts)
        steps = planned(trial.state, moves, lambda at, m: court.apply(at, trial.dispute, m, sender, now))
        named = [trial_call(move, trial.trial_terms, trial.dispute, state) for move, state in steps]
        calls = [game.chain.court.calldata(name, *given) for name, given in named]
        return Action(
            "+".join(f"court.{name}" for name, _ in named),
            Transaction(
                sender,
                game.chain.court.address,
                calls[0] if len(calls) == 1 else game.chain.court.calldata("multicall", calls),
            ),
            lambda at: game.model.panel.plead(number, moves, sender, at),
            match=game.model.matches[hearing.terms.submission.match_id],
            hearing=hearing,
            trial=number,
            pleaded=tuple(moves),
        )

    def _pleadings(self, number: int, trial: Trial, side: int, now: int) -> Sequence[court.Move]:
        """Return the moves of the side's solver, in half of the cases only the first; or a move at the wrong time."""
        rng, roll = self.rng, self.rng.random()
        if roll < 0.06:
            return [Timeout()]
        if roll < 0.12 and number in self._last:
            return self._last[number]
        own = self._operator(number, trial, side)
        if own is None:
            return [Timeout()] if clock.late(trial.state, now) else []
        known = self._seen.setdefault((number, side), self._known(number, trial, 1 - side))
        moves = moves_of(plan_trial(trial.state, trial.dispute, side, own, known, now))
        return moves[:1] if rng.random() < 0.5 else moves

    def _operator(self, number: int, trial: Trial, side: int) -> Operator | None:
        """Return the side's data; None if its claim is invented. A wrong side has false states from some step on."""
        graph, record = self.game.graph, trial.dispute.records[side]
        if not isinstance(graph, RealGraph):
            return None
        node = self.game.model.panel.hearings[trial.hearing_id].terms.submission.node
        right = record == graph.truth(node, record.inputs, record.log)
        fixed = Random(number + side)
        turn = fixed.randrange(17) if not right or fixed.random() < WRONG_PLAY else None
        return graph.operator(record, turn=turn)

    def _known(self, number: int, trial: Trial, other: int) -> Known:
        own = self._operator(number, trial, other)
        serves = own is not None and Random(number ^ other).random() < 0.4
        return Known(own.outputs if own and serves else None)

    def observe(self, action: Action) -> None:
        """Pass accepted moves of a trial on to both sides."""
        if not action.pleaded:
            return
        self._last[action.trial] = action.pleaded
        trial = self.game.model.panel.trials[action.trial]
        for move in action.pleaded:
            if not isinstance(move, NodesReveal | ShowLeaf):
                continue
            other = 1 - move.side
            known = self._seen.setdefault((action.trial, other), self._known(action.trial, trial, move.side))
            if isinstance(move, NodesReveal):
                known.revealed = move.children
            else:
                known.shown = move.leaf

    # --- bonds and credits --------------------------------------------------------------------------------------------

    def bond_action(self) -> Action:
        """Return an action in which a verifier registers, leaves, or withdraws its bond."""
        rng, game = self.rng, self.game
        k = rng.randrange(len(game.verifiers))
        sender = game.verifiers[k] if rng.random() < 0.95 else game.stranger
        registry, at = game.model.panel.registry, game.chain.registry
        name = rng.choice(("register", "unregister", "withdrawBond", "withdrawBond"))
        if name == "register":
            bond = rng.choice((0, game.bonds[k]))
            data = at.calldata(name, game.chain.panel.address, "http://verifier")
            paid = Transaction(sender, at.address, data, bond)
            panel = game.model.panel.address
            return Action("registry.register", paid, lambda _: registry.register(panel, sender, bond))
        move = registry.unregister if name == "unregister" else registry.withdraw_bond
        transaction = Transaction(sender, at.address, at.calldata(name))
        return Action(f"registry.{name}", transaction, lambda now: move(sender, now))

    def withdrawal(self, sender: str) -> Action:
        """Return an action that withdraws a credit from the panel."""
        panel = self.game.chain.panel
        transaction = Transaction(sender, panel.address, panel.calldata("withdraw"))
        return Action("panel.withdraw", transaction, lambda _: self.game.model.panel.withdraw(sender))
