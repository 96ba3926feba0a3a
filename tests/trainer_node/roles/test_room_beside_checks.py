"""Attack: the author of a lie, or anybody, claims other roots of the job and serves their states. What is fetched to
check these took the room of the job's own refutation, and with a stake in the job that of all other stakes."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.trainer_node.audit.runs import opened, publish
from tests.trainer_node.desk import STRANGER, until
from tests.trainer_node.slow import SlowServer
from trainer_node.chain import ClaimView, Group
from trainer_node.storage.disk_estimate import Needs
from trainer_node.storage.resting_states import Found
from trainer_node.storage.store import Store

from .member import ME, RICH
from .sampling.test_siege import INTERVAL, Siege, siege  # noqa: F401
from .test_found_lies_that_wait import Waiting
from .test_what_a_lie_rests_on import same_numbers  # noqa: F401

ELSEWHERE, WAITS = 30, 40
ROOTS = {"the right root": (0,), "three lies": (2, 5, 11)}


@contextlib.contextmanager
def claimed(rounds: Waiting, siege: Siege, folder: Path, lies: Sequence[int], first: int) -> Iterator[Any]:  # noqa: F811
    """Serve further runs, each with a lie after a step (0: with none); yield their claims and groups."""
    claims, groups = list[ClaimView](), list[Group]()
    with contextlib.ExitStack() as stack:
        for number, lie in enumerate(lies, start=first):
            name = f"run{number}-{lie}"
            run = opened(publish(folder / name, 12, 3, lie=lie), folder / f"seen-{name}")
            store = Store(folder / name / "artifacts", sync=False)
            uri = stack.enter_context(SlowServer(store, siege.clock)).uri
            claims.append(ClaimView(number, STRANGER, 1, number, True, False, False, uri))
            groups.append(Group(number, run.root, bytes(32), 0, 0, 0, 0, (number,)))
        yield claims, groups


def refutes(rounds: Waiting) -> bool:
    rounds.node.wei = RICH
    for _ in range(30):
        rounds.keeper._tried = -math.inf
        rounds.go(1)
        rounds.later(600)
        rounds.keeper.close()
        if rounds.refuted:
            return True
    return False


@pytest.mark.parametrize("roots", ROOTS)
def test_a_refutation_elsewhere_keeps_its_room(siege: Siege, tmp_path: Path, roots: str) -> None:  # noqa: F811
    rounds, node, of = Waiting(siege, tmp_path), siege.node, siege.job(1, siege.lie)
    keeper = rounds.keeper
    siege.prepared(of)
    rounds.node.wei = 0
    until(lambda: bool(rounds.go(1) and node.found(1)))
    (lie,) = node.found(1)
    siege.wanted.refuted, siege.wanted.of = (INTERVAL,), siege.run.root
    claims = (*of.claims, ClaimView(1, ME, 1, 1, False, False, False, ""))
    groups = (*of.groups, Group(1, lie.root, bytes(32), 1, 0, 0, 0, (1,), 0))
    with rounds.changed(claims=claims, groups=groups):
        rounds.go(1)
        rounds.go(1)
    keeper.stake(ELSEWHERE, True)
    keeper.needs(ELSEWHERE, Needs(40_000))
    keeper.needs(WAITS, Needs(0, 0, 20_000))
    keeper.stake(WAITS, False)
    keeper.finds(WAITS, Found.LIE)
    keeper.collect()
    keeper._store_bytes = rounds.store.usage.total + 60_000 + keeper._left(1)
    with claimed(rounds, siege, tmp_path, ROOTS[roots], 2) as (more, roots_of):
        with rounds.changed(claims=(*claims, *more), groups=(*groups, *roots_of)):
            for _ in range(12):
                rounds.go(1)
        assert keeper.room(ELSEWHERE) >= 40_000
        assert keeper.too_full(WAITS, part=True) is None


@pytest.mark.parametrize("roots", ROOTS)
def test_a_lie_that_waits_keeps_its_room_from_its_own_job(siege: Siege, tmp_path: Path, roots: str) -> None:  # noqa: F811
    rounds, node, of = Waiting(siege, tmp_path), siege.node, siege.job(1, siege.lie)
    rounds.node.wei = 0
    until(lambda: bool(rounds.go(1) and node.found(1)))
    rounds.go(1)
    keeper = rounds.keeper
    keeper.collect()
    keeper._store_bytes = rounds.store.usage.total + keeper._left(1, part=True) + 4096
    with (
        claimed(rounds, siege, tmp_path, ROOTS[roots], 1) as (more, roots_of),
        rounds.changed(claims=(*of.claims, *more), groups=(*of.groups, *roots_of)),
    ):
        for _ in range(8):
            rounds.go(1)
        assert refutes(rounds)


def test_what_was_found_right_gives_way_to_a_refutation(siege: Siege, tmp_path: Path) -> None:  # noqa: F811
    """The right root is claimed and checked first, and the lie later."""
    rounds, node, of = Waiting(siege, tmp_path), siege.node, siege.job(1, siege.lie)
    siege.prepared(of)
    keeper = rounds.keeper
    keeper.collect()
    keeper._store_bytes = rounds.store.usage.total + keeper._left(1, part=True) + 28_672
    rounds.node.wei = RICH
    with claimed(rounds, siege, tmp_path, (0,), 0) as (right, group):
        with rounds.changed(claims=tuple(right), groups=tuple(group)):
            until(lambda: bool(rounds.go(1) is not None and node._checks[1].passed))
        lie = ClaimView(1, STRANGER, 1, 1, True, False, False, siege.quick.uri)
        wrong = Group(1, siege.run.root, bytes(32), 0, 0, 0, 0, (1,))
        with rounds.changed(claims=(*right, lie), groups=(*group, wrong)):
            assert refutes(rounds)
