"""Receipts of a served model are challenged, and daemons play the job: the lie loses, the honest server wins."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assay_lab.faults import Fault, Target, executor_of
from assay_serve.answer_run import AnswerRuns
from assay_serve.backed import Backing
from assay_serve.defence import Defence
from assay_serve.model import Model
from assay_serve.pledges import SLOTS, written
from assay_serve.receipt import Signed
from assay_serve.replay import Replayer, Verdict
from referee_py.execute import Run
from referee_py.walk.reason import Reason
from tests.assay_serve import pledged, tiny
from tests.assay_serve.pledged import CHARGE, FORFEIT, SALT, Ground, run_of
from tests.conftest import Anvil
from trainer_node.chain import Call, JobPhase, JobView, TransactionManager
from trainer_node.client.posting import post_job
from trainer_node.local.bundle import Bundle
from trainer_node.network.artifact_server import ArtifactServer
from trainer_node.roles.challenger import challenger
from trainer_node.roles.pursuer import pursuer
from trainer_node.run.modes import backend_of
from trainer_node.storage.store import Store

from .arena import NOWHERE, STAKE, Arena, Member, Outcome, wealth

NUMBER = 4
"""The token that is lied about."""


class Challenged(Arena):
    """A challenge of a receipt of a model, played by daemons. Its job is posted by the contract Pledges, and judged by
    the court alone. ``lie``: the receipt is wrong; ``serves``: its artifacts are served by who has challenged. The
    server's node, the challenger of the arena, has the receipts that it has kept."""

    def __init__(
        self, anvil: Anvil, folder: Path, answers: Model, *, lie: bool, serves: bool = True, **options: Any
    ) -> None:
        self._answers, self._lie, self._serves = answers, lie, serves
        nobody = tiny.ACCOUNT.address
        signed = pledged.answered(answers, Backing(1, nobody, nobody, 1), 1)
        # NOTE: no pledge and no instant changes the run.
        bundle = run_of(answers, signed)
        place: dict[str, Any] = {"fault_step": lie_step(signed), "fault_node": argmax_of(bundle)}
        super().__init__(anvil, folder, bundle, verifiers=0, threshold=0, **place, **options)

    def _post(self, client: TransactionManager, slots: int, threshold: int) -> None:  # noqa: ARG002
        self.ground = ground = Ground.on(self.web3, self.client, client, STAKE)
        self.owner, self.terms, backing = ground.pledged()
        self.receipt = pledged.answered(self._answers, backing, ground.now)
        if self._lie:
            tokens = false_tokens(self._bundle, self.receipt)
            self.receipt = pledged.lying(self._answers, backing, self.receipt, tokens)
        uri = NOWHERE
        if self._serves:
            store = Store(self._folder / "client")
            self._bundle.put(store)
            uri = self._stack.enter_context(ArtifactServer(store)).uri
        else:
            for member in self.members[:-1]:
                self._bundle.put(Store(member.node.settings.data_dir / "artifacts"))
        self._defend(self.members[-1])
        who = ground.account()
        self.client_address = who.address
        ground.commit(who, self.receipt)
        call = ground.pledges.challenge(self.terms, self.receipt, self._bundle, uri, FORFEIT, SALT)
        self._posted_block = ground.send(who, call).block
        self.job_id = self.client.snapshot().job_count()
        self._before = wealth(self.client, self._addresses())

    def _defend(self, member: Member) -> None:
        """Let a node play the challenges of this server's receipts, as `assay pledge defend` does."""
        assert member.runner is not None
        (self._folder / f"{self.receipt.receipt.id}.json").write_bytes(self.receipt.to_bytes())
        at = self.ground.pledges, self.owner.address, lambda _: AnswerRuns(self._answers), self._folder
        member.start(challenger(member.node, member.runner, Defence(member.node, *at).wants))

    def decide(self) -> tuple[int, int]:
        """Let anybody decide the challenge; return what the challenger and the pledge's owner are owed."""
        call = self.ground.pledges.decide(self.terms, self.receipt, written(self._bundle).words)
        self.ground.send(self.ground.account(), call)
        return self.ground.credit(self.client_address), self.ground.credit(self.owner.address)

    @property
    def left(self) -> int:
        """Wei that are pledged still."""
        return self.ground.pledges.pledge(self.owner.address).amount


def lie_step(signed: Signed) -> int:
    """Return the step that writes the token."""
    return len(signed.lists.prompt) + NUMBER - 1


def argmax_of(bundle: Bundle) -> int:
    return max(k for k, node in enumerate(bundle.program.nodes) if node.name == "argmax")


def false_tokens(bundle: Bundle, signed: Signed) -> list[int]:
    """Return the tokens of a server that writes another one in a place, and goes on honestly from it."""
    backend = backend_of("cpu")
    tensors = bundle.program, bundle.constants, bundle.initial, backend
    executor = executor_of(Fault.WRONG_OP_OUTPUT, Target(*tensors, lie_step(signed), argmax_of(bundle)))
    run = Run.of(bundle, backend, executor=executor)
    state = run.advance(run.initial(), bundle.terms.steps)
    start = len(signed.lists.prompt)
    return [
        int(token) for token in np.asarray(state.values[0].array)[0, start : start + len(signed.lists.tokens)]
    ]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return Model.load(tiny.write(tmp_path_factory.mktemp("served") / "tiny"))


def played(arena: Challenged) -> Outcome:
    """Play the job to its end, in which the honest root is accepted after one match."""
    outcome = arena.play()
    assert outcome.job.phase is JobPhase.ACCEPTED
    assert outcome.job.accepted_root == written(arena._bundle).root
    assert [reason for reason, _ in outcome.matches] == [Reason.OPERATOR]
    return outcome


def test_a_server_that_lies_about_a_token_loses(anvil: Anvil, tmp_path: Path, answers: Model) -> None:
    """The client trains; the server's node disputes its claim, down to the operator, and loses stake and pledge."""
    lies: dict[str, Any] = {"trainers": [Fault.NONE], "challenger": Fault.WRONG_OP_OUTPUT}
    with Challenged(anvil, tmp_path, answers, lie=True, **lies) as arena:
        found = Replayer(answers).check(arena.receipt, range(1, pledged.COUNT + 1))
        assert (found.verdict, found.token) == (Verdict.DIFFERS, NUMBER)
        outcome = played(arena)
        assert outcome.matches[0][1] == {arena.address("challenger")}
        assert outcome.profit == {"trainer-0": STAKE // 2, "challenger": -STAKE}
        assert arena.decide() == (CHARGE + FORFEIT // 2, 0)
        assert arena.left == FORFEIT


@pytest.mark.parametrize("serves", [True, False])
def test_an_honest_server_that_is_challenged_is_paid_for_its_trouble(
    anvil: Anvil, tmp_path: Path, answers: Model, serves: bool
) -> None:
    """Whoever has challenged claims a run with another token; the server's node disputes it, and wins half a stake.
    It needs nobody's server for that: it learns from the chain which of its receipts is challenged, and has kept it."""
    lies: dict[str, Any] = {"trainers": [Fault.WRONG_OP_OUTPUT], "challenger": Fault.NONE}
    with Challenged(anvil, tmp_path, answers, lie=False, serves=serves, **lies) as arena:
        outcome = played(arena)
        assert outcome.matches[0][1] == {arena.address("trainer-0")}
        assert outcome.profit == {"trainer-0": -STAKE, "challenger": STAKE // 2}
        assert arena.decide() == (0, CHARGE // 2)
        assert arena.left == 2 * FORFEIT


class Pursued(Challenged):
    """The same, played by a server that has lied: the challenger of the arena is who has found it, with the node that
    `assay pledge pursue` runs. Before the job there is another one of the same program."""

    def _defend(self, member: Member) -> None:  # noqa: ARG002 - a server that has lied defends nothing
        decoy = self._transactions()
        store = Store(self._folder / "decoy")
        offer = dataclasses.replace(self._terms(1, 0), reward=0)
        post_job(self.client, decoy, store, self._bundle, offer, NOWHERE)

    def pursue(self) -> None:
        member = self.members[-1]
        assert member.runner is not None
        member.start(pursuer(member.node, member.runner, lambda job: job.id == self.job_id))

    def fill(self, count: int) -> None:
        """Let allies of the server take so many slots."""
        for _ in range(count):
            join = Call.of(self.client.contracts.jobs, "join", self.job_id, value=2 * STAKE)
            self.ground.send(self.ground.account(), join)

    def job(self) -> JobView:
        return self.client.snapshot().job(self.job_id)


def test_a_server_whose_allies_take_all_slots_and_claim_its_lie_loses(
    anvil: Anvil, tmp_path: Path, answers: Model
) -> None:
    """The attack: nobody who trains has a slot, and a trainer disputes nothing without one."""
    lies: dict[str, Any] = {"trainers": [Fault.WRONG_OP_OUTPUT], "challenger": Fault.NONE}
    with Pursued(anvil, tmp_path, answers, lie=True, serves=True, **lies) as arena:
        arena.fill(SLOTS - 1)
        ally = arena.address("trainer-0")
        while arena.job().trainer(ally) is None:
            arena.members[0].loop.tick()
        arena.pursue()
        outcome = played(arena)
        assert outcome.matches[0][1] == {ally}
        assert outcome.profit == {"trainer-0": -STAKE, "challenger": STAKE // 2}
        assert arena.decide() == (CHARGE + FORFEIT // 2, 0)


def test_a_challenge_that_nobody_answers_is_won_in_a_slot(
    anvil: Anvil, tmp_path: Path, answers: Model
) -> None:
    """Nobody else claims anything. The other job of the same program, which was there before, takes no stake of it."""
    with Pursued(anvil, tmp_path, answers, lie=True, trainers=[], challenger=Fault.NONE) as arena:
        arena.pursue()
        outcome = arena.play()
        assert (outcome.job.phase, outcome.matches) == (JobPhase.ACCEPTED, [])
        assert arena.client.snapshot().job(arena.job_id - 1).trainers == ()
        assert arena.decide() == (CHARGE + FORFEIT // 2, 0)
