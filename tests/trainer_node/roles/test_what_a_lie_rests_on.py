"""Attacks on what a found lie rests on, while nothing of ours is at stake: by when it was found, by what happened to
its root since, and by the room that its refutation needs."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.trainer_node.audit.runs import opened, publish
from tests.trainer_node.desk import STRANGER, honest_run, until
from tests.trainer_node.slow import SlowServer
from trainer_node.chain import ClaimView, Group, JobPhase
from trainer_node.chain.codec.job import Trainer
from trainer_node.errors import DiskFull, RoomKept
from trainer_node.play.wrong_jobs import results
from trainer_node.roles.refutes import Refutes
from trainer_node.roles.sampling.sampler import Sampler
from trainer_node.settings.extent import Mode
from trainer_node.storage.artifacts import Kind, Name
from trainer_node.storage.database import Database
from trainer_node.storage.disk_estimate import Needs
from trainer_node.storage.resting_states import Found
from trainer_node.storage.store import Store

from .member import ME, RICH
from .sampling.test_siege import DAY, INTERVAL, Siege, siege  # noqa: F401
from .test_found_lies_that_wait import LOOKS, STRANGERS, Waiting

ALLY = "0x" + "dd" * 20
ROOM = 4096
"""Bytes that a stranger's job lacks."""


@pytest.fixture(autouse=True)
def same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """All runs are of one program."""
    monkeypatch.setattr(np.random, "default_rng", lambda *_: np.random.Generator(np.random.PCG64(7)))


@pytest.fixture
def rounds(siege: Siege, tmp_path: Path) -> Waiting:  # noqa: F811
    made = Waiting(siege, tmp_path)
    made.node.wei = 0
    return made


def asks_for_room(rounds: Waiting) -> None:
    """A posted job, in which we could stake, lacks a little room on the disk."""
    keeper = rounds.keeper
    rounds.later(3600)
    keeper._store_bytes = rounds.store.usage.total + ROOM
    keeper.needs(STRANGERS, Needs(keeper.room(STRANGERS) + ROOM))
    keeper._tried = -math.inf
    assert keeper.too_full(STRANGERS) is not None
    keeper.close()
    keeper._store_bytes = 0


@pytest.mark.parametrize("phase", [JobPhase.REVEAL, JobPhase.CHALLENGE])
def test_a_lie_that_is_found_while_others_reveal_is_kept(rounds: Waiting, phase: JobPhase) -> None:
    """The attack: the liar reveals and serves at once; its other slot reveals in the last second."""
    with rounds.changed(phase=phase, reveal_end=DAY):
        until(lambda: bool(rounds.go(1) and rounds.siege.node.found(1)))
        rounds.go(1)
        asks_for_room(rounds)
    assert rounds.refutes()


@pytest.mark.parametrize("over", [False, True])
def test_a_root_that_died_and_is_claimed_again_is_refuted(rounds: Waiting, over: bool) -> None:
    """The attack: an ally refutes first and wins. Another lie of the author's keeps the job running until the first one
    cannot be claimed; its refutation, by an ally, too, opens a challenge phase in which it is."""
    until(lambda: bool(rounds.go(1) and rounds.siege.node.found(1)))
    rounds.node.wei = RICH
    (lie,) = rounds.siege.node.found(1)
    root, uri, now = rounds.siege.run.root, rounds.siege.quick.uri, int(rounds.siege.clock())

    def claims(*lost: bool) -> tuple[ClaimView, ...]:
        return (
            ClaimView(0, STRANGER, 1, 0, True, lost[0], False, uri),
            ClaimView(1, ALLY, 1, 1, False, lost[1], False, ""),
            ClaimView(2, STRANGER, 1, 2, False, lost[2], False, ""),
        )

    closing: dict[str, Any] = {
        "phase": JobPhase.CLOSING,
        "challenge_end": now - 5,
        "reclaim_end": now + 10 * DAY,
        "claims": claims(True, False, False),
        "groups": (
            Group(0, root, bytes(32), 0, 1, 1, now - 1 if over else now + DAY, (0,)),
            Group(1, lie.root, bytes(32), 0, 0, 0, 0, (1,), 0),
            Group(2, b"\7" * 32, bytes(32), 0, 0, 0, 0, (2,)),
        ),
    }
    with rounds.changed(**closing):
        rounds.go(1)
        asks_for_room(rounds)
    again = ClaimView(3, STRANGER, 1, 0, False, False, False, uri)
    reopened: dict[str, Any] = {
        "phase": JobPhase.CHALLENGE,
        "challenge_end": now + DAY,
        "reopened": now + DAY,
        "claims": (*claims(True, True, True), again),
        "groups": (
            Group(0, root, bytes(32), 0, 1, 1, now + DAY, (0, 3), None, now + DAY),
            Group(1, lie.root, bytes(32), 0, 1, 0, 0, (1,), 0),
            Group(2, b"\7" * 32, bytes(32), 0, 1, 1, now + DAY, (2,)),
        ),
    }
    with rounds.changed(**reopened):
        assert rounds.refutes()


@pytest.mark.parametrize("lied", [False, True])
@pytest.mark.parametrize("ours", ["nothing", "a refutation", "a slot, in a look before"])
def test_a_claim_of_ours_in_one_false_look_ends_no_checks(
    rounds: Waiting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ours: str, lied: bool
) -> None:
    """The attack: in a job in which we have refuted a lie, or one look before a slot of ours, one endpoint of three
    shows a claim of ours. Then another lie is claimed, and served."""
    siege, node, begun = rounds.siege, rounds.siege.node, list[int]()  # noqa: F811
    second = opened(publish(tmp_path / "run2", 12, 3, lie=2), tmp_path / "seen2")
    assert second.terms == siege.run.terms

    def begins(work: Any) -> Future[Any]:
        begun.append(work.job.id)
        return Future()

    siege.wanted.whole_s, whole_s = math.inf, 10.0 * DAY
    rounds.node.wei = RICH
    monkeypatch.setattr(node, "_begin_run", begins)
    monkeypatch.setattr(type(node), "busy", property(lambda self: any(c.busy for c in self._checks.values())))
    monkeypatch.setattr(node, "_whole_s", lambda _: whole_s)
    monkeypatch.setattr(node, "whole_ready_in_s", lambda of: whole_s if node.prepare(of) else None)
    monkeypatch.setattr(node, "whole_after_s", lambda of: 0.0 if node.prepare(of) else None)
    of = siege.job(1, siege.lie)
    siege.prepared(of)
    until(lambda: bool(rounds.go(1) and node.found(1)))
    claims, groups = of.claims, of.groups
    if ours == "a refutation":
        (lie,) = node.found(1)
        siege.wanted.refuted, siege.wanted.of = (INTERVAL,), siege.run.root
        claims += (ClaimView(1, ME, 1, 1, False, False, False, ""),)
        groups += (Group(1, lie.root, bytes(32), 1, 0, 0, 0, (1,), 0),)
    with rounds.changed(claims=claims, groups=groups):
        rounds.go(1)
    n = len(claims)
    if lied:
        rounds.confirm = rounds.refused
        if ours.startswith("a slot"):
            with rounds.changed(claims=claims, groups=groups, trainers=(Trainer(ME, False, 1, bytes(32)),)):
                rounds.go(1)
        shown = (*claims, ClaimView(n, ME, 1, n, False, False, False, ""))
        with rounds.changed(
            claims=shown, groups=(*groups, Group(n, b"\5" * 32, bytes(32), 0, 0, 0, 0, (n,)))
        ):
            rounds.go(1)
        rounds.confirm = lambda **_: None
    with SlowServer(Store(tmp_path / "run2" / "artifacts", sync=False), siege.clock) as server:
        claims += (ClaimView(n, STRANGER, 1, n, False, False, False, server.uri),)
        groups += (Group(n, second.root, bytes(32), 0, 0, 0, 0, (n,)),)
        with rounds.changed(claims=claims, groups=groups):
            for _ in range(10):
                rounds.go(1)
    assert second.root in {one.against for one in node.found(1)}
    assert (begun, node._checks[1].whole) == ([], False)


@pytest.mark.parametrize("strangers", ["write nothing", "write and rest", "write and are at work"])
def test_room_for_a_refutation_is_kept(rounds: Waiting, strangers: str) -> None:
    """The attack: what is at work gives nothing back, and takes all the room there is while the lie waits."""
    until(lambda: bool(rounds.go(1) and rounds.siege.node.found(1)))
    rounds.go(1)
    rounds.later(3600)
    keeper, store = rounds.keeper, rounds.store
    keeper._store_bytes = store.usage.total + 4 * keeper._left(1, part=True)
    keeper.works_at = lambda job: job == STRANGERS and strangers.endswith("work")
    if strangers != "write nothing":
        keeper.stake(STRANGERS, False)
        view = store.held_by(STRANGERS)
        with contextlib.suppress(RoomKept):
            for number in range(100_000):
                view.put_tensor(np.full(1000, number, np.float32))
        rounds.later(3600)
    keeper.needs(STRANGERS, Needs(1 << 20), [Name(Kind.BLOB, bytes(32))])
    rounds.silent, rounds.node.wei, refuted = True, RICH, False
    for _ in range(6):
        keeper._tried = -math.inf
        rounds.go(1)
        if keeper._making is not None:
            keeper._making.join(30)
        refuted = refuted or bool(rounds.refuted)
    assert refuted


def test_two_lies_keep_no_room_from_each_other(rounds: Waiting) -> None:
    until(lambda: bool(rounds.go(1) and rounds.siege.node.found(1)))
    rounds.go(1)
    keeper = rounds.keeper
    keeper._store_bytes = rounds.store.usage.total + keeper._left(1, part=True)
    keeper.needs(3, Needs(0, 0, keeper._left(1, part=True)))
    keeper.finds(3, Found.LIE)
    assert keeper.room(1) == keeper.room(3) == keeper._left(1, part=True)
    assert keeper.room(STRANGERS) <= 0


def test_a_refutation_reserves_its_interval_and_no_whole_run(rounds: Waiting) -> None:
    """The attack: a job of many checkpoints, whose one lie is refuted, kept the disk from all other jobs."""
    siege, keeper = rounds.siege, rounds.keeper  # noqa: F811
    until(lambda: bool(rounds.go(1) and siege.node.found(1)))
    keeper.needs(1, replace(keeper._needs[1], whole=1 << 50))
    rounds.node.wei = RICH
    rounds.go(1)
    assert rounds.refuted == [1]
    of, (lie,) = siege.job(1, siege.lie), siege.node.found(1)
    siege.wanted.refuted, siege.wanted.of = (INTERVAL,), siege.run.root
    claims = (*of.claims, ClaimView(1, ME, 1, 1, False, False, False, ""))
    groups = (*of.groups, Group(1, lie.root, bytes(32), 1, 0, 0, 0, (1,), 0))
    with rounds.changed(claims=claims, groups=groups):
        rounds.go(1)
        rounds.go(1)
    assert keeper.reserved == keeper._left(1, part=True) < 1 << 40


@pytest.mark.parametrize("shown", LOOKS)
def test_one_false_look_ends_nothing_that_differs(rounds: Waiting, shown: str) -> None:
    differing = computes_another_root(rounds)
    rounds.go(1)
    assert differing() == {1}
    with rounds.false_look(**LOOKS[shown]):
        assert differing() == {1}


def test_what_differs_waits_while_it_may_be_claimed_again_and_we_could_stake(rounds: Waiting) -> None:
    differing, of = computes_another_root(rounds), rounds.siege.job(1, rounds.siege.lie)
    dead = Group(0, rounds.siege.run.root, bytes(32), 0, 1, 1, DAY, (0,))
    with rounds.changed(groups=(dead,), claims=(replace(of.claims[0], lost=True),)):
        rounds.go(1)
        assert differing() == {1}
    with rounds.changed(claims=(), groups=()):
        rounds.go(1)
    assert differing() == set(), "others confirm it"
    rounds.node.settings = rounds.node.settings.model_copy(update={"mode": Mode.WATCH})
    rounds.go(1)
    assert differing() == set(), "nothing is staked in this mode"


def computes_another_root(rounds: Waiting) -> Callable[[], frozenset[int]]:
    """Let the node have computed the whole run; return how to ask what differs from it."""
    own = honest_run().commit_run().claim()
    rounds.role._decide, rounds.role._refutes = lambda *_: ([], own), Refutes()
    return rounds.keeper._resting_states.differing


def test_a_restart_knows_that_its_claim_is_of_a_whole_run(
    rounds: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = rounds.siege.job(1, rounds.siege.lie)
    of = replace(of, claims=(replace(of.claims[0], owner=ME),))
    rounds.sampler.sure = lambda _: False
    assert not rounds.sampler._has_claimed(of)

    def refused(*_: object) -> None:
        raise DiskFull("no space left")

    with monkeypatch.context() as full:
        full.setattr(rounds.database, "put", refused)
        rounds.sampler._note_whole(of)
    rounds.sampler._note_whole(of)
    again = Sampler(rounds.node, rounds.siege.node)
    again.sure = lambda _: False
    assert again._has_claimed(of)


def test_a_restart_goes_on_with_a_whole_run_from_which_something_differs(
    siege: Siege,  # noqa: F811
    tmp_path: Path,
) -> None:
    """It is the sampler's, of a job whose parts were withheld, while an ally's match is played in closing."""
    database, now = Database(None), int(siege.clock())
    before, own = Waiting(siege, tmp_path), honest_run().commit_run().claim()
    agreed: Any = SimpleNamespace(confirm=lambda **_: None)
    results(database).still(agreed, before.job(1), own.root)
    after = Waiting(siege, tmp_path, database)
    assert after.keeper._resting_states.differing() == {1}
    closing = {"phase": JobPhase.CLOSING, "challenge_end": now - 5, "open_matches": 1, "reclaim_end": 0}
    with after.changed(**closing):
        assert not before.sampler._takes_whole(after.job(1), now)
        until(lambda: bool(after.go(1)) and siege.node.known(1) is not None)
    assert after.keeper._resting_states.differing() == {1}
