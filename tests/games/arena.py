"""Games at random on the contracts: what was sent in Python is sent to a chain, second by second, and must be accepted
and lead to the same job, claim for claim and wei for wei.

A match is decided by time: the side that wins publishes its half in the second after the opening, the other is late.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple, fields, replace
from itertools import groupby
from random import Random

from eth_abi.abi import decode

from referee_py.commit import Tag, Tree
from referee_py.execute import RunClaim
from referee_py.game import rules
from referee_py.game.calldata import MATCH_TERMS
from referee_py.game.state import MatchState, MatchTerms, Reveal, Timeout
from referee_py.jobs import commitment
from tests.model.jobs import JobTerms
from tests.referee_py.game.chain import COMMIT_AGE, Chain, Transaction
from tests.referee_py.game.random_play import job_fields, rows
from trainer_node.chain.codec.match import match_call
from trainer_node.run.refutation import Refuted

from .board import CLIENT, REWARD, Board, Call, Left, Times
from .crowd import ACCOUNTS, Played, go
from .roles import Challenger, Role, Sampler, Trainer
from .runs import CHAIN, NO_LOGS, SALT, WRONG, claim, found, other, result, run_tree

WAITS_S = 5
"""Seconds of training before anybody acts, in which strangers commit to all that they will ever claim."""
URI = "http://party"


def times_of(rng: Random) -> Times:
    budget, whole = rng.randint(1, 3), rng.randint(0, 3)
    period = COMMIT_AGE + budget + whole + rng.randint(2, 8)
    return Times(period, period + 1, budget, whole, COMMIT_AGE, training=WAITS_S + 5, reveal=COMMIT_AGE + 1)


def generate(seed: object, now: int, played: Played) -> Board:
    """Play a game in Python from the instant ``now`` on."""
    rng = Random(repr(seed))
    slots = rng.randint(1, 3)
    roles: list[Role] = [Sampler(slots), Sampler(slots), Challenger(slots), Trainer(slots)]
    left = Left(rng.randint(slots, ACCOUNTS // 2))
    board = Board(times_of(rng), slots, left, start=now)
    board.now, board.calls = now + WAITS_S, []
    return go(rng, rng.choice(roles), slots, seed, played, on_chain=board)


class Replay:
    """A game that was played in Python, on a chain."""

    def __init__(self, chain: Chain, board: Board) -> None:
        assert board.calls is not None
        self.chain, self.board, self.calls = chain, board, board.calls
        self.job_id = 0
        self.matches: list[tuple[int, int]] = []
        """The chain's id and number of each match, in order."""
        self.moves = 0

    def play(self) -> None:
        accounts = {call.sender for call in self.calls} | {CLIENT}
        self.chain.fund(sorted(accounts))
        before = self._credits(sorted(accounts))
        start = self.board.job.posted
        assert self._mine([self._post(self.board.job.terms)], start)
        (log,) = [one for receipt in self.chain.receipts.values() for one in receipt["logs"]][-1:]
        self.job_id = int(log["topics"][1], 16)
        self._mine([self._jobs(c, "commitChallenge", self._commitment(c)) for c in self._before()], start + 1)
        for at, sent in groupby(self._timed(), key=lambda call: call.at):
            self._mine([self._transaction(call) for call in sent], at)
        self._compare(before)

    def _timed(self) -> Iterator[Call]:
        """Yield all calls in order; the winner of each match moves a second after its opening."""
        moves = [
            Call(opened + 1, CLIENT, "move", (number, losers))
            for call in self.calls
            if call.function == "match"
            for number, losers, opened in [call.of]
            if losers != 3
        ]
        rest = [call for call in self.calls if call.function != "committed before"]
        # NOTE: the sort is stable, and a move comes before everything else of its second.
        yield from sorted([*moves, *rest], key=lambda call: call.at)

    def _before(self) -> list[Call]:
        return [call for call in self.calls if call.function == "committed before"]

    # --- transactions ---------------------------------------------------------------------------------------------

    def _transaction(self, call: Call) -> Transaction:
        match call.function:
            case "join":
                return self._jobs(call, "join")
            case "commit":
                assert isinstance(call.of, str)
                return self._jobs(call, "commit", self._commitment(replace(call, of=result(call.of))))
            case "reveal":
                return self._jobs(call, "reveal", _shown(call.of), NO_LOGS, SALT)
            case "commitChallenge":
                return self._jobs(call, "commitChallenge", self._commitment(call))
            case "challenge":
                return self._jobs(call, "challenge", _shown(call.of), SALT)
            case "refute":
                return self._jobs(call, "refute", _told(call.of), SALT)
            case "finalize":
                return self._jobs(call, "finalize")
            case "collect":
                return self._jobs(call, "collect", call.of)
        return self._move(call)

    def _jobs(self, call: Call, function: str, *arguments: object) -> Transaction:
        data = self.chain.jobs.calldata(function, self.job_id, *arguments)
        return Transaction(call.sender, self.chain.jobs.address, data, call.value)

    def _move(self, call: Call) -> Transaction:
        """Return the winner's half of a match, or the end of a match by time."""
        number, losers, *_ = call.of
        terms, state = self._match(number)
        opened = state.tick
        if losers != 3:
            winner = 0 if losers == 2 else 1
            half = _tree(terms.roots[winner])
            reveal = Reveal(winner, tuple(half.node(0, k) for k in range(1 << state.height)))
            if call.function == "move":
                return self._sends(call, reveal, state, terms)
            state = rules.apply(state, terms, reveal, CLIENT, opened + 1)
        return self._sends(call, Timeout(), state, terms)

    def _match(self, number: int) -> tuple[MatchTerms, MatchState]:
        """Return a match as it was opened, with the chain's ids."""
        terms = self.board.model.matches[number].terms
        match_id, count = self.matches[number - 1]
        terms = replace(terms, match_id=match_id, number=count)
        (at,) = [call.of[2] for call in self.calls if call.function == "match" and call.of[0] == number]
        return terms, rules.opened(terms, at)

    def _sends(self, call: Call, move: Reveal | Timeout, state: MatchState, terms: MatchTerms) -> Transaction:
        function, arguments = match_call(move, state, terms)
        self.moves += 1
        data = self.chain.referee.calldata(function, *arguments)
        return Transaction(call.sender, self.chain.referee.address, data)

    def _commitment(self, call: Call) -> bytes:
        of = call.of
        assert isinstance(of, RunClaim)
        three = (of.root, of.computed, of.against) if isinstance(of, Refuted) else (of.root, of.last, NO_LOGS)
        return commitment(CHAIN, self.chain.jobs.address, self.job_id, call.sender, *three, SALT)

    def _post(self, terms: JobTerms) -> Transaction:
        program = [getattr(terms.program, f.name) for f in fields(terms.program)]
        wire = (
            (*program[:-1], list(terms.program.strides)),
            bytes(32),
            "http://client",
            self.chain.referee.address,
            *(terms.slots, terms.stake, terms.low_fee, terms.high_fee),
            *(terms.train_period, terms.watch_period, terms.reveal_period, terms.challenge_period),
            astuple(terms.rules),
            list(terms.verifiers),
        )
        data = self.chain.jobs.calldata("post", wire)
        return Transaction(CLIENT, self.chain.jobs.address, data, REWARD)

    # --- the chain ------------------------------------------------------------------------------------------------

    def _mine(self, sent: list[Transaction], at: int) -> bool:
        """Mine a block, and note the matches that it opens. All of it must be accepted."""
        if not sent:
            return True
        accepted = self.chain.mine(sent, at)
        assert all(accepted), [
            self.chain.refusals([one], at) for one, ok in zip(sent, accepted, strict=True) if not ok
        ]
        topic = "0x" + self.chain.referee.topics["Opened"].hex()
        logs = [
            log for one in sent for log in self.chain.receipts[one.hash]["logs"] if log["topics"][0] == topic
        ]
        for log in logs:
            words = bytes.fromhex(log["data"][2:])
            self.matches.append((int(log["topics"][1], 16), self._number(words)))
        return True

    def _number(self, data: bytes) -> int:
        return int(decode([MATCH_TERMS], data)[0][3])

    def _compare(self, before: dict[str, int]) -> None:
        job = self.board.job
        (answer,) = self.chain.read(self.chain.jobs, [("viewOf", (self.job_id,))])
        phase, raw, trainers, claims, groups = self.chain.jobs.decode("viewOf", answer)
        assert phase == job.ended
        assert raw[1:] == job_fields(job)
        _, staked, grouped = rows(job)
        # NOTE: a commitment holds the address of the contract, which is another one in Python.
        assert [trainer[:3] for trainer in trainers] == [(t.owner, t.revealed, t.stake) for t in job.trainers]
        assert (claims, groups) == (staked, grouped)
        for account, amount in self._credits(sorted(before)).items():
            assert amount - before[account] == self.board.model.credits.get(account, 0), account

    def _credits(self, accounts: list[str]) -> dict[str, int]:
        answers = self.chain.read(self.chain.jobs, [("credit", (account,)) for account in accounts])
        return {account: int(answer, 16) for account, answer in zip(accounts, answers, strict=True)}


def _shown(name: object) -> tuple[object, ...]:
    shown = claim(str(name))
    return shown.root, shown.last, list(shown.last_path), URI


def _told(told: object) -> tuple[object, ...]:
    assert isinstance(told, Refuted)
    return told.against, told.index, told.claimed, told.computed, list(told.siblings), URI


def _tree(root: bytes) -> Tree:
    """Return the tree of a claim or a refutation."""
    trees = [run_tree(name) for name in ("r", *WRONG)]
    for told in (*map(found, WRONG), *map(other, ("r", *WRONG))):
        leaves = list(next(tree for tree in trees if tree.root == told.against).leaves)
        leaves[told.index] = told.computed
        trees.append(Tree(Tag.RUN_TREE, leaves))
    return next(tree for tree in trees if tree.root == root)
