"""Random games, played move by move in Python (`ChainModel`) and on the contracts.

A cohort of games runs side by side: in each round every game makes one move (sensible, spoiled or senseless) in the
same block. After each round both must agree on which moves are refused, by which error, and on the whole state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from eth_abi.abi import decode
from eth_utils.address import to_checksum_address

from referee_py.game.calldata import MATCH_TERMS, match_id, position_hash
from referee_py.game.state import Phase
from referee_py.params import BURNED
from referee_py.trial import Stage
from referee_py.trial.calldata import position_hash as trial_position_hash
from referee_py.walk.refusals import Refusal
from tests.model.chain_model import ChainModel
from tests.model.escrow import Escrow
from tests.model.jobs import Group, Job, Match, Trainer
from tests.model.panel import Hearing, Trial
from tests.model.registry import Registry
from tests.model.timekeeper import Timekeeper

from .actions import Action
from .chain import COMMIT_AGE, DEPLOYER, GUARDIAN, Chain, Contract, Transaction, words
from .random_game import LEAVE_DELAY, MIN_STAKE, Game


@dataclass
class Tally:
    """Counts of a play: moves of each kind, refusals, and endings of matches and jobs."""

    games: int = 0
    moves: int = 0
    accepted: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    hearings: Counter[tuple[str, str, int, int]] = field(default_factory=Counter)
    """By first judge (verifiers or Court), phase, number of trials and number of lost bonds."""
    trials: Counter[tuple[str, int, int]] = field(default_factory=Counter)
    """By stage, losers and number of steps of the disputed element, zero if it was not found."""
    endings: Counter[str] = field(default_factory=Counter)
    clocks: Counter[str] = field(default_factory=Counter)
    """By "pause", "resume" or the error that refused one of them."""


class Cohort:
    """Games side by side on one chain and in one model."""

    def __init__(
        self, chain: Chain, clocks: Timekeeper, seed: object, size: int, tally: Tally, rounds: int
    ) -> None:
        self.chain, self.tally, self.rounds, self.clocks = chain, tally, rounds, clocks
        self.rng = Random(repr(("cohort", seed)))
        addresses = (to_checksum_address(c.address) for c in (chain.jobs, chain.referee, chain.panel))
        self.model = ChainModel(31337, *addresses, Registry(1, LEAVE_DELAY), MIN_STAKE, COMMIT_AGE)
        self.games = [Game(chain, self.model, (seed, k)) for k in range(size)]
        accounts = [account for game in self.games for account in game.accounts]
        self.tracked = [*accounts, BURNED]
        chain.fund(accounts)
        self.escrows: list[tuple[Contract, Escrow]] = [
            (chain.jobs, self.model),
            (chain.panel, self.model.panel),
            (chain.data_availability, self.model.data_availability),
        ]
        self.held = [self._balance(contract) for contract, _ in self.escrows]
        self.credits = [self._credits(contract) for contract, _ in self.escrows]
        self._register()
        self._post()

    def play(self) -> None:
        """Play every game to its end, or to the last round."""
        for k in range(self.rounds):
            live = [game for game in self.games if not game.over or self.rng.random() < 0.02]
            if all(game.over for game in self.games):
                break
            if self.rng.random() < 0.1:
                self._guard()
            self._round(live, self._next_instant(live, hurry=k > self.rounds // 2))
        self._compare_money()
        self._compare_bonds()
        self.tally.games += len(self.games)
        for game in self.games:
            self.tally.endings[game.job.ended.name] += 1
            for match in game.matches:
                self.tally.reasons[match.state.reason.name] += 1
        for hearing in self.model.panel.hearings.values():
            state, kind = hearing.state, "verifiers" if hearing.terms.rules.has_verifiers else "court"
            lost = len(state.voters) - len(state.votes)
            self.tally.hearings[kind, state.phase.name, state.trials, lost] += 1
        for trial in self.model.panel.trials.values():
            self.tally.trials[trial.state.stage.name, trial.state.losers, trial.state.steps] += 1

    def _guard(self) -> None:
        """Let the guardian, or an impostor, stop the clocks or let them run."""
        rng, at, keeper = self.rng, self.chain.now + 1, self.chain.timekeeper
        function = "resume" if (rng.random() < 0.75) == self.clocks.paused(at) else "pause"
        sender = GUARDIAN if rng.random() < 0.9 else DEPLOYER
        act = getattr(self.clocks, function)
        refusal = act(at) if sender == GUARDIAN else "NotGuardian"
        transaction = Transaction(sender, keeper.address, keeper.calldata(function))
        assert self.chain.refusals([transaction], at) == [refusal]
        self.chain.mine([transaction], at)
        self.tally.clocks[refusal or function] += 1

    def _next_instant(self, live: Sequence[Game], *, hurry: bool) -> int:
        """Return the next block's time on the chain's clock, in seconds."""
        rng, now = self.rng, self.clocks.time(self.chain.now)
        roll = rng.random()
        if roll < (0.35 if hurry else 0.06):
            near = [at for game in rng.sample(list(live), min(3, len(live))) for at in game.instants(now)]
            if near:
                return self.chain.now + (min(near) if rng.random() < 0.6 else rng.choice(near)) - now
        return self.chain.now + (1 if roll < 0.85 else rng.randint(1, 6))

    def _round(self, live: Sequence[Game], instant: int) -> None:
        now = self.clocks.time(instant)
        self.model.behind = instant - now
        if self.rng.random() < 0.2:
            self.model.base_fee = self.chain.base_fee = self.rng.choice((0, self.rng.randint(0, 300)))
        chosen = [(game, game.act(now)) for game in live]
        live = [game for game, action in chosen if action]
        actions = [action for _, action in chosen if action]
        before = [action.match.state if action.match else None for action in actions]
        known = set(self.model.matches)
        for action in actions:
            try:
                action.apply(now)
            except Refusal as refusal:
                action.refusal = type(refusal).__name__
        refused = [action for action in actions if action.refusal]
        names = self.chain.refusals([action.transaction for action in refused], instant)
        for action, name in zip(refused, names, strict=True):
            assert name == action.refusal, f"{action.name}: chain {name}, Python {action.refusal}\n{action}"
        accepted = self.chain.mine([action.transaction for action in actions], instant)
        for game, action, state, ok in zip(live, actions, before, accepted, strict=True):
            self._count(action)
            assert ok == (action.refusal is None), (
                f"{action.name}: chain {ok}, Python {action.refusal}\n{action}"
            )
            if ok:
                game.observe(action, state)
        self._rename([k for k in self.model.matches if k not in known])
        self._compare(live, actions)

    def _count(self, action: Action) -> None:
        self.tally.moves += max(len(action.moves), 1)
        for name in action.name.split("+"):
            if action.refusal:
                self.tally.refused[action.refusal] += 1
                break
            self.tally.accepted[name] += 1

    def _register(self) -> None:
        """Register verifiers. Each game has its own, so that games share nothing."""
        at, panel, registry = self.chain.now + 1, self.chain.panel.address, self.chain.registry
        data = registry.calldata("register", panel, "http://verifier")
        bonds = [pair for game in self.games for pair in zip(game.verifiers, game.bonds, strict=True)]
        sent = [Transaction(verifier, registry.address, data, bond) for verifier, bond in bonds]
        assert all(self.chain.mine(sent, at)), "a verifier cannot be registered"
        for verifier, bond in bonds:
            self.model.panel.registry.register(self.model.panel.address, verifier, bond)

    def _post(self) -> None:
        self.model.base_fee = self.chain.base_fee = 0
        at = self.chain.now + 1
        now, posts = self.clocks.time(at), [game.post() for game in self.games]
        assert all(self.chain.mine(posts, at)), "a job cannot be posted"
        for game, post in zip(self.games, posts, strict=True):
            logs = self.chain.receipts[post.hash]["logs"]
            game.job_id = int(logs[-1]["topics"][1], 16)
        for game in self.games:
            posted = self.model.post(game.terms, game.client, game.reward, now)
            self.model.jobs[-game.job_id] = self.model.jobs.pop(posted)
        self.model.jobs = {-number: job for number, job in self.model.jobs.items()}

    def _rename(self, new: Sequence[int]) -> None:
        """Give the matches that Python has just opened the chain's ids."""
        opened = self._opened()
        jobs = [self.model.matches[k].job_id for k in new]
        answers = self.chain.read(self.chain.jobs, [("viewOf", (job_id,)) for job_id in jobs])
        for number, answer in zip(new, answers, strict=True):
            *_, groups = self.chain.jobs.decode("viewOf", answer)
            first, second = self.model.matches[number].groups
            assert groups[first][1] == groups[second][1] != 0, "Python opened a match, the chain did not"
            match_id = groups[first][1]
            self.model.rename(number, match_id, opened[match_id])

    def _opened(self) -> dict[int, int]:
        """Return the matches that the last block has opened: number by id."""
        topic = "0x" + self.chain.referee.topics["Opened"].hex()
        logs = [log for receipt in self.chain.receipts.values() for log in receipt["logs"]]
        found = [log for log in logs if log["topics"][0] == topic]
        match_terms = [decode([MATCH_TERMS], bytes.fromhex(log["data"][2:]))[0] for log in found]
        ids = [int(log["topics"][1], 16) for log in found]
        return {match_id: match_terms[3] for match_id, match_terms in zip(ids, match_terms, strict=True)}

    # --- comparing ----------------------------------------------------------------------------------------------------

    def _compare(self, live: Sequence[Game], actions: Sequence[Action]) -> None:
        (time,) = self.chain.read(self.chain.timekeeper, [("time", ())])
        assert int(time, 16) == self.clocks.time(self.chain.now), self.clocks.pauses
        matches = [action.match for action in actions if action.match]
        jobs = [game for game, action in zip(live, actions, strict=True) if self._touches_job(action)]
        matches += [m for game in jobs for m in game.matches if m.state.phase is not Phase.DONE]
        ids = [(match.terms.match_id,) for match in matches]
        answers = self.chain.read(self.chain.referee, [("getMatch", args) for args in ids])
        for match, answer in zip(matches, answers, strict=True):
            assert words(answer) == self._match_words(match), match
        answers = self.chain.read(self.chain.jobs, [("viewOf", (game.job_id,)) for game in jobs])
        for game, answer in zip(jobs, answers, strict=True):
            phase, raw, trainers, claims, groups = self.chain.jobs.decode("viewOf", answer)
            assert phase == game.job.phase(self.clocks.time(self.chain.now)), game.job
            assert raw[1:] == job_fields(game.job), game.job
            assert (trainers, claims, groups) == rows(game.job), game.job
        self._compare_hearings([h for h in map(self._hearing_of, actions) if h])

    def _hearing_of(self, action: Action) -> Hearing | None:
        """Return the hearing that an accepted move has begun or changed, if any."""
        if action.refusal or action.match is None:
            return None
        match_id = action.match.terms.match_id
        submitted = any(move.function == "submit" for move in action.moves)
        hearings = self.model.panel.hearings.values()
        begun = [h for h in hearings if submitted and h.terms.submission.match_id == match_id]
        return begun[0] if begun else action.hearing

    def _compare_hearings(self, hearings: Sequence[Hearing]) -> None:
        panel, court = self.chain.panel, self.chain.court
        answers = self.chain.read(panel, [("getHearing", (h.terms.hearing_id,)) for h in hearings])
        for hearing, answer in zip(hearings, answers, strict=True):
            assert words(answer) == self._hearing_words(hearing), hearing
        named = [
            (h, record) for h in hearings for record in {h.state.verdict, *(r for _, r in h.state.votes)}
        ]
        answers = self.chain.read(panel, [("votes", (h.terms.hearing_id, record)) for h, record in named])
        for (hearing, record), answer in zip(named, answers, strict=True):
            found = map(to_checksum_address, panel.decode("votes", answer))
            assert tuple(found) == hearing.state.signers(record), hearing
        trials = [
            k
            for k, t in self.model.panel.trials.items()
            for h in hearings
            if t.hearing_id == h.terms.hearing_id
        ]
        answers = self.chain.read(court, [("getTrial", (number,)) for number in trials])
        for number, answer in zip(trials, answers, strict=True):
            compare_trial(court.named("getTrial", answer), self.model.panel.trials[number])

    def _hearing_words(self, hearing: Hearing) -> list[int]:
        """Return `Hearing` of the contract as words."""
        state, submission = hearing.state, hearing.terms.submission
        file = submission.hash() if hearing.terms.rules.has_verifiers else bytes(32)
        return [
            *(int(self.model.referee, 16), state.until, state.phase),
            *(state.trials, state.side, state.losers),
            *(submission.match_id, *(int.from_bytes(h, "big") for h in (file, state.verdict))),
            *(int(player, 16) for player in state.players),
            *(state.bond, state.appeal_period, state.appellant, int(state.defendant, 16)),
        ]

    def _touches_job(self, action: Action) -> bool:
        done = action.match is not None and action.match.state.phase is Phase.DONE
        return action.refusal is None and (action.match is None or done)

    def _match_words(self, match: Match) -> list[int]:
        """Return `Match` of the contract as words."""
        state, terms = match.state, match.terms
        assert match_id(self.model.address, match.job_id, terms) == terms.match_id, match
        return [
            *(int(self.model.address, 16), state.start, state.end, match.job_id, state.tick, *state.clock),
            *(state.phase, state.posted, state.level, state.height, state.index, state.losers, state.reason),
            int.from_bytes(position_hash(state), "big"),
        ]

    def _credits(self, contract: Contract) -> dict[str, int]:
        answers = self.chain.read(contract, [("credit", (account,)) for account in self.tracked])
        return {account: int(answer, 16) for account, answer in zip(self.tracked, answers, strict=True)}

    def _balance(self, contract: Contract) -> int:
        return int(self.chain.batch([("eth_getBalance", [contract.address, "latest"])])[0], 16)

    def _compare_money(self) -> None:
        risks = self.model.at_risk(), self.model.panel.at_risk(), self.model.data_availability.deposits()
        for k, (contract, escrow) in enumerate(self.escrows):
            for account, amount in self._credits(contract).items():
                assert amount - self.credits[k][account] == escrow.credits.get(account, 0), account
            assert self._balance(contract) - self.held[k] == sum(escrow.credits.values()) + risks[k]

    def _compare_bonds(self) -> None:
        verifiers, registry = [v for game in self.games for v in game.verifiers], self.model.panel.registry
        answers = self.chain.read(self.chain.registry, [("getVerifier", (v,)) for v in verifiers])
        for verifier, answer in zip(verifiers, answers, strict=True):
            bond, leaves_at, panel, _ = self.chain.registry.decode("getVerifier", answer)
            kept = registry.verifiers.get(verifier)
            want = (kept.bond, kept.leaves_at, kept.panel.lower()) if kept else (0, 0, "0x" + "00" * 20)
            assert (bond, leaves_at, panel) == want, verifier


def compare_trial(found: dict[str, Any], trial: Trial) -> None:
    """Compare the contract's trial with the rules'. NOTE: fields that a decided trial no longer needs may differ."""
    state = trial.state
    for name in ("tick", "stage", "losers", "output"):
        assert found[name] == getattr(state, name), name
    assert (found["clock0"], found["clock1"]) == state.clock
    if state.stage is not Stage.DONE:
        for name in ("posted", "height", "index"):
            assert found[name] == getattr(state, name), name
        assert found["position"] == trial_position_hash(state)
    if state.steps:
        for name in ("element", "lo", "hi", "steps"):
            assert found[name] == getattr(state, name), name
        assert (found["kind"], found["written"]) == (state.entry.kind, state.entry.written)
        assert found["stateBytes"] == state.state_bytes


def job_fields(job: Job) -> tuple[object, ...]:
    """Return the fields of the contract's `Job` from `client` on."""
    accepted = job.groups[job.accepted] if job.accepted is not None else None
    committed = sum(t.commitment != bytes(32) for t in job.trainers)
    return (
        *(job.client.lower(), job.posted, job.reward, job.commit_end, job.reveal_end, job.challenge_end),
        *(job.ended, committed, sum(t.revealed for t in job.trainers), job.reclaim_end, job.open_matches),
        *(0 if job.waiting is None else job.waiting + 1, job.founded, job.followers, job.reopened),
        accepted.root if accepted else bytes(32),
        *(job.logs, job.finder.lower() if job.finder is not None else "0x" + "00" * 20),
        job.unrevealed,
        *(len(job.claims), len(job.groups)),
    )


def rows(job: Job) -> tuple[tuple[object, ...], ...]:
    """Return the slot holders, claims and groups as the contract does."""
    return (
        tuple(_slot(job, trainer) for trainer in job.trainers),
        tuple((c.owner.lower(), c.stake, c.group, c.slot, c.lost, c.collected) for c in job.claims),
        tuple(_row(job, group) for group in job.groups),
    )


def _slot(job: Job, trainer: Trainer) -> tuple[object, ...]:
    """Return a slot holder, with the stake of its claim once it has revealed one."""
    own = next((c for c in job.claims if c.slot and c.owner == trainer.owner), None)
    return (
        trainer.owner.lower(),
        trainer.revealed,
        trainer.stake if own is None else own.stake,
        trainer.commitment if own is None else bytes(32),
    )


def _row(job: Job, group: Group) -> tuple[object, ...]:
    claims = [job.claims[number] for number in group.members]
    slots, at_risk = (
        sum(claim.slot for claim in claims),
        sum(claim.stake for claim in claims if not claim.lost),
    )
    return (
        *(group.root, group.match_id, group.spokesman, slots, group.deaths),
        *(group.until, group.refutable_until, at_risk),
        0 if group.refutes is None else group.refutes + 1,
        tuple(group.members),
    )
