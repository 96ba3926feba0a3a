"""A hearing that ends in a trial: the verifier signs the lie, and the honest party appeals in the last second."""

from __future__ import annotations

from typing import Any

from eth_account import Account

from referee_py.attestation import Verdict, sign
from referee_py.panel.solver import plan
from referee_py.panel.state import Appeal, Attest, HearingPhase
from tests.model.panel import Hearing
from tests.referee_py.game.chain import Transaction
from trainer_node.chain.codec.hearing import hearing_call

from .table import Table, most_gas
from .trials import Style


class Votes:
    """`players`: the honest party, on that `side`, and the liar. `stake`: the bond of an appeal, in wei."""

    def __init__(
        self, table: Table, players: tuple[str, str], key: bytes, stake: int, *, side: int, style: Style
    ) -> None:
        self.table, self.key, self.stake, self.side, self.style = table, key, stake, side, style
        self.right, self.liar = players

    def turn(self, hearing: Hearing) -> None:
        state, terms, now = hearing.state, hearing.terms, self.table.chain.now
        if state.phase is HearingPhase.VOTING and now + 1 < state.until and self.style is not Style.MUTE:
            lie = terms.submission.records[1 - self.side]
            verdict = Verdict(terms.hearing_id, terms.submission.step, terms.submission.node, lie)
            vote = Attest(
                terms.submission, lie, sign(verdict, terms.chain_id, terms.panel, Account.from_key(self.key))
            )
            self._send(hearing, vote, self.liar, now + 1)
            return
        right = terms.dispute.records[self.side]
        for at in (max(state.until - 1, now + 1), max(state.until, now + 1)):
            move = plan(state, terms, self.right, right, at)
            if move is not None:
                self._send(hearing, move, self.right, at)
                return
        raise AssertionError(f"nothing is due: {state}")

    def _send(self, hearing: Hearing, move: Any, sender: str, at: int) -> None:
        panel = self.table.chain.panel
        paid = self.stake if isinstance(move, Appeal) else 0
        function, given = hearing_call(move, hearing.terms.hearing_id)
        data = panel.calldata(function, *given)
        self.table.send(
            f"panel.{move.function}",
            Transaction(sender, panel.address, data, paid),
            lambda now: self.table.model.panel.play(hearing.terms.hearing_id, move, sender, paid, now),
            at,
            most_gas([(move.function, data)]),
        )
