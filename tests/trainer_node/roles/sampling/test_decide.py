"""What a sampler refutes: all that it has found, as if it were alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from trainer_node.chain import JobPhase
from trainer_node.chain.outbox import Value
from trainer_node.roles.sampling import decide
from trainer_node.roles.sampling.decide import forsaken, own_refutations, pending_until, sampler_actions
from trainer_node.run.refutation import Refuted

ME, ALLY = "0xMe", "0xAlly"
WRONG, OTHER = b"wrong" * 4, b"other" * 4
STAKE = 10


@pytest.fixture(autouse=True)
def doubling(monkeypatch: pytest.MonkeyPatch) -> None:
    def price(job: Any, root: bytes) -> Value:
        count = sum(g.refutes == job.group_of_root(root).index for g in job.groups)
        return Value(STAKE << count, STAKE << count)

    monkeypatch.setattr(decide, "refuting", price)


def lie(against: bytes = WRONG, index: int = 3) -> Refuted:
    return Refuted(bytes([index]) * 32, bytes(32), (), against=against, index=index)


def job(
    *refutations: tuple[str, bytes, bytes, bool],
    closed: frozenset[bytes] = frozenset(),
    mine: int | None = None,
    dead: frozenset[bytes] = frozenset(),
) -> Any:
    """A job with two claimed roots. ``refutations``: whose, against which root, with which root, whether it has lost;
    ``closed``: roots that cannot be refuted any more; ``mine``: the root that we claim; ``dead``: roots without a
    claim that is not lost."""
    claims = [SimpleNamespace(owner="0xLiar"), SimpleNamespace(owner="0xLiar")]
    groups = [
        SimpleNamespace(index=k, root=root, refutes=None, dead=root in dead, members=(k,))
        for k, root in enumerate((WRONG, OTHER))
    ]
    for number, (owner, against, root, lost) in enumerate(refutations, 2):
        claims.append(SimpleNamespace(owner=owner))
        refuted = (WRONG, OTHER).index(against)
        groups.append(SimpleNamespace(index=number, root=root, refutes=refuted, dead=lost, members=(number,)))
    claimed = {group.root: group for group in groups[:2]}
    return SimpleNamespace(
        claims=claims,
        groups=groups,
        group_of_root=claimed.get,
        refutable=lambda root, _: root not in closed,
        claim_of=lambda _: None if mine is None else SimpleNamespace(group=mine),
        phase=JobPhase.CHALLENGE,
        open_matches=0,
        reclaim_end=0,
    )


def rich(_: int, __: object) -> bool:
    return True


def up_to(wei: int) -> Callable[[int, object], bool]:
    return lambda sum_wei, _: sum_wei <= wei


def test_two_wrong_roots_are_both_refuted() -> None:
    lies = [lie(), lie(OTHER)]
    assert sampler_actions(job(), ME, lies, 0, affordable=rich) == lies


def test_of_one_root_one_interval_is_refuted() -> None:
    assert sampler_actions(job(), ME, [lie(), lie(index=4)], 0, affordable=rich) == [lie()]


def test_another_s_refutation_saves_ours_only_while_it_lives() -> None:
    playing = job((ALLY, WRONG, lie().root, False))
    assert sampler_actions(playing, ME, [lie(), lie(OTHER)], 0, affordable=rich) == [lie(OTHER)]
    given_away = job((ALLY, WRONG, lie().root, True))
    assert sampler_actions(given_away, ME, [lie()], 0, affordable=rich) == [lie()]


def test_nobody_waits_until_the_price_is_beyond_its_means() -> None:
    """An ally's next refutation would double the price again."""
    playing = job((ALLY, WRONG, lie().root, False))
    assert sampler_actions(playing, ME, [lie()], 0, affordable=up_to(4 * STAKE)) == []
    assert sampler_actions(playing, ME, [lie()], 0, affordable=up_to(4 * STAKE - 1)) == [lie()]
    assert sampler_actions(playing, ME, [lie()], 0, affordable=up_to(2 * STAKE - 1)) == []


def test_money_is_counted_for_all_together() -> None:
    lies = [lie(), lie(OTHER)]
    assert sampler_actions(job(), ME, lies, 0, affordable=up_to(2 * STAKE)) == lies
    assert sampler_actions(job(), ME, lies, 0, affordable=up_to(2 * STAKE - 1)) == [lie()]


def test_ours_is_sent_once_and_not_repeated_when_it_has_lost() -> None:
    assert (
        sampler_actions(job((ME, WRONG, lie().root, False)), ME, [lie()], 0, affordable=up_to(1 << 9)) == []
    )
    lost = job((ME.lower(), WRONG, lie().root, True))
    assert sampler_actions(lost, ME, [lie()], 0, affordable=rich) == []
    assert sampler_actions(lost, ME, [lie(), lie(index=4)], 0, affordable=rich) == [lie(index=4)]


def test_what_cannot_be_refuted_any_more_is_left() -> None:
    assert sampler_actions(job(closed=frozenset({WRONG})), ME, [lie()], 0, affordable=rich) == []
    assert sampler_actions(job(), ME, [lie(b"unknown")], 0, affordable=rich) == []


def test_a_restart_looks_first_for_what_still_plays() -> None:
    played = job((ALLY, WRONG, b"a", False), (ME, WRONG, b"b", True), (ME, WRONG, b"c", False))
    assert [group.root for group in own_refutations(played, ME, played.groups[0])] == [b"c", b"b"]


def test_nothing_is_refuted_while_our_own_claim_of_the_right_root_lives() -> None:
    assert sampler_actions(job(mine=1), ME, [lie()], 0, affordable=rich) == []
    lost = job(mine=1, dead=frozenset({OTHER}))
    assert sampler_actions(lost, ME, [lie()], 0, affordable=rich) == [lie()]
    both = [lie(), lie(OTHER)]
    assert sampler_actions(job(mine=1), ME, both, 0, affordable=rich) == both, "our claim is wrong as well"


@pytest.mark.parametrize(
    ("wrong", "passed", "dead", "now", "at_last"),
    [
        ({WRONG}, set(), set(), False, True),
        ({WRONG}, {OTHER}, set(), False, False),
        ({WRONG, OTHER}, set(), set(), True, True),
        ({WRONG}, {OTHER}, {OTHER}, True, True),
        (set(), {WRONG}, {WRONG, OTHER}, True, True),
        (set(), set(), set(), False, False),
        (set(), set(), {WRONG}, False, False),
    ],
    ids=[
        "the other is being checked",
        "the other has passed",
        "both are wrong",
        "the other has passed and died",
        "nothing lives",
        "nothing is known",
        "nothing is known of what lives",
    ],
)
def test_the_right_root_is_forsaken_unless_one_lives_that_may_be_right(
    wrong: set[bytes], passed: set[bytes], dead: set[bytes], now: bool, at_last: bool
) -> None:
    claimed = job(dead=frozenset(dead))
    assert forsaken(claimed, wrong, passed) is now
    assert forsaken(claimed, wrong, passed, last_moment=True) is at_last
    assert not forsaken(SimpleNamespace(groups=[]), wrong, passed, last_moment=True)  # type: ignore[arg-type]


def test_a_lie_waits_until_nobody_can_refute_it() -> None:
    """And without an end while that depends on the refutations of others."""
    of = job()
    of.challenge_end, of.claimable_until = 100, lambda _: 250
    of.groups[0].until, of.groups[0].refutable_until = 0, 180
    assert pending_until(of, lie(), 5) == 180
    assert pending_until(of, lie(b"no such root"), 5) is None
    of.groups[0].dead = True
    assert [pending_until(of, lie(), now) for now in (249, 250)] == [250, math.inf]


@pytest.mark.parametrize("phase", JobPhase)
@pytest.mark.parametrize("matches", [0, 1])
@pytest.mark.parametrize("dead", [False, True])
def test_it_waits_until_nothing_can_change(phase: JobPhase, matches: int, dead: bool) -> None:
    """The attack: it was too late while others still revealed, and for a root that was dead, until somebody opened a
    challenge phase in which it was claimed again."""
    of = job(closed=frozenset({WRONG}), dead=frozenset({WRONG} if dead else ()))
    of.phase, of.open_matches, of.claimable_until = phase, matches, lambda _: None
    over = phase.ended or (phase is JobPhase.CLOSING and not matches)
    assert pending_until(of, lie(), 99) == (None if over else math.inf)
    of.reclaim_end = 100
    assert pending_until(of, lie(), 99) == (None if phase.ended else math.inf)
