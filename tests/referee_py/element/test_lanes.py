"""`sum` of f32 and max-pooling have a step for each item that exists, and none for others."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
import pytest
from repops import reference

from referee_py.element import Case, evaluate, lanes, rule_of, states
from referee_py.element.positions import inside, met

from .operands import bits_of, cases_of, reader

BLOCK = 4096
EDGES = (0, 1, 2, 3, 15, 16, 17, 31, 32, 33, 63, 64, 65, 4095, 4096, 4097, 4098, 4129, 8191, 8192, 8193)
SPECIALS = (0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1e-38, 3e38)


def in_order(items: int) -> list[int]:
    """Return all items in the order of the walk, by definition: blocks in the next level's order, evens before odds."""

    def spread(block: list[int], halvings: int) -> list[int]:
        if not halvings:
            return block
        return spread(block[::2], halvings - 1) + spread(block[1::2], halvings - 1)

    blocks = in_order(-(-items // BLOCK)) if items > BLOCK else [0]
    return [
        item
        for block in blocks
        for item in spread(list(range(block * BLOCK, min((block + 1) * BLOCK, items))), lanes.FOLDS)
    ]


def summed(values: np.ndarray) -> tuple[Case, int]:
    (case,) = cases_of("sum", [values], {"dims": (0,), "keepdim": 0}, (0.0,))
    return case, evaluate(case, reader([values]))


@pytest.mark.parametrize("items", EDGES)
def test_each_item_is_taken_once_in_the_order_of_the_definition(items: int) -> None:
    assert [lanes.item(lanes.turns(items, step)) for step in range(items)] == in_order(items)


@pytest.mark.parametrize(
    "items", [BLOCK * 32 + 1, BLOCK**2 - 1, BLOCK**2 + 3, 5 * BLOCK**2 + 4097, 38_597_376, 1 << 30]
)
def test_chosen_steps_of_long_chains(items: int) -> None:
    """The order of blocks is that of the level above; within a block only its size matters."""
    rng = np.random.default_rng(items)
    blocks = in_order(-(-items // BLOCK))
    sizes = [min(BLOCK, items - block * BLOCK) for block in blocks]
    starts = [0, *accumulate(sizes)]
    assert starts.pop() == items
    few = sizes.index(min(sizes))
    for number in {0, few - 1, few, few + 1, len(blocks) - 1, *map(int, rng.integers(0, len(blocks), 6))}:
        if not 0 <= number < len(blocks):
            continue
        size = sizes[number]
        for place in {0, size - 1, int(rng.integers(0, size))}:
            want = blocks[number] * BLOCK + in_order(size)[place]
            assert lanes.item(lanes.turns(items, starts[number] + place)) == want


@pytest.mark.parametrize(
    "items", [*EDGES, *(pytest.param(BLOCK * 32 + by, marks=pytest.mark.slow) for by in (-1, 1))]
)
@pytest.mark.parametrize("special", [False, True])
def test_sums_have_the_reference_s_bits(items: int, special: bool) -> None:
    rng = np.random.default_rng(items)
    values = (rng.standard_normal(items) * 10.0 ** rng.integers(-6, 6, items)).astype(np.float32)
    if special:
        at = rng.integers(0, max(items, 1), min(items, 3))
        values[at] = rng.choice(SPECIALS, at.size).astype(np.float32)
    (want,) = reference.execute("sum", [values], {"dims": (0,), "keepdim": 0})
    case, got = summed(values)
    assert rule_of(case).length(case) == items
    assert got == bits_of(want, 0)


@pytest.mark.parametrize("value", [-0.0, 1e-45, float("nan"), float("-inf")])
def test_random_lengths_of_one_value(value: float) -> None:
    """An item that does not exist is not a zero: sums of -0 stay -0."""
    rng = np.random.default_rng(3)
    for items in map(int, rng.integers(0, 3 * BLOCK, 12)):
        values = np.full(items, value, dtype=np.float32)
        (want,) = reference.execute("sum", [values], {"dims": (0,), "keepdim": 0})
        assert summed(values)[1] == bits_of(want, 0)


@pytest.mark.parametrize("items", [31, 33, 4097, 2 * BLOCK + 40])
def test_after_each_step_the_last_fold_due_is_done(items: int) -> None:
    """A chain entered anywhere goes on as before; the state before a block's first item has nothing of the block."""
    values = np.random.default_rng(items).standard_normal(items).astype(np.float32)
    case, whole = summed(values)
    read, rule = reader([values]), rule_of(case)
    every = list(states(case, read, 0, rule.begin(case)))
    for start in {1, items // 2, items - 1}:
        assert list(states(case, read, start, every[start - 1])) == every[start:]
    empty = bytes.fromhex("80000000") * 6
    ends = [state for state in every[:-1] if state.startswith(empty)]
    assert len(ends) == -(-items // BLOCK) - 1
    assert rule.finish(case, every[-1]) == whole


def test_taps_inside_the_plane() -> None:
    rng = np.random.default_rng(5)
    for _ in range(3_000):
        at, padding = (int(v) for v in rng.integers(0, 9, 2))
        taps, stride, dilation, size = (int(v) for v in rng.integers(1, 7, 4))
        size -= bool(rng.random() < 0.1)
        each = (met(at, tap, stride, padding, dilation, size) for tap in range(taps))
        assert list(inside(at, taps, stride, padding, dilation, size)) == [h for h in each if h is not None]


def test_a_window_far_larger_than_the_plane_has_as_many_steps_as_the_plane() -> None:
    side = (1 << 24) - 1
    values = np.array([[[[-1.5, 2.5], [2.5, -0.0]]]], np.float32)
    attrs = {
        "kernel": (side, side),
        "stride": (1, 1),
        "padding": (side // 2, side // 2),
        "dilation": (1, 1),
    }
    for case in cases_of("max_pool2d", [values], attrs, (0.0, 0.99)):
        assert rule_of(case).length(case) == 4
        assert evaluate(case, reader([values])) == (0x40200000 if case.output == 0 else 1)
    attrs |= {"dilation": (2, 3), "kernel": (2, 2), "padding": (5, 5)}
    cases = cases_of("max_pool2d", [values], attrs, (0.0,))
    assert [rule_of(case).length(case) for case in cases] == [0, 0]
    assert [evaluate(case, reader([values])) for case in cases] == [0xFF800000, (1 << 64) - 1]
