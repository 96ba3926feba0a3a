"""What a sampler draws: each interval as likely as any other, none twice, and none computed before it is checked."""

from __future__ import annotations

import hashlib
from collections import Counter
from itertools import permutations
from typing import Any

import pytest

from trainer_node.roles.sampling.draw import Drawn, drawn

SEEDS = 6000


def seed_of(number: int) -> bytes:
    return hashlib.sha256(b"test" + number.to_bytes(4, "big")).digest()


@pytest.mark.parametrize("intervals", [*range(1, 40), 255, 256, 257, 1000, 1024, 1025, 5000])
def test_all_that_is_drawn_of_a_run_is_each_interval_once(intervals: int) -> None:
    assert sorted(drawn(seed_of(intervals), intervals, intervals)) == list(range(1, intervals + 1))


def test_a_draw_is_a_sequence_of_what_it_is_asked_for() -> None:
    few = drawn(seed_of(1), 1000, 5)
    assert len(few) == len(set(few)) == 5
    assert list(few) == [few[k] for k in range(5)]
    assert (few[-1], few[1:3]) == (few[4], (few[1], few[2]))
    assert list(few) == list(drawn(seed_of(1), 1000, 1000)[:5]), "a larger share begins with a smaller one"
    assert list(few) != list(drawn(seed_of(2), 1000, 5))
    with pytest.raises(IndexError):
        few[5]
    assert len(drawn(seed_of(1), 3, 5)) == 3


@pytest.mark.parametrize("intervals", [2, 3, 12, 100])
def test_each_interval_is_as_likely_as_any_other(intervals: int) -> None:
    """By chi-square, of fixed seeds: the bound is six standard deviations above what is expected."""
    for place in (0, intervals // 2, intervals - 1):
        seen = Counter(drawn(seed_of(k), intervals, intervals)[place] for k in range(SEEDS))
        assert off(seen, intervals) < 1


def test_and_so_is_each_pair_of_them() -> None:
    """Who lies in two intervals is found as often as the stated chance says."""
    seen = Counter(tuple(drawn(seed_of(k), 5, 2)) for k in range(SEEDS))
    assert set(seen) == set(permutations(range(1, 6), 2))
    assert off(seen, len(seen)) < 1


def off(seen: Counter[Any], kinds: int) -> float:
    """Return how far counts are from equal ones, as a share of what chance allows."""
    want = sum(seen.values()) / kinds
    missing = (kinds - len(seen)) * want
    statistic = missing + sum((count - want) ** 2 / want for count in seen.values())
    free = kinds - 1
    return statistic / (free + 6 * (2 * free) ** 0.5)


def test_what_an_interval_takes_does_not_grow_with_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The attack: a run of 2^20 intervals had all of them ranked and sorted, for a share of one."""
    permuted, steps = Drawn._permuted, list[int]()

    def counted(self: Drawn, value: int, half: int) -> int:
        steps.append(value)
        return permuted(self, value, half)

    monkeypatch.setattr(Drawn, "_permuted", counted)
    for bits in (10, 20, 40):
        few = drawn(seed_of(bits), (1 << bits) + 1, 1 << bits)
        assert not steps, "nothing is computed before it is asked for"
        for place in range(100):
            assert 1 <= few[place] <= (1 << bits) + 1
        assert len(steps) < 100 * 8, "the network is less than four times as large"
        steps.clear()
