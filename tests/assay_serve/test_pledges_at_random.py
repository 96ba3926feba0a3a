"""Random moves of a server and its clients: the contract does what the model does, and refuses what it refuses."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from assay_serve.model import Model
from assay_serve.pledges import NOTHING_WRITTEN, Written, commitment, written
from assay_serve.receipt import Signed
from referee_py.commit import Tag, Tree
from tests.model.pledges import Ended, Note, Open, Pledges, Refused, Terms
from trainer_node.chain import Call, TransactionManager
from trainer_node.errors import Reverted
from trainer_node.local.bundle import Bundle

from .pledged import BURNED, CHARGE, FORFEIT, NOTICE, PERIOD, SALT, Ground, answered, lying, one_wrong, run_of
from .test_pledges import ground as _ground

ground = _ground
ACTS = 80
NEAR_S = 200
"""Seconds to an instant within which nothing is done: blocks take some."""


class Play:
    """A pledge on the chain and in the model, with five receipts, two of them wrong."""

    def __init__(self, ground: Ground, model: Model, seed: int) -> None:
        self.ground, self.random = ground, random.Random(seed)
        self.owner, self.conditions, backing = ground.pledged(3 * FORFEIT // 2)
        backing = replace(backing, seconds=2 * NOTICE)
        self.model = Pledges(self.owner.address, Terms(FORFEIT, CHARGE, NOTICE, PERIOD))
        self.model.add(3 * FORFEIT // 2)
        right = answered(model, backing, ground.now)
        self.bundle: Bundle = run_of(model, right)
        self.proof: Written = written(self.bundle)
        signed = [right, *(lying(model, backing, right, one_wrong(right, k)) for k in (2, 5, 8))]
        self.notes: list[tuple[Note, Signed]] = []
        for number, one in enumerate(signed):
            assert one.backed is not None
            self.notes.append((Note(number, not number, one.backed.until), one))
        self.clients = [ground.account() for _ in range(3)]
        self.jobs: dict[int, Open] = {}
        self.done: Counter[str] = Counter()

    def act(self) -> None:
        """Make a move that may be refused, on the chain and in the model."""
        now = self._away_from_instants()
        pledges, who = self.ground.pledges, self.random.choice(self.clients)
        note, signed = self.random.choice(self.notes)
        row = self.model.pledge.row
        if row and self.random.random() < 0.7:
            note, signed = next(one for one in self.notes if one[0] == row[0].note)
        assert signed.backed is not None
        kind = self.random.choice(
            ("add", "notice", "reclaim", "skip", *("commit", "challenge", "end", "decide", "close") * 6)
        )
        if kind == "skip":
            self.ground.skip(self.random.choice((PERIOD, PERIOD, PERIOD, NOTICE // 2)))
        elif kind == "end":
            self._end()
        elif kind == "add":
            wei = self.random.choice((1, FORFEIT))
            self._both(kind, lambda: self.model.add(wei), self.owner, pledges.pledging(self.conditions, wei))
        elif kind == "notice":
            call = pledges.notice(self.conditions)
            self._both(kind, lambda: self.model.give_notice(now), self.owner, call)
        elif kind == "reclaim":
            self._both(kind, lambda: self.model.reclaim(now), self.owner, pledges.reclaim())
        elif kind == "commit":
            call = pledges.commit(commitment(who.address, signed.backed.digest, SALT))
            self._both(kind, lambda: self.model.commit(who.address, note), who, call)
            self.ground.skip(2)
        elif kind == "challenge":
            committed = [one for one in self.model.committed if one[1] == note.number]
            if committed and self.random.random() < 0.8:
                who = next(one for one in self.clients if one.address == min(committed)[0])
            least = self.random.choice((0, 0, FORFEIT))
            wei = self.random.choice((CHARGE, CHARGE, 2 * CHARGE, CHARGE - 1))
            made = pledges.challenge(self.conditions, signed, self.bundle, "", least, SALT)
            call = Call(made.action, made.to, made.data, wei)
            if self._both(kind, lambda: self.model.challenge(who.address, note, wei, least, now), who, call):
                number = int(self.ground.client.contracts.jobs.functions.jobCount().call())
                self.jobs[number] = self.model.pledge.row[-1]
        elif kind == "decide":
            empty = bool(row) and row[0].ended is Ended.NOTHING
            proof = NOTHING_WRITTEN if empty else self.proof.words
            call = pledges.decide(self.conditions, signed, proof)
            self._both(kind, lambda: self.model.decide(note), who, call)
        else:
            call = pledges.close(self.conditions, signed)
            self._both(kind, lambda: self.model.close(note, now), who, call)

    def check(self) -> None:
        """Compare all amounts."""
        kept = self.ground.pledges.pledge(self.owner.address)
        assert (kept.amount, kept.opened - kept.decided) == (
            self.model.pledge.amount,
            len(self.model.pledge.row),
        )
        for account in (self.owner.address, *(one.address for one in self.clients)):
            assert self.ground.credit(account) == self.model.credits[account]
        self.ground.check_money()

    def _both(self, kind: str, move: object, who: TransactionManager, call: Call) -> bool:
        """Make a move here and there. Return whether it was made."""
        want = have = None
        try:
            move()  # type: ignore[operator]
        except Refused as error:
            want = error.name
        try:
            self.ground.send(who, call)
        except Reverted as error:
            have = error.name
        assert have == want, kind
        self.done[want or kind] += 1
        return want is None

    def _end(self) -> None:
        """Let one of the jobs end that run, in one of three ways."""
        if not (running := [number for number, one in self.jobs.items() if one.ended is Ended.RUNS]):
            return
        number = self.random.choice(running)
        ended = self.random.choice((Ended.SHOWN, Ended.SHOWN, Ended.NONSENSE, Ended.NOTHING))
        phase = self.ground.client.snapshot().job(number).phase.name
        if phase != "TRAINING":
            ended = Ended.NOTHING  # NOTE: what was skipped for other jobs was skipped for this one
        if ended is Ended.SHOWN:
            self.ground.accept(self.bundle, number)
        elif ended is Ended.NONSENSE:
            steps = self.bundle.terms.steps
            tree = Tree(Tag.RUN_TREE, [bytes([k + 1]) * 32 for k in range(steps)])
            self.ground.accept_root(tree.root, tree.leaves[-1], tree.path(steps - 1), [number])
        else:
            self.ground.pass_over(number)
        self.jobs[number].ended = ended

    def _away_from_instants(self) -> int:
        """Let some time pass where an instant is near; return the time."""
        instants = [*self.model.instants(), *(note.until for note, _ in self.notes)]
        while any(-NEAR_S < instant - self.ground.now < NEAR_S for instant in instants if instant):
            self.ground.skip(NEAR_S)
        return self.ground.now


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 8))])
def test_contract_and_model_agree_on_every_move(ground: Ground, model: Model, seed: int) -> None:
    burned = ground.credit(BURNED)
    play = Play(ground, model, seed)
    for _ in range(ACTS):
        play.act()
        play.check()
    assert ground.credit(BURNED) - burned == play.model.credits[BURNED]
    print(seed, dict(play.done))
    assert play.done["challenge"]
    assert play.done["decide"] + play.done["close"]
