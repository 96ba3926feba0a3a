"""One random job with its parties, and the next move in it: sensible, spoiled or senseless."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple, dataclass, fields
from functools import partial
from random import Random
from typing import Any

from eth_account import Account

from referee_py.commit import NO_LOG
from referee_py.game.state import Phase
from referee_py.jobs import JobPhase, Rules, commitment
from referee_py.panel.state import HearingPhase
from referee_py.walk import clock
from tests.model.chain_model import ChainModel
from tests.model.jobs import Claim, Job, JobTerms, Match, Refutation
from tests.model.panel import Hearing

from .actions import Action, address, spoil
from .chain import Chain, Transaction
from .random_hearing import Bar
from .random_match import Duels
from .random_request import Auditors
from .real import random_real_graph
from .synthetic import Graph, random_graph, value
from .synthetic_run import Graft, Lie, Run, random_lie

MIN_STAKE, MOST_LOW_FEE = 100, 100
MOST_REFUTATIONS = 3
"""The most refutations of a root. NOTE: a refuter may refute again and again."""
LEAVE_DELAY = 15


@dataclass
class Person:
    address: str
    run: Run
    serves: bool
    salt: bytes
    concede: bool
    logs: bytes


class Game:
    """One job with its parties, and the next random move in it."""

    def __init__(self, chain: Chain, model: ChainModel, seed: object) -> None:
        self.rng = rng = Random(repr(seed))
        self.chain, self.model = chain, model
        rounded, sane, real = rng.random() < 0.3, rng.random() < 0.9, rng.random() < 0.65
        self.sane = sane
        self.graph: Graph = (
            random_real_graph(rng, rounded=rounded)
            if real and sane
            else random_graph(rng, sane=sane, rounded=rounded)
        )
        claims = rng.randint(2, 4)
        self.client, self.stranger = (address(seed, name) for name in ("client", "stranger"))
        self.parties = [self._party(address(seed, k), honest=rng.random() < 0.3) for k in range(claims)]
        self.refuters = [self._refuter(address(seed, "refuter", k)) for k in range(rng.choice((0, 1, 1, 2)))]
        self.claimants = self.parties
        self.parties = self.claimants + self.refuters
        self.keys = [value("key", seed, k) for k in range(rng.randint(1, 3))]
        self.verifiers = tuple(str(Account.from_key(key).address) for key in self.keys)
        self.bonds = [rng.randint(MIN_STAKE * MOST_LOW_FEE, 10**6) for _ in self.keys]
        self.bar, self.duels, self.auditors = Bar(self), Duels(self), Auditors(self)
        self.terms = JobTerms(
            program=self.graph.header,
            slots=1 if rounded else rng.randint(1, claims),
            stake=rng.randint(MIN_STAKE, 10**6),
            train_period=rng.randint(12, 60),
            reveal_period=rng.randint(12, 60),
            challenge_period=rng.randint(5, 40),
            rules=(rules := self._rules(sane)),
            verifiers=self.verifiers if rules.threshold else (),
            low_fee=(low := rng.choice((1, rng.randint(1, MOST_LOW_FEE)))),
            high_fee=low + rng.choice((0, rng.randint(1, 10**4))),
            watch_period=rng.choice((0, rng.randint(1, 40))),
        )
        self.reward = rng.randint(0, 10**6)
        self.job_id = 0

    def _rules(self, sane: bool) -> Rules:
        """NOTE: unsound programs get only votes: parties refuse such a job, and a trial decodes the whole structure."""
        rng = self.rng
        court_only = sane and rng.random() < 0.2
        return Rules(
            threshold=0 if court_only else rng.randint(1, len(self.keys)) if sane else 1,
            verdict_period=rng.randint(3, 60),
            appeal_period=rng.randint(3, 30),
            clock=rng.choice((3, 20, 60, 200, 200)),
        )

    def _party(self, address: str, *, honest: bool) -> Person:
        rng = self.rng
        lies = () if honest else tuple(random_lie(rng, self.graph) for _ in range(rng.choice((1, 1, 2, 3))))
        logs = self.graph.logs if rng.random() < 0.95 else value("logs", address)
        run, salt = Run(self.graph, lies), rng.randbytes(32)
        return Person(address, run, rng.random() < 0.5, salt, rng.random() < 0.7, logs)

    def _refuter(self, address: str) -> Person:
        """Return a party that refutes one interval of another's run, rightly or with a lie of its own."""
        rng, victim = self.rng, self.rng.choice(self.parties).run
        stride, lies = self.graph.strides[0], list[Lie]()
        wrong = [lie.step for lie in victim.lies]
        if not wrong or rng.random() < 0.4:
            lies = [random_lie(rng, self.graph)]
            wrong = [lies[0].step]
        run = Graft(self.graph, tuple(lies), victim=victim, interval=(rng.choice(wrong) - 1) // stride)
        return Person(
            address, run, rng.random() < 0.5, rng.randbytes(32), rng.random() < 0.7, self.graph.logs
        )

    @property
    def accounts(self) -> list[str]:
        return [self.client, self.stranger, *(party.address for party in self.parties), *self.verifiers]

    @property
    def hearings(self) -> list[Hearing]:
        """The job's hearings that have not ended. NOTE: a match may end before its hearing."""
        every = self.model.panel.hearings.values()
        mine = [hearing for hearing in every if hearing.terms.submission.job_id == self.job_id]
        return [hearing for hearing in mine if hearing.state.phase is not HearingPhase.DONE]

    @property
    def over(self) -> bool:
        owed = any(not claim.lost and not claim.collected for claim in self.job.claims)
        return bool(self.job.ended) and not self.hearings and not owed

    @property
    def job(self) -> Job:
        return self.model.jobs[self.job_id]

    @property
    def matches(self) -> list[Match]:
        return [match for match in self.model.matches.values() if match.job_id == self.job_id]

    def party_of(self, match: Match, side: int) -> Person:
        owner = match.terms.players[side]
        return next((party for party in self.parties if party.address == owner), self.parties[0])

    def post(self) -> Transaction:
        terms, program = self.terms, self.graph.header
        encoded_program = [getattr(program, f.name) for f in fields(program)]
        wire = (
            (*encoded_program[:-1], list(program.strides)),
            value("file"),
            "http://client",
            self.chain.referee.address,
            terms.slots,
            terms.stake,
            terms.low_fee,
            terms.high_fee,
            terms.train_period,
            terms.watch_period,
            terms.reveal_period,
            terms.challenge_period,
            astuple(terms.rules),
            list(terms.verifiers),
        )
        data = self.chain.jobs.calldata("post", wire)
        return Transaction(self.client, self.chain.jobs.address, data, self.reward)

    # --- the next move ------------------------------------------------------------------------------------------------

    def instants(self, now: int) -> list[int]:
        """Return the instants at which something changes, and their neighbours: a clock may be wrong by a second."""
        job = self.job
        found = [job.commit_end, job.reveal_end, job.challenge_end, job.reclaim_end]
        found += [group.until for group in job.groups]
        for match in self.matches:
            state = match.state
            found += [clock.deadline(state, side) for side in (0, 1) if clock.owing(state) >> side & 1]
        found += [instant for hearing in self.hearings for instant in self.bar.instants(hearing)]
        found += self.auditors.instants()
        return [at for instant in found for at in (instant - 1, instant, instant + 1) if at > now]

    def act(self, now: int) -> Action | None:
        """Return the next move, or None to sit this round out."""
        running = [m for m in self.matches if m.state.phase not in (Phase.HEARING, Phase.DONE)]
        hearings = self.hearings
        if self.rng.random() < 0.02:
            return self.bar.bond_action()
        if self.job.claims and self.rng.random() < self.auditors.haste(now):
            return self.auditors.act(now)
        if hearings and self.rng.random() < (0.6 if running else 0.9):
            return self.bar.act(self.rng.choice(hearings), now)
        if running and self.rng.random() < 0.9:
            return self.duels.act(self.rng.choice(running), now)
        if self.matches and self.rng.random() < 0.03:
            return self.duels.act(self.rng.choice(self.matches), now)
        return self._job_action(now)

    def _job_action(self, now: int) -> Action | None:
        rng, sensible = self.rng, self._sensible(now)
        if rng.random() < 0.1:
            name = rng.choice(
                (
                    "join",
                    "resign",
                    "commit",
                    "reveal",
                    "commit_challenge",
                    "challenge",
                    "refute",
                    "finalize",
                    "collect",
                    "withdraw",
                )
            )
            party = rng.choice(self.refuters if name == "refute" and self.refuters else self.parties)
        elif sensible:
            name, party = rng.choice(sensible)
        else:
            return None
        sender = party.address if rng.random() < 0.95 else rng.choice(self.accounts)
        return getattr(self, f"_{name}")(party, sender)

    def _sensible(self, now: int) -> list[tuple[str, Person]]:
        """Return the moves of the job that fit its phase, each with its party."""
        job, parties = self.job, self.claimants
        trainers = {trainer.owner: trainer for trainer in job.trainers}
        claimed = {claim.owner for claim in job.claims}
        match job.phase(now):
            case JobPhase.TRAINING:
                free = len(trainers) < self.terms.slots
                joining = [("join", p) for p in parties if free and p.address not in trainers]
                owing = [p for p in parties if p.address in trainers]
                owing = [p for p in owing if not any(trainers[p.address].commitment)]
                resigning = [("resign", p) for p in owing if self.rng.random() < 0.1]
                return joining + resigning + [("commit", p) for p in owing]
            case JobPhase.REVEAL:
                committed = [
                    p for p in parties if p.address in trainers and any(trainers[p.address].commitment)
                ]
                return [("reveal", p) for p in committed if not trainers[p.address].revealed]
            case JobPhase.CHALLENGE:
                return self._claiming([p for p in parties if p.address not in claimed]) + self._refuting(now)
            case JobPhase.CLOSING:
                groups = {p.address: job.group_of(p.run.root) for p in parties if p.address not in claimed}
                again = [p for p in parties if (g := groups.get(p.address)) is not None and g.claimable(now)]
                over = not job.open_matches and now >= job.reclaim_end
                ending = [("finalize", parties[0])] if over else []
                return self._claiming(again) + self._refuting(now) + ending
        escrows = self.model.credits, self.model.panel.credits, self.model.data_availability.credits
        owed = {claim.owner for claim in job.claims if not claim.lost and not claim.collected}
        return [("collect", p) for p in self.parties if p.address in owed] + [
            ("withdraw", p) for p in self.parties if any(escrow.get(p.address) for escrow in escrows)
        ]

    def _claiming(self, parties: list[Person]) -> list[tuple[str, Person]]:
        """Return the moves of parties that may challenge: first commit to a claim, then show it."""
        committed = [p for p in parties if self._hashed(p, NO_LOG) in self.job.committed_at]
        return [("challenge", p) for p in committed] + [
            ("commit_challenge", p) for p in parties if p not in committed
        ]

    def _refuting(self, now: int) -> list[tuple[str, Person]]:
        """Return the moves of parties that may refute, as `_claiming` does."""
        found, job = [], self.job
        for party in self.refuters:
            group = job.group_of(party.run.victim.root)  # type: ignore[attr-defined]
            told = _refutation(party.run)  # type: ignore[arg-type]
            if told.claimed == told.computed:
                continue
            if group is None or group.dead:
                continue
            late = job.phase(now) is JobPhase.CLOSING and not group.refutable(now)
            if not late and len(group.queue) < MOST_REFUTATIONS:
                committed = self._hashed(party, NO_LOG) in job.committed_at
                name = "refute" if committed else "commit_challenge"
                found.append((name, party))
        return found

    def _job_call(
        self,
        name: str,
        sender: str,
        arguments: tuple[Any, ...],
        apply: Callable[..., object],
        *,
        stake: int | None = None,
    ) -> Action:
        """Return an action on chain and model. ``apply`` takes (sender, now), with ``stake`` (sender, value, now)."""
        data = self.chain.jobs.calldata(name, *arguments)
        if stake is None:
            transaction = Transaction(sender, self.chain.jobs.address, data)
            return Action(f"jobs.{name}", transaction, lambda now: apply(sender, now))
        paid = max(0, stake + (self.rng.choice((-1, 1, 1000)) if self.rng.random() < 0.04 else 0))
        transaction = Transaction(sender, self.chain.jobs.address, data, paid)
        return Action(f"jobs.{name}", transaction, lambda now: apply(sender, paid, now))

    def _join(self, _: Person, sender: str) -> Action:
        stake = self.model.stake_of(self.job_id)
        return self._job_call(
            "join", sender, (self.job_id,), partial(self.model.join, self.job_id), stake=stake
        )

    def _resign(self, _: Person, sender: str) -> Action:
        return self._job_call("resign", sender, (self.job_id,), partial(self.model.resign, self.job_id))

    def _commit(self, party: Person, sender: str) -> Action:
        arguments = (self.job_id, self._commitment(party, party.logs))
        return self._job_call("commit", sender, arguments, partial(self.model.commit, *arguments))

    def _commit_challenge(self, party: Person, sender: str) -> Action:
        arguments = (self.job_id, self._commitment(party, NO_LOG))
        apply = partial(self.model.commit_challenge, *arguments)
        return self._job_call("commitChallenge", sender, arguments, lambda _, now: apply(now))

    def _commitment(self, party: Person, logs: bytes) -> bytes:
        if self.rng.random() < 0.05:
            return self.rng.choice((bytes(32), value("commitment")))
        return self._hashed(party, logs)

    def _hashed(self, party: Person, logs: bytes) -> bytes:
        where = (self.model.chain_id, self.model.address, self.job_id, party.address)
        if isinstance(party.run, Graft):
            told = _refutation(party.run)
            return commitment(*where, party.run.root, told.computed, told.root, party.salt)
        return commitment(*where, party.run.root, party.run.last, logs, party.salt)

    def _reveal(self, party: Person, sender: str) -> Action:
        claim, wire = self._claim(party)
        salt = party.salt if self.rng.random() < 0.95 else value("salt")
        logs = party.logs if self.rng.random() < 0.95 else value("other logs")
        apply = partial(self.model.reveal, self.job_id, claim, logs, salt)
        taken = next((trainer.stake for trainer in self.job.trainers if trainer.owner == sender), 0)
        rise = max(0, self.model.stake_of(self.job_id) - taken)
        return self._job_call("reveal", sender, (self.job_id, wire, logs, salt), apply, stake=rise)

    def _challenge(self, party: Person, sender: str) -> Action:
        claim, wire = self._claim(party)
        salt = party.salt if self.rng.random() < 0.95 else value("salt")
        apply = partial(self.model.challenge, self.job_id, claim, salt)
        # NOTE: this price may no longer be the right one when the transaction is mined.
        price = self.model.price_of(self.job_id, claim.root)
        return self._job_call("challenge", sender, (self.job_id, wire, salt), apply, stake=price)

    def _refute(self, party: Person, sender: str) -> Action:
        rng = self.rng
        told = _refutation(party.run) if isinstance(party.run, Graft) else _no_refutation(party.run)
        told = spoil(rng, told) if rng.random() < 0.15 else told
        wire = (told.root, told.interval, told.claimed, told.computed, list(told.path), "http://party")
        salt = party.salt if rng.random() < 0.95 else value("salt")
        apply = partial(self.model.refute, self.job_id, told, salt)
        price = self.model.refutation_price_of(self.job_id, told.root)
        return self._job_call("refute", sender, (self.job_id, wire, salt), apply, stake=price)

    def _claim(self, party: Person) -> tuple[Claim, tuple[object, ...]]:
        claim = Claim(party.run.root, party.run.last, tuple(party.run.last_path))
        claim = spoil(self.rng, claim) if self.rng.random() < 0.1 else claim
        return claim, (claim.root, claim.last, list(claim.last_path), "http://party")

    def _finalize(self, _: Person, sender: str) -> Action:
        return self._job_call(
            "finalize", sender, (self.job_id,), lambda _, now: self.model.finalize(self.job_id, now)
        )

    def _collect(self, party: Person, sender: str) -> Action:
        known = [k for k, claim in enumerate(self.job.claims) if claim.owner == party.address]
        number = known[0] if known and self.rng.random() < 0.9 else self.rng.randint(0, len(self.job.claims))
        arguments = self.job_id, number
        return self._job_call(
            "collect",
            sender,
            arguments,
            lambda _, now: self.model.collect(*arguments),  # noqa: ARG005
        )

    def _withdraw(self, _: Person, sender: str) -> Action:
        if self.rng.random() < 0.5:
            return self.rng.choice((self.bar, self.auditors)).withdrawal(sender)
        return self._job_call("withdraw", sender, (), lambda sender, _: self.model.withdraw(sender))

    def observe(self, action: Action, before: Any) -> None:
        """Pass accepted moves on to the parties of the match or the trial."""
        self.bar.observe(action)
        self.duels.observe(action, before)


def _refutation(run: Graft) -> Refutation:
    tree, interval = run.victim.claim_tree, run.interval
    return Refutation(
        tree.root,
        interval,
        tree.leaves[interval],
        run.claim_tree.leaves[interval],
        tuple(tree.path(interval)),
    )


def _no_refutation(run: Run) -> Refutation:
    """Return a statement about a run by its own party, which is refused for one reason or another."""
    leaf = run.claim_tree.leaves[0]
    return Refutation(run.root, 0, leaf, leaf, tuple(run.claim_tree.path(0)))
