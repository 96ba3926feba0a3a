"""The commitment to a log: the tree of a naive computation, a path to every element's entry, and no other entries."""

from __future__ import annotations

import struct
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from referee_py.commit import NO_LOG, Tag, Tree, digest, empty
from referee_py.errors import InvalidProof
from referee_py.rounding import DOWN, NOT_LOGGED, UP, Log, blocks
from referee_py.rounding.blocks import BLOCK, LogTree, block_count, digest_of_block, log_digest, read_entry
from referee_py.rounding.entries import WRITTEN

from .logs import log_of

Entered = Mapping[int, bool | float]
SIZES = (1, 7, BLOCK, BLOCK + 1, 5 * BLOCK - 3, 300 * BLOCK)


def naive_block(found: Entered, index: int) -> bytes:
    parts = []
    for place in sorted(k for k in found if k // BLOCK == index):
        entry = found[place]
        kind = WRITTEN if not isinstance(entry, bool) else UP if entry else DOWN
        parts.append(struct.pack(">H", place % BLOCK << 2 | kind))
        if kind == WRITTEN:
            parts.append(struct.pack(">f", entry))
    return b"".join(parts)


def naive_digest(elements: int, found: Entered) -> bytes:
    all_blocks = [naive_block(found, index) for index in range(block_count(elements))]
    absent = empty(Tag.LOG_BLOCK_TREE, 0)
    tree = Tree(Tag.LOG_BLOCK_TREE, [digest(Tag.LOG_BLOCK, b) if b else absent for b in all_blocks])
    return digest(Tag.ROUNDING_LOG, elements.to_bytes(8, "big"), tree.root)


def log_from(elements: int, found: Entered) -> Log:
    narrow = {k: v for k, v in found.items() if isinstance(v, bool)}
    return log_of(elements, narrow, {k: v for k, v in found.items() if not isinstance(v, bool)})


def random_entries(rng: np.random.Generator, elements: int, count: int) -> dict[int, bool | float]:
    places = np.unique(rng.integers(0, elements, count)).tolist()
    return {
        k: bool(rng.integers(2)) if rng.random() < 0.7 else float(np.float32(rng.standard_normal()))
        for k in places
    }


@pytest.mark.parametrize("elements", SIZES)
@pytest.mark.parametrize("part", [1, 3, 1 << 18])
def test_the_digest_is_that_of_a_naive_tree(
    monkeypatch: pytest.MonkeyPatch, elements: int, part: int
) -> None:
    """For any number of entries that are written at a time."""
    monkeypatch.setattr(blocks, "_PART", part)
    rng = np.random.default_rng([elements, part])
    for count in (0, 1, 5, 90):
        found = random_entries(rng, elements, count) if count else {}
        log = log_from(elements, found)
        assert log_digest(log) == LogTree(log).digest == naive_digest(elements, found)
    assert log_digest(Log.empty(elements)) != NO_LOG


@pytest.mark.parametrize("elements", SIZES)
def test_every_element_can_be_shown(elements: int) -> None:
    rng = np.random.default_rng(elements)
    found = random_entries(rng, elements, 60)
    log, places = log_from(elements, found), sorted({0, elements - 1, *rng.integers(0, elements, 40), *found})
    tree, all_said = LogTree(log), log.at(np.array(places))
    for place, kind, value in zip(places, all_said.kinds.tolist(), all_said.values, strict=True):
        index, inside = divmod(place, BLOCK)
        block, path = tree.block(index), tree.path(index)
        assert digest_of_block(elements, index, block, path) == tree.digest
        assert read_entry(block, inside, min(BLOCK, elements - index * BLOCK)) == (
            kind,
            int(np.float32(value).view(np.uint32)),
        )


def test_what_the_values_of_a_block_are() -> None:
    odd = {0: np.nan, 1: -0.0, 2: np.inf, 3: -np.inf, 4: 1e-45, 5: 3.4028234663852886e38}
    block = LogTree(log_of(6, {}, odd)).block(0)
    bits = [0x7FC00000, 0x80000000, 0x7F800000, 0xFF800000, 1, 0x7F7FFFFF]
    assert [read_entry(block, place, 6) for place in odd] == [(WRITTEN, one) for one in bits]


def test_logs_differ_in_their_digests() -> None:
    logs = [
        Log.empty(5),
        Log.empty(6),
        log_of(5, {1: True}),
        log_of(5, {1: False}),
        log_of(5, {2: True}),
        log_of(6, {1: True}),
        log_of(5, {}, {1: 0.0}),
        log_of(5, {}, {1: -0.0}),
        log_of(5, {1: True, 2: True}),
        log_of(2000, {1: True}),
        log_of(2000, {1025: True}),
    ]
    assert len({log_digest(log) for log in logs}) == len(logs)


def test_a_log_of_as_many_elements_as_there_may_be() -> None:
    """Only blocks with entries cost anything."""
    elements = (1 << 40) - 1
    log = log_of(elements, {0: True, 1 << 39: False}, {elements - 1: 2.0})
    tree = LogTree(log)
    assert tree.depth == 30
    assert tree.digest == log_digest(log)
    for index in (0, 1, 1 << 29, (1 << 30) - 1):
        assert digest_of_block(elements, index, tree.block(index), tree.path(index)) == tree.digest


def test_another_place_or_path_shows_another_log() -> None:
    log = log_from(5 * BLOCK, random_entries(np.random.default_rng(1), 5 * BLOCK, 50))
    tree = LogTree(log)
    block, path = tree.block(2), tree.path(2)
    assert digest_of_block(log.elements, 3, block, path) != tree.digest
    assert digest_of_block(log.elements, 2, block + b"\0\0", path) != tree.digest
    assert digest_of_block(log.elements, 2, b"", path) != tree.digest
    assert digest_of_block(log.elements - 1, 2, block, path) != tree.digest
    assert digest_of_block(log.elements, 2, block, path[::-1]) != tree.digest
    for wrong in (path[:-1], [*path, path[0]]):
        with pytest.raises(InvalidProof, match="3 deep"):
            digest_of_block(log.elements, 2, block, wrong)
    with pytest.raises(InvalidProof):
        digest_of_block(log.elements, 8, block, path)


def words(*items: tuple[int, ...]) -> bytes:
    """Encode entries (place, kind) and (place, WRITTEN, value)."""
    return b"".join(
        struct.pack(">H", item[0] << 2 | item[1]) + b"".join(struct.pack(">I", v) for v in item[2:])
        for item in items
    )


GOOD = words((1, UP), (5, WRITTEN, 7), (9, DOWN))
NO_BLOCKS = {
    "twice": GOOD + words((9, UP)),
    "descending": GOOD + words((2, UP)),
    "a kind that is none": GOOD + words((10, NOT_LOGGED)),
    "beyond the elements": GOOD + words((30, UP)),
    "beyond the block": GOOD + words((1024, UP)),
    "half an entry": GOOD + b"\0",
    "no value": GOOD + words((12, WRITTEN)),
    "half a value": GOOD + words((12, WRITTEN)) + b"\0\0",
    "a value cut off": GOOD + words((12, WRITTEN, 1))[:-1],
    "longer than any": words(*((k, WRITTEN, k) for k in range(1024))) + words((0, UP)),
}


def test_a_block_that_no_log_has_says_nothing() -> None:
    assert [read_entry(GOOD, k, 30) for k in (1, 5, 9, 0)] == [
        (UP, 0),
        (WRITTEN, 7),
        (DOWN, 0),
        (NOT_LOGGED, 0),
    ]
    for name, block in NO_BLOCKS.items():
        places = 30 if len(block) < 100 else BLOCK
        assert {read_entry(block, k, places) for k in range(places)} == {(NOT_LOGGED, 0)}, name


@given(st.binary(max_size=40), st.integers(1, BLOCK))
def test_any_bytes_say_something_only_if_a_log_has_them(block: bytes, places: int) -> None:
    found: dict[int, bool | float] = {}
    for place in range(places):
        kind, bits = read_entry(block, place, places)
        if kind == WRITTEN:
            found[place] = float(np.uint32(bits).view(np.float32))
        elif kind != NOT_LOGGED:
            found[place] = kind == UP
    if found and not any(np.isnan(v) for v in found.values()):
        assert LogTree(log_from(places, found)).block(0) == block
