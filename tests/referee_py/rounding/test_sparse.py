"""Sparse logs: one encoding for each log, nothing else decodes."""

from __future__ import annotations

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from referee_py.errors import InvalidEncoding, InvalidInput
from referee_py.rounding import SparseLog, sparse


def log_of(elements: int, narrow: dict[int, bool], wide: dict[int, float]) -> SparseLog:
    return SparseLog(
        elements,
        np.array(sorted(narrow), dtype=np.int64),
        np.array([narrow[k] for k in sorted(narrow)], dtype=np.bool_),
        np.array(sorted(wide), dtype=np.int64),
        np.array([wide[k] for k in sorted(wide)], dtype=np.float64),
    )


def varint(n: int) -> bytes:
    return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + varint(n >> 7)


def same(a: SparseLog, b: SparseLog) -> bool:
    return a.elements == b.elements and all(
        np.array_equal(getattr(a, name), getattr(b, name)) for name in ("narrow", "up", "wide", "values")
    )


FLOATS = st.floats(width=32, allow_nan=False).map(lambda v: v + 0.0)


@given(st.data())
def test_round_trip_with_a_naive_encoding(data: st.DataObject) -> None:
    elements = data.draw(st.sampled_from([1, 5, 130, 20_000, 2**39]))
    places = data.draw(st.lists(st.integers(0, elements - 1), unique=True, max_size=20))
    cut = data.draw(st.integers(0, len(places)))
    narrow = {k: data.draw(st.booleans()) for k in places[:cut]}
    wide = {k: data.draw(FLOATS) for k in places[cut:]}
    log = log_of(elements, narrow, wide)
    naive = varint(len(narrow)) + varint(len(wide))
    for group in (narrow, wide):
        before = -1
        for k in sorted(group):
            naive += varint(k - before - 1)
            before = k
    bits = sum(narrow[k] << i for i, k in enumerate(sorted(narrow)))
    naive += bits.to_bytes(-(-len(narrow) // 8), "little")
    naive += b"".join(np.float32(wide[k]).tobytes() for k in sorted(wide))
    assert sparse.pack(log) == naive
    assert same(sparse.decode(sparse.encode(log), elements, 32), log)


@given(st.binary(max_size=14), st.integers(0, 300))
def test_bytes_are_either_canonical_or_refused(data: bytes, elements: int) -> None:
    try:
        log = sparse.unpack(data, elements, 32)
    except InvalidEncoding:
        return
    assert sparse.pack(log) == data


@given(st.data())
def test_a_changed_byte_is_another_log_or_refused(data: st.DataObject) -> None:
    log = log_of(400, {0: True, 7: False, 300: True}, {3: 1.5, 399: -2.0})
    packed = bytearray(sparse.pack(log))
    packed[data.draw(st.integers(0, len(packed) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        other = sparse.unpack(bytes(packed), 400, 32)
    except InvalidEncoding:
        return
    assert sparse.pack(other) == packed
    assert sparse.digest(other) != sparse.digest(log)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "2 varints"),
        (bytes([0]), "2 varints"),
        (bytes([0x80, 0, 0]), "longer than needed"),
        (bytes([255] * 6 + [1, 0]), "varint"),
        (bytes([11, 0]), r"11 \+ 0 entries for 10"),
        (bytes([1, 0, 10, 0]), "do not ascend within 10"),
        (bytes([1, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F, 0]), "past the last"),
        (bytes([1, 0, 0, 2]), "bits after the last"),
        (bytes([1, 0, 0]), "0 bytes after the positions"),
        (bytes([0, 0, 0]), "1 bytes after the positions"),
        (bytes([1, 1, 4, 4, 0]) + np.float32(1).tobytes(), "element 4 is both"),
        (bytes([0, 1, 4]) + np.float32(np.nan).tobytes(), "NaN or -0"),
        (bytes([0, 1, 4]) + np.float32(-0.0).tobytes(), "NaN or -0"),
        (bytes([0, 1, 4]) + np.float32(1 + 2.0**-23).tobytes(), "grid of b = 26"),
    ],
)
def test_forms_that_no_log_has_are_refused(data: bytes, why: str) -> None:
    with pytest.raises(InvalidEncoding, match=why):
        sparse.unpack(data, 10, 26)


def test_hostile_frames_are_refused() -> None:
    bomb = zstandard.ZstdCompressor().compress(bytes(1 << 24))
    with pytest.raises(InvalidEncoding, match="states 16777216 bytes"):
        sparse.decode(bomb, 100, 32)
    with pytest.raises(InvalidEncoding, match="2 to 32 are possible"):
        sparse.decode(bomb, 1 << 39, 32, max_entries=2)
    good = sparse.encode(log_of(10, {1: True}, {}))
    for bad in (b"", good[:-1], good + b"x", good + good):
        with pytest.raises(InvalidEncoding):
            sparse.decode(bad, 10, 32)
    with pytest.raises(InvalidInput, match="2\\^40"):
        sparse.decode(good, 1 << 40, 32)


def test_the_digest_names_the_number_of_elements() -> None:
    assert sparse.digest(log_of(10, {1: True}, {})) != sparse.digest(log_of(11, {1: True}, {}))


def test_a_log_without_order_is_not_written() -> None:
    log = SparseLog(9, np.array([4, 2]), np.array([True, False]), np.zeros(0, np.int64), np.zeros(0))
    with pytest.raises(InvalidInput, match="do not ascend"):
        sparse.pack(log)
