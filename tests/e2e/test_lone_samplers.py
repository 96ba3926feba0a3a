"""A sampler acts as if it were alone: no ally of a liar, and no second liar, keeps it from refuting what it knows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from assay_lab.daemons import SilentParticipant
from assay_lab.faults import Fault
from referee_py.commit import Tag, Tree
from referee_py.execute import Run
from referee_py.jobs import commitment
from tests.conftest import Anvil
from trainer_node.chain import Call, JobPhase, JobView, TransactionManager
from trainer_node.client.posting import Offer
from trainer_node.local.bundle import Bundle
from trainer_node.roles.trainer import trainer
from trainer_node.run.modes import backend_of
from trainer_node.settings.extent import Mode

from .arena import NOWHERE, PERIOD_S, STAKE, Arena

SALT = bytes(31) + b"\1"


class LongClocks(Arena):
    """A clock is twice a challenge period, as by default: who waits for a silent party's clock misses the period."""

    def _terms(self, slots: int, threshold: int) -> Offer:
        return replace(super()._terms(slots, threshold), clock=2 * PERIOD_S)


class Ally:
    """Posts the right refutation of a liar's root, knowing all, and never moves."""

    def __init__(self, arena: Arena, bundle: Bundle) -> None:
        self._arena, self.key = arena, arena._keys[0]
        self._key = arena._transactions()
        self.address = self._key.account.address
        self._before = arena.web3.eth.get_balance(self.address)
        terms = bundle.terms
        run = Run.of(bundle, backend_of("cpu"))
        right = run.commit_run().checkpoints
        (liar,) = (member for member in arena.members if not member.honest)
        assert liar.runner is not None
        self.theirs = liar.runner.replay(arena.job_id).run_tree(0, 0, terms.steps)
        self._at = next(k for k, leaf in enumerate(self.theirs.leaves) if leaf != right[k])
        self._right = right[self._at]

    @property
    def lost(self) -> int:
        """Wei, gas included."""
        return self._before - self._arena.web3.eth.get_balance(self.address)

    def commit(self) -> None:
        leaves = list(self.theirs.leaves)
        leaves[self._at] = self._right
        jobs, where = self._arena.client.contracts.jobs, self._arena.client.deployment.chain_id
        root = Tree(Tag.RUN_TREE, leaves).root
        bound = where, str(jobs.address), self._arena.job_id, self.address
        hashed = commitment(*bound, root, self._right, self.theirs.root, SALT)
        self._send(self._key, Call.of(jobs, "commitChallenge", self._arena.job_id, hashed))

    def refutation(self, price: int) -> Call:
        k, path = self._at, list(self.theirs.path(self._at))
        told = self.theirs.root, k, self.theirs.leaves[k], self._right, path, NOWHERE
        return Call.of(
            self._arena.client.contracts.jobs, "refute", self._arena.job_id, told, SALT, value=price
        )

    def refute(self, price: int) -> None:
        self._send(self._key, self.refutation(price))

    @staticmethod
    def _send(key: TransactionManager, call: Call) -> None:
        key.send(call)


@pytest.mark.usefixtures("parts_alone")
@pytest.mark.parametrize("refutations", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_an_ally_that_refutes_first_and_never_moves_saves_no_liar(
    anvil: Anvil, tmp_path: Path, bundle: Bundle, refutations: int
) -> None:
    """While the ally's refutations play, the sampler waits; once they are lost, it has a period for its own. The liar
    and its ally lose together what the refutations have cost, and the claim."""
    with LongClocks.sampled(anvil, tmp_path, bundle) as arena:
        while not (job := arena.client.snapshot().job(arena.job_id)).commitments:
            arena.turn()
        ally = Ally(arena, bundle)
        ally.commit()
        arena.skip(2)
        while job.phase is not JobPhase.CHALLENGE:
            assert not job.phase.ended
            arena.turn()
            job = arena.client.snapshot().job(arena.job_id)
        assert not any(group.refutes is not None for group in job.groups)
        for number in range(refutations):
            ally.refute(STAKE << number)
        outcome = arena.play()
        assert outcome.job.phase is JobPhase.UNCLAIMED
        assert [losers for _, losers in outcome.matches] == [
            *([{ally.address}] * refutations),
            {arena.address("trainer-0")},
        ]
        spent = STAKE * ((1 << refutations) - 1)
        assert outcome.profit["challenger"] == STAKE // 2
        assert outcome.profit["trainer-0"] == spent // 2 - STAKE, "half of what its ally loses"
        assert ally.lost >= spent


class TwoRoots(LongClocks):
    """Two trainers lie apart, and the first of them moves no more. ``samplers`` check all that is claimed."""

    samplers = 1

    def _post(self, client: TransactionManager, slots: int, threshold: int) -> None:
        for number in range(1, self.samplers):
            name = f"challenger-{number}"
            self._add_sampler(name, self._node(name, name, mode=Mode.CHALLENGE, check="sample:1"))
        super()._post(client, slots, threshold)

    def silence_the_first(self) -> None:
        """Let both liars claim; the one whose root came first moves no more."""
        while len((job := self.client.snapshot().job(self.job_id)).claims) < 2:
            self.turn()
        member = next(member for member in self.members if member.node.address == job.claims[0].owner)
        assert member.runner is not None
        member.start(trainer(member.node, member.runner, SilentParticipant))


@pytest.mark.usefixtures("parts_alone")
@pytest.mark.parametrize("samplers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_one_sampler_refutes_every_wrong_root(
    anvil: Anvil, tmp_path: Path, bundle: Bundle, monkeypatch: pytest.MonkeyPatch, samplers: int
) -> None:
    """Two liars with roots of their own: one account holds two refutations, whose matches it plays side by side."""
    monkeypatch.setattr(TwoRoots, "samplers", samplers)
    with TwoRoots.sampled(
        anvil, tmp_path, bundle, trainers=[Fault.WRONG_OP_OUTPUT, Fault.SKIP_STEPS]
    ) as arena:
        arena.silence_the_first()
        outcome = arena.play()
        assert outcome.job.phase is JobPhase.UNCLAIMED
        liars = {arena.address("trainer-0"), arena.address("trainer-1")}
        lost = [loser for _, losers in outcome.matches for loser in losers]
        assert sorted(lost) == sorted(liars), "each liar has lost one match, and nobody else any"
        assert outcome.profit["trainer-0"] + outcome.profit["trainer-1"] <= -3 * STAKE // 2
        honest = [name for name in outcome.profit if name.startswith("challenger")]
        assert all(outcome.profit[name] >= 0 for name in honest)
        assert len(honest) == samplers


@pytest.mark.slow
@pytest.mark.usefixtures("parts_alone")
def test_a_sampler_that_restarts_finds_all_its_refutations_again(
    anvil: Anvil, tmp_path: Path, bundle: Bundle
) -> None:
    with TwoRoots.sampled(
        anvil, tmp_path, bundle, trainers=[Fault.WRONG_OP_OUTPUT, Fault.SKIP_STEPS]
    ) as arena:
        arena.silence_the_first()
        me = arena.address("challenger")

        def refutations(job: JobView) -> int:
            return sum(job.groups[stake.group].refutes is not None for stake in job.stakes_of(me))

        while refutations(job := arena.client.snapshot().job(arena.job_id)) < 2:
            arena.turn()
            assert not job.phase.ended
        arena.restart("challenger")
        assert all(not group.dead for group in job.groups)
        outcome = arena.play()
        assert outcome.job.phase is JobPhase.UNCLAIMED
        liars = {arena.address("trainer-0"), arena.address("trainer-1")}
        assert {loser for _, losers in outcome.matches for loser in losers} == liars
        assert outcome.profit["challenger"] > 0
