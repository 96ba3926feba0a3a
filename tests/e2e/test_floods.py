"""Strangers who request all that they can pay for: every piece is answered in time, once, and no move waits for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import structlog

from assay_lab.faults import Fault
from referee_py.availability import Piece, Place
from referee_py.availability.state import OUTPUTS
from referee_py.params import MAX_OPEN
from referee_py.program.modes import Rounding
from referee_py.walk.reason import Reason
from tests.conftest import Anvil
from trainer_node.chain import JobPhase, JobView
from trainer_node.daemon.service import Daemon
from trainer_node.errors import Reverted
from trainer_node.local.bundle import Bundle

from . import brink
from .arena import REWARD, STAKE, Arena, Outcome
from .flood import BLOCK_S, FloodArena, Flooder, answers_of, delays, ledger_of, measured_as
from .test_disputes import honest_root

STRIDE = 20
ROOMY_S, TIGHT_S = 660, 600
"""Verdict periods in which a match and a flood at once do and do not fit twice, with steps of 3 s."""


def claimed(arena: Arena) -> JobView:
    """Play until somebody has claimed and the challenges go on."""
    while True:
        job = arena.client.snapshot().job(arena.job_id)
        if job.phase is JobPhase.CHALLENGE and job.groups:
            return job
        arena.turn()


def leaves(tree: int, count: int, node: int = 5) -> list[Place]:
    return [Place(Piece.LEAF, tree, node, 0, part) for part in range(count)]


def everything(nodes: int) -> list[Place]:
    """All that one root can have open: records and leaves of two checkpoints, also such as do not exist."""
    half = MAX_OPEN // 2
    found = []
    for tree in (0, 1):
        records = [Place(Piece.RECORD, tree, node) for node in range(nodes)]
        asked = [
            Place(Piece.LEAF, tree, node, tensor, part)
            for part in (0, 1, 1 << 40)
            for tensor in (0, 1, OUTPUTS)
            for node in range(nodes)
        ]
        found += (records + asked)[:half]
    assert len(found) == MAX_OPEN
    return found


def play(arena: FloodArena, flooder: Flooder) -> Outcome:
    """Play to the end, with the flooder closing whatever is late."""
    while not (job := arena.client.snapshot().job(arena.job_id)).phase.ended:
        assert not flooder.close_late(job), "something was not answered in time"
        if not job.open_matches and not ledger_of(arena).open:
            arena.leisure_s = 1000  # what is requested has put the end off by an hour
        arena.turn()
    return arena.play()


def test_64_leaves_of_a_checkpoint_take_its_interval_once(
    anvil: Anvil, tmp_path: Path, bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They do not double the deposit. Computed one by one, they would take 21 minutes of the ten that there are."""
    measured_as(monkeypatch, 1)
    with FloodArena(
        anvil,
        tmp_path,
        bundle,
        trainers=[Fault.NONE],
        challenger=None,
        verifiers=0,
        threshold=0,
        victim="trainer-0",
        verdict_s=600,
        step_s=1,
    ) as arena:
        job, flooder = claimed(arena), Flooder(arena)
        arena.slow = True
        assert job.groups[0].root == honest_root(bundle)
        flooder.request(job, job.groups[0].root, leaves(1, 64))
        outcome = play(arena, flooder)
        assert outcome.job.phase is JobPhase.ACCEPTED
        assert len(ledger_of(arena).answered) == 64
        assert arena.steps == STRIDE, "an interval: its last step shows all the leaves"
        assert outcome.profit["trainer-0"] > REWARD
        assert flooder.profit < 0


@pytest.mark.parametrize("exists", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_answers_are_sent_once_however_many_confirmations_are_waited_for(
    anvil: Anvil, tmp_path: Path, bundle: Bundle, exists: bool
) -> None:
    """A second answer changes nothing and is not refused, so nobody would pay for it."""
    confirmations = 12

    class Late(Arena):
        def _node(self, name: str, role: str, **settings: Any) -> Daemon:
            return super()._node(name, role, **{**settings, "confirmations": confirmations})

        def skip(self, seconds: int) -> None:
            super().skip(min(seconds, 5))  # one block

        def _deploy(self) -> Any:
            client = super()._deploy()
            for _ in range(2 * confirmations):
                self.skip(1)
            return client

    with Late(
        anvil, tmp_path, bundle, trainers=[Fault.NONE], challenger=None, verifiers=0, threshold=0
    ) as arena:
        job = claimed(arena)
        program = bundle.program
        node, place = next(
            (n, k)
            for n, structure in enumerate(program.nodes)
            for k, operand in enumerate(structure.inputs)
            if program.type_of(operand).nbytes >= 45 << 10
        )
        parts, batches = (range(45), 2) if exists else (range(1 << 40, (1 << 40) + 16), 1)
        flooder: Any = Flooder(arena)  # type: ignore[arg-type]
        flooder.request(job, job.groups[0].root, [Place(Piece.LEAF, 1, node, place, part) for part in parts])
        for _ in range(6 * confirmations):
            arena.turn()
        assert not ledger_of(arena).open
        assert len(ledger_of(arena).answered) == len(parts)
        sent = answers_of(arena, arena.address("trainer-0"))
        sent = [one for one in sent if one[1] > 50_000]  # what it is owed is withdrawn, too
        assert len(sent) == batches, sent


Scene = tuple[str, dict[str, Any]]
SCENES: dict[str, Scene] = {
    "trainer": ("trainer-0", {"trainers": [Fault.NONE], "challenger": Fault.WRONG_OP_OUTPUT}),
    "challenger": ("challenger", {"trainers": [Fault.WRONG_OP_OUTPUT]}),
}


def disputed(arena: FloodArena, places: list[Place]) -> tuple[Outcome, list[int], Flooder]:
    """Play a dispute in which these are requested of the victim once both sides have claimed."""
    flooder, victim = Flooder(arena), arena.address(arena._victim)
    while not (job := arena.client.snapshot().job(arena.job_id)).open_matches:
        arena.turn()
    own = job.claim_of(victim)
    assert own is not None
    arena.slow = True
    if places:
        flooder.request(job, job.groups[own.group].root, places)
    outcome = play(arena, flooder)
    return outcome, delays(arena, victim), flooder


@pytest.mark.slow
@pytest.mark.parametrize("role", SCENES)
def test_no_move_is_later_under_a_flood_than_without_by_more_than_a_block(
    start_anvil: Callable[..., Anvil],
    tmp_path: Path,
    bundle: Bundle,
    monkeypatch: pytest.MonkeyPatch,
    role: str,
) -> None:
    """512 pieces of the root that it plays for, an interval of 60 s each, and all are answered in time."""
    measured_as(monkeypatch)
    victim, parties = SCENES[role]
    played = list[tuple[Outcome, list[int]]]()
    for name, places in (("calm", []), ("flood", everything(bundle.terms.node_count))):
        folder = tmp_path / name
        with FloodArena(
            start_anvil(),
            folder,
            bundle,
            verifiers=0,
            threshold=0,
            victim=victim,
            verdict_s=ROOMY_S,
            **parties,
        ) as arena:
            outcome, late, flooder = disputed(arena, places)
            played.append((outcome, late))
            assert len(ledger_of(arena).answered) == len(places)
            assert outcome.job.accepted_root == honest_root(bundle)
            if places:
                assert flooder.profit < 0
    (calm, before), (flooded, after) = played
    assert len(before) == len(after) > 1
    assert max(b - a for a, b in zip(before, after, strict=True)) <= BLOCK_S, (before, after)
    assert flooded.profit[victim] >= calm.profit[victim]


def test_a_job_in_which_a_flood_beside_a_match_would_be_answered_late_is_left_to_others(
    anvil: Anvil, tmp_path: Path, bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is staked, and the reason has the numbers."""
    measured_as(monkeypatch)
    with (
        FloodArena(
            anvil,
            tmp_path,
            bundle,
            trainers=[Fault.NONE],
            verifiers=0,
            threshold=0,
            victim="trainer-0",
            verdict_s=TIGHT_S,
        ) as arena,
        structlog.testing.capture_logs() as told,
    ):
        while (snapshot := arena.client.snapshot()).now <= snapshot.job(arena.job_id).commit_end:
            arena.turn()
        job = arena.client.snapshot().job(arena.job_id)
        assert not job.trainers
        assert not job.claims
        reasons = [str(event["reason"]) for event in told if event["event"] == "job.left_to_others"]
        assert any(
            f"verdict period has {TIGHT_S} s" in why and "requested under a checkpoint" in why
            for why in reasons
        )


@pytest.mark.slow
def test_a_trainer_answers_a_flood_of_requests_for_its_logs(anvil: Anvil, tmp_path: Path) -> None:
    """Digests of every step, and blocks of every node, also such as do not exist."""
    job_of = brink.bundle(Rounding(32))
    with FloodArena(
        anvil,
        tmp_path,
        job_of,
        trainers=[Fault.NONE],
        challenger=None,
        verifiers=0,
        threshold=0,
        victim="trainer-0",
        verdict_s=ROOMY_S,
    ) as arena:
        job, flooder = claimed(arena), Flooder(arena)
        arena.slow = True
        steps, nodes = range(1, job.program.steps + 1), range(job.program.node_count)
        places = [Place(Piece.DIGESTS, step, 0) for step in steps]
        places += [
            Place(Piece.BLOCKS, step, node, 0, part)
            for part in (0, 1 << 40, *range(1, 9))
            for node in nodes
            for step in steps
        ]
        flooder.request(job, job.logs, places[:MAX_OPEN])
        outcome = play(arena, flooder)
        assert outcome.job.phase is JobPhase.ACCEPTED
        assert len(ledger_of(arena).answered) == MAX_OPEN
        assert not arena.steps, "its logs are on its disk"
        assert flooder.profit < 0


@pytest.mark.slow
@pytest.mark.usefixtures("parts_alone")
def test_a_flood_about_a_refuted_root_keeps_its_refuter_from_nothing(
    anvil: Anvil, tmp_path: Path, bundle: Bundle
) -> None:
    """Nothing can be requested of a refuter: it claims no run."""
    with FloodArena.sampled(anvil, tmp_path, bundle, victim="nobody", verdict_s=ROOMY_S) as arena:
        flooder = Flooder(arena)
        while not (job := arena.client.snapshot().job(arena.job_id)).open_matches:
            arena.turn()
        refuting, refuted = job.groups[-1], job.groups[0]
        assert refuting.refutes == refuted.index
        with pytest.raises(Reverted, match="NotClaimed"):
            flooder.request(job, refuting.root, leaves(1, 1))
        flooder.request(job, refuted.root, everything(bundle.terms.node_count))
        outcome = arena.play()
        assert outcome.job.phase is JobPhase.UNCLAIMED
        assert outcome.matches == [(Reason.OPERATOR, {arena.address("trainer-0")})]
        assert outcome.profit["challenger"] == STAKE // 2
