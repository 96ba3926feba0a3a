"""Places for the values of a step: two that live at the same time never overlap."""

from __future__ import annotations

import numpy as np

from referee_py.compiled.memory import ALIGNMENT, Lifetime, place


def test_the_largest_first_each_as_low_as_it_can_be() -> None:
    lives = [Lifetime(0, 64, 0, 1), Lifetime(1, 128, 1, 2), Lifetime(2, 65, 2, 3), Lifetime(3, 1, 3, 3)]
    assert place(lives) == ({1: 0, 2: 128, 0: 128, 3: 0}, 256)


def test_a_gap_is_filled() -> None:
    lives = [Lifetime(0, 640, 0, 0), Lifetime(1, 512, 0, 9), Lifetime(2, 448, 1, 9), Lifetime(3, 64, 1, 9)]
    assert place(lives) == ({0: 0, 1: 640, 2: 0, 3: 448}, 1152)


def test_nothing_overlaps() -> None:
    draw = np.random.default_rng(3)
    for _ in range(20):
        firsts, sizes = draw.integers(0, 50, 150), draw.integers(0, 1000, 150)
        lives = [
            Lifetime(value, int(size), int(first), int(first + draw.integers(0, 12)))
            for value, (first, size) in enumerate(zip(firsts, sizes, strict=True))
        ]
        offsets, total = place(lives)
        for k, a in enumerate(lives):
            assert offsets[a.value] % ALIGNMENT == 0
            assert offsets[a.value] + a.nbytes <= total
            for b in lives[k + 1 :]:
                if a.first <= b.last and b.first <= a.last and a.nbytes and b.nbytes:
                    low, high = sorted((a, b), key=lambda life: offsets[life.value])
                    assert offsets[low.value] + low.nbytes <= offsets[high.value]


def test_nothing_at_all() -> None:
    assert place([]) == ({}, 0)
