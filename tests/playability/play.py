"""One job on a local chain from two claims to payment: a right claim that moves second, and a lie.

The honest party sends nothing before it has to. It lets its clock run down to a second for each move that it may still
have to make, answers within one second from then on, and concludes in the last second of its clock. The liar has all
of its own time, answers at once, and shows everything it can first; `Style` defines its lies.

The Python twin (`ChainModel`) plays along, so every move is planned from its states; the chain must accept each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import astuple, fields
from functools import partial
from random import Random
from typing import Any

from eth_abi.abi import decode
from eth_account import Account

from referee_py.game.calldata import MATCH_TERMS
from referee_py.game.state import Phase
from referee_py.jobs import JobPhase, Rules, commitment
from referee_py.panel.state import HearingPhase
from tests.model.chain_model import ChainModel
from tests.model.jobs import Claim, Job, JobTerms, Match
from tests.model.panel import Hearing
from tests.referee_py.game.actions import address
from tests.referee_py.game.chain import Chain, Transaction
from tests.referee_py.game.synthetic import value
from tests.referee_py.game.synthetic_run import Lie, Run

from .job import CaseGraph, rounded
from .matches import Matches
from .requested import OpenRequest
from .table import Table
from .trials import Style, Trials
from .votes import Votes

STAKE, REWARD, BOND = 1_000_000, 500_000, 10_000
PERIOD, CLOCK = 400, 300
TOO_LONG = 400
"""Transactions of a job that goes round in circles."""


class Play:
    """One job, from the post to the last withdrawal."""

    def __init__(
        self,
        table: Table,
        graph: CaseGraph,
        lie: Lie,
        *,
        side: int,
        style: Style,
        court_only: bool,
        seed: object,
        one_by_one: bool,
    ) -> None:
        """`side` is that of the honest party; `one_by_one` is whether it sends moves one by one."""
        self.table, self.graph, self.side, self.style = table, graph, side, style
        self.rng = Random(repr(seed))
        self.runs = [Run(graph), Run(graph, (lie,))]
        self.right, self.liar, self.client, self.auditor = (
            address(seed, name) for name in ("right", "liar", "client", "auditor")
        )
        self.key = value("key", seed)
        self.verifiers = () if court_only else (str(Account.from_key(self.key).address),)
        self.rules = Rules(len(self.verifiers), 100, 100, CLOCK)
        players = self.right, self.liar
        self.matches = Matches(table, self.runs, players, side=side, style=style, one_by_one=one_by_one)
        self.trials = Trials(
            table, graph, players, side=side, style=style, rng=self.rng, one_by_one=one_by_one
        )
        self.votes = Votes(table, players, self.key, STAKE, side=side, style=style)

    @property
    def pointless(self) -> bool:
        """True if the lie changes nothing, so that both claims are equal."""
        return self.runs[0].root == self.runs[1].root

    @property
    def job(self) -> Job:
        return self.model.jobs[self.job_id]

    @property
    def model(self) -> ChainModel:
        return self.table.model

    @property
    def chain(self) -> Chain:
        return self.table.chain

    @property
    def now(self) -> int:
        return self.chain.now

    @property
    def match(self) -> Match | None:
        """The match that is open, or whose hearing is."""
        found = [
            m
            for m in self.model.matches.values()
            if m.job_id == self.job_id and m.state.phase is not Phase.DONE
        ]
        return found[0] if found else None

    @property
    def hearing(self) -> Hearing | None:
        found = [
            h
            for h in self.model.panel.hearings.values()
            if h.terms.submission.job_id == self.job_id and h.state.phase is not HearingPhase.DONE
        ]
        return found[0] if found else None

    # ------------------------------------------------------------------ the whole job

    def play(self) -> None:
        """Play to the end: the lie loses its stake, the right root is accepted, and its claimant loses nothing."""
        everybody = [self.right, self.liar, self.client, self.auditor, *self.verifiers]
        self.chain.fund(everybody)
        before = self._balances(everybody)
        self._register()
        self._post()
        self._claims()
        self._open_request()
        for _ in range(TOO_LONG):
            if self.match is None and self.hearing is None:
                break
            self._turn()
        self._jobs_call(
            "finalize",
            self.client,
            (self.job_id,),
            lambda now: self.model.finalize(self.job_id, now),
            self._after(max(self.job.challenge_end, self.job.reclaim_end)),
        )
        self._collect()
        self._withdraw()
        after = self._balances(everybody)
        job = self.job
        assert job.ended is JobPhase.ACCEPTED, job
        assert job.accepted is not None
        assert job.groups[job.accepted].root == self.runs[0].root, "a lie is accepted"
        gained = {
            account: after[account] + self.table.fees.get(account, 0) - before[account]
            for account in everybody
        }
        assert gained[self.right] >= 0, f"the honest party has paid: {gained}"
        assert gained[self.liar] < 0, f"a lie costs nothing: {gained}"

    def _open_request(self) -> None:
        """Request places under the right root, and of the logs; the answers come in the last second."""
        who = self.auditor, self.right
        OpenRequest(self.table, self.graph, self.runs[0], self.job_id, who, self.rng).play()

    def _balances(self, accounts: Sequence[str]) -> dict[str, int]:
        found = self.chain.batch([("eth_getBalance", [account, "latest"]) for account in accounts])
        return dict(zip(accounts, (int(amount, 16) for amount in found), strict=True))

    def _after(self, instant: int) -> int:
        return max(instant, self.now + 1)

    # ------------------------------------------------------------------ the job

    def _register(self) -> None:
        registry, panel = self.chain.registry, self.model.panel
        for verifier in self.verifiers:
            data = registry.calldata("register", self.chain.panel.address, "http://verifier")
            self.table.send(
                "registry.register",
                Transaction(verifier, registry.address, data, BOND),
                partial(lambda v, _: panel.registry.register(panel.address, v, BOND), verifier),
            )

    def _post(self) -> None:
        program = self.graph.header
        self.terms = JobTerms(
            program,
            1 if rounded(self.graph) else 2,
            STAKE,
            PERIOD,
            PERIOD,
            PERIOD,
            self.rules,
            self.verifiers,
        )
        encoded = [getattr(program, f.name) for f in fields(program)]
        wire = (
            *(
                (*encoded[:-1], list(program.strides)),
                value("file"),
                "http://client",
                self.chain.referee.address,
            ),
            *(self.terms.slots, STAKE, 1, 1, PERIOD, 0, PERIOD, PERIOD),
            *(astuple(self.rules), list(self.verifiers)),
        )
        data = self.chain.jobs.calldata("post", wire)
        made = Transaction(self.client, self.chain.jobs.address, data, REWARD)
        self.table.send("jobs.post", made, self._posted)
        self.job_id = int(self.chain.receipts[made.hash]["logs"][-1]["topics"][1], 16)
        assert self.job_id in self.model.jobs, "the model counts other jobs"

    def _posted(self, now: int) -> None:
        self.model.post(self.terms, self.client, REWARD, now)

    def _claims(self) -> None:
        """Make both claims. The first is side 0; in rounded-f64 it is the trainer's, and the other one challenges."""
        order = [(self.right, self.runs[0]), (self.liar, self.runs[1])]
        if self.side:
            order.reverse()
        logs, salt = self.graph.logs, value("salt")
        for account, run in order[: self.terms.slots]:
            self._jobs_call(
                "join",
                account,
                (self.job_id,),
                partial(self.model.join, self.job_id, account, STAKE),
                value=STAKE,
            )
            self._commit("commit", account, run, logs)
        for account, run in order[: self.terms.slots]:
            claim, wire = self._claim(run)
            self._jobs_call(
                "reveal",
                account,
                (self.job_id, wire, logs, salt),
                partial(
                    lambda c, a, now: self.model.reveal(self.job_id, c, logs, salt, a, 0, now), claim, account
                ),
            )
        for account, run in order[self.terms.slots :]:
            self._commit("commitChallenge", account, run, bytes(32))
            self._idle()
            claim, wire = self._claim(run)
            self._jobs_call(
                "challenge",
                account,
                (self.job_id, wire, salt),
                partial(
                    lambda c, a, now: self.model.challenge(self.job_id, c, salt, a, STAKE, now),
                    claim,
                    account,
                ),
                value=STAKE,
            )
        self._rename()

    def _idle(self) -> None:
        """Let some blocks pass: a challenge needs a commitment that is old enough."""
        for _ in range(4):
            self.chain.mine([], self.now + 1)

    def _commit(self, name: str, account: str, run: Run, logs: bytes) -> None:
        where = self.model.chain_id, self.model.address, self.job_id, account
        made = commitment(*where, run.root, run.last, logs, value("salt"))

        def play(now: int) -> None:
            if name == "commit":
                self.model.commit(self.job_id, made, account, now)
            else:
                self.model.commit_challenge(self.job_id, made, now)

        self._jobs_call(name, account, (self.job_id, made), play)

    def _claim(self, run: Run) -> tuple[Claim, tuple[object, ...]]:
        claim = Claim(run.root, run.last, tuple(run.last_path))
        return claim, (claim.root, claim.last, list(claim.last_path), "http://party")

    def _jobs_call(
        self,
        name: str,
        sender: str,
        arguments: tuple[Any, ...],
        play: Callable[[int], object],
        at: int | None = None,
        value: int = 0,
    ) -> None:
        data = self.chain.jobs.calldata(name, *arguments)
        self.table.send(f"jobs.{name}", Transaction(sender, self.chain.jobs.address, data, value), play, at)

    def _rename(self) -> None:
        """Take the chain's id for the match that has just been opened."""
        topic = "0x" + self.chain.referee.topics["Opened"].hex()
        for receipt in self.chain.receipts.values():
            for entry in receipt["logs"]:
                if entry["topics"][0] == topic:
                    number = decode([MATCH_TERMS], bytes.fromhex(entry["data"][2:]))[0][3]
                    newest = next(reversed(self.model.matches))
                    self.model.rename(newest, int(entry["topics"][1], 16), number)

    def _collect(self) -> None:
        for number, claim in enumerate(self.job.claims):
            if not claim.lost:
                self._jobs_call(
                    "collect",
                    claim.owner,
                    (self.job_id, number),
                    partial(lambda number, _: self.model.collect(self.job_id, number), number),
                )

    def _withdraw(self) -> None:
        escrows = (
            (self.chain.jobs, self.model),
            (self.chain.panel, self.model.panel),
            (self.chain.data_availability, self.model.data_availability),
        )
        for contract, escrow in escrows:
            for account in (self.right, self.liar):
                if escrow.credits.get(account):
                    made = Transaction(account, contract.address, contract.calldata("withdraw"))
                    self.table.send("withdraw", made, partial(lambda p, a, _: p.withdraw(a), escrow, account))

    # ------------------------------------------------------------------ turns

    def _turn(self) -> None:
        """The liar moves if it wants to, else the honest party, when it has to."""
        match, hearing = self.match, self.hearing
        if hearing is not None:
            number = self.model.panel.trial_of(hearing.terms.hearing_id)
            if number is not None:
                self.trials.turn(number, self.model.panel.trials[number])
            else:
                self.votes.turn(hearing)
            return
        assert match is not None
        self.matches.turn(match)
