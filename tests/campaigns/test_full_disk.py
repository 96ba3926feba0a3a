"""A trainer's disk is full from some moment on, for a while or for good: it does not stake, or it defends its stake.

The disk is real and small. Everything else is, too: the chain, the liar, the challenger on a disk of its own.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from assay_lab.faults import Fault
from tests.conftest import Anvil
from tests.e2e.arena import STAKE, Arena
from tests.e2e.conftest import bundle  # noqa: F401  # the fixture
from tests.e2e.test_disputes import honest_root
from tests.support.small_disk import Filler, small_disk
from trainer_node.chain import JobPhase
from trainer_node.daemon.service import Daemon, Service
from trainer_node.local.bundle import Bundle
from trainer_node.storage import disk_keeper as keeper_module

DISK = 24 << 20
NAME = "trainer-0"
POINTS = 24
WRITES = 220
"""About the number of writes of the honest trainer in one of these games; a point beyond the last fills nothing."""
FAULTS = (Fault.WRONG_INPUT, Fault.WRONG_OP_OUTPUT, Fault.WITHHOLD)


class Watched:
    """The honest trainer's node, whose disk fills at its ``point``-th write, and has room again ``turns`` rounds later
    (None: never)."""

    def __init__(self, node: Daemon, point: int, turns: int | None, tick: Callable[[], None]) -> None:
        self.node, self._point, self._turns = node, point, turns
        self._filler = Filler(node.settings.data_dir)
        self._service = Service(node, tick)
        self.writes = self._since = 0
        self.full = self.freed = False
        self.told: set[str] = set()
        self._count(node.database, "session")
        self._count(node.store, "_named_at_the_end")

    def tick(self) -> None:
        """Do one round, and listen to what /readyz says."""
        self._service.round()
        self.told |= {line.partition(":")[0].partition(" ")[0] for line in self.answer()["reasons"]}
        if self.full and not self.freed:
            self._since += 1
            if self._since == self._turns:
                self.free()

    def answer(self) -> Any:
        return httpx.get(self.node.server.uri + "/readyz").json()

    def free(self) -> None:
        self._filler.free()
        self.freed = True

    def _count(self, owner: Any, name: str) -> None:
        real = getattr(owner, name)

        def counting(*given: Any, **named: Any) -> Any:
            self.writes += 1
            if self.writes == self._point:
                self.full = True
                self._filler.fill()
            return real(*given, **named)

        setattr(owner, name, counting)


@contextmanager
def game(
    anvil: Anvil, folder: Path, played: Bundle, fault: Fault, point: int, turns: int | None
) -> Iterator[tuple[Arena, Watched]]:
    with (
        small_disk(folder / NAME, DISK),
        Arena(anvil, folder, played, trainers=[Fault.NONE, fault]) as arena,
    ):
        member = next(member for member in arena.members if member.name == NAME)
        watched = Watched(member.node, point, turns, member.loop.tick)
        member.loop = watched  # type: ignore[assignment]
        # NOTE: views of the store are copies, so the counting must be there before the first is made; it is.
        yield arena, watched


def check(anvil: Anvil, folder: Path, played: Bundle, fault: Fault, point: int, turns: int | None) -> None:
    with game(anvil, folder, played, fault, point, turns) as (arena, watched):
        outcome = arena.play()
        # NOTE: on a busy machine a liar may leave the job to others before it has claimed anything.
        assert outcome.job.phase is JobPhase.ACCEPTED
        assert outcome.job.accepted_root == honest_root(played)
        for member in arena.members:
            claim = outcome.job.claim_of(arena.address(member.name))
            if member.honest:
                assert outcome.profit[member.name] >= 0, f"{member.name} lost {outcome.profit[member.name]}"
            else:
                assert claim is None or claim.lost, member.name
        metrics = httpx.get(watched.node.server.uri + "/metrics").text
        if watched.full:
            assert "disk" in watched.told, "readyz said nothing of the disk"
            assert "assay_ready" in metrics
        if not watched.freed:
            watched.free()
        deadline = time.monotonic() + 60
        while watched.answer()["reasons"] and time.monotonic() < deadline:
            watched.tick()
        assert watched.answer() == {"ready": True, "reasons": [], "notices": []}, "it recovers by itself"


@pytest.fixture(autouse=True)
def _look_in_every_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper_module, "LOOK_S", 0.0)


@pytest.mark.slow
def test_a_disk_that_fills_while_it_trains_costs_no_stake(
    anvil: Anvil,
    tmp_path: Path,
    bundle: Bundle,  # noqa: F811
) -> None:
    check(anvil, tmp_path, bundle, Fault.WRONG_INPUT, 60, 12)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(POINTS))
def test_a_full_disk_at_any_moment_costs_no_stake(
    anvil: Anvil,
    tmp_path: Path,
    bundle: Bundle,  # noqa: F811
    number: int,
) -> None:
    draw = random.Random(number)
    point = 1 + (number * WRITES + draw.randrange(WRITES)) // POINTS
    turns = draw.choice([None, 5, 20])
    check(anvil, tmp_path, bundle, FAULTS[number % len(FAULTS)], point, turns)


def test_a_gpt_job_on_a_disk_of_eight_megabytes_is_left_to_others(anvil: Anvil, tmp_path: Path) -> None:
    """What it would take does not fit, which is said before a stake is given."""
    pytest.importorskip("transformers", reason="needs the extra [models]")
    from assay_capture.capture import build, load_recipe

    played = build(load_recipe("gpt2-tiny", steps=10))
    with (
        small_disk(tmp_path / NAME, 8 << 20),
        Arena(anvil, tmp_path, played, trainers=[Fault.NONE], challenger=None, verifiers=0) as arena,
    ):
        member = arena.members[0]
        watched = Watched(member.node, -1, None, member.loop.tick)
        before = arena.web3.eth.get_balance(arena.address(NAME))  # type: ignore[arg-type]
        deadline = time.monotonic() + 300
        while f"job {arena.job_id}" not in " ".join(
            watched.answer()["reasons"] + watched.answer()["notices"]
        ):
            watched.tick()
            assert time.monotonic() < deadline, watched.answer()
            time.sleep(0.1)
        for _ in range(5):
            watched.tick()
        told = watched.answer()
        assert not told["ready"]
        assert any(reason.startswith("disk: ") for reason in told["reasons"])
        job = arena.client.snapshot().job(arena.job_id)
        assert job.phase is JobPhase.TRAINING
        assert not job.trainers
        assert arena.web3.eth.get_balance(arena.address(NAME)) == before  # type: ignore[arg-type]
        assert before > STAKE
        text = httpx.get(member.node.server.uri + "/metrics").text
        assert "assay_ready 0.0" in text
        assert 'assay_problems{topic="disk"} 1.0' in text
