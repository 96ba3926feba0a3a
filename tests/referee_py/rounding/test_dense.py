"""Dense logs: what is packed is unpacked, and nothing else is."""

from __future__ import annotations

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from referee_py.errors import InvalidEncoding, InvalidInput
from referee_py.rounding import dense


def entries(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.uint8)


def frame(content: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(content)


@given(st.lists(st.integers(0, 2), max_size=40))
def test_round_trip(values: list[int]) -> None:
    packed = dense.pack(entries(*values))
    assert len(packed) == -(-len(values) // 5)
    padded = values + [1] * (-len(values) % 5)
    assert list(packed) == [
        sum(e * 3**k for k, e in enumerate(padded[j : j + 5])) for j in range(0, len(padded), 5)
    ]
    assert dense.decode(dense.encode(entries(*values)), (len(values),)).tolist() == values


def test_shapes_come_back() -> None:
    log = np.random.default_rng(0).integers(0, 3, (3, 4, 5), dtype=np.uint8)
    assert np.array_equal(dense.decode(dense.encode(log), (3, 4, 5)), log)
    assert dense.decode(dense.encode(np.zeros((0, 7), dtype=np.uint8)), (0, 7)).shape == (0, 7)
    assert dense.decode(dense.encode(np.array(2, dtype=np.uint8)), ()).shape == ()


@given(st.binary(min_size=2, max_size=2))
def test_bytes_are_either_canonical_or_refused(packed: bytes) -> None:
    for count in (6, 7, 8, 9, 10):
        try:
            log = dense.unpack(packed, (count,))
        except InvalidEncoding:
            continue
        assert dense.pack(log) == packed


def test_bytes_that_no_log_packs_to_are_refused() -> None:
    with pytest.raises(InvalidEncoding, match="byte 1 is 243"):
        dense.unpack(bytes([0, 243]), (10,))
    with pytest.raises(InvalidEncoding, match="not canonical"):
        dense.unpack(bytes([0]), (4,))
    for size in (0, 2):
        with pytest.raises(InvalidEncoding, match="five entries a byte make 1"):
            dense.unpack(bytes(size), (5,))
    with pytest.raises(InvalidInput, match="uint8 0, 1 or 2"):
        dense.pack(entries(3))
    with pytest.raises(InvalidInput, match="2\\^40"):
        dense.decode(frame(b""), (1 << 20, 1 << 20))


def test_hostile_frames_are_refused() -> None:
    good = dense.encode(entries(*[1] * 50))
    bomb = frame(bytes(1 << 24))
    assert len(bomb) < 2000
    with pytest.raises(InvalidEncoding, match="states 16777216 bytes"):
        dense.decode(bomb, (50,))
    with pytest.raises(InvalidEncoding, match="states 9 bytes"):
        dense.decode(frame(bytes(9)), (50,))
    no_size = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(10))
    with pytest.raises(InvalidEncoding, match="does not state"):
        dense.decode(no_size, (50,))
    for bad in (b"", b"junk", good[:-1], good + b"x", good + good, good[:6] + b"\xff" + good[7:]):
        with pytest.raises(InvalidEncoding):
            dense.decode(bad, (50,))


def test_a_frame_that_understates_its_content_is_refused() -> None:
    """The stated size is that of 10 bytes, the blocks hold 2^20."""
    lying = bytearray(zstandard.ZstdCompressor().compress(bytes(10)))
    body = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(1 << 20))
    header = zstandard.frame_header_size(bytes(lying))
    with pytest.raises(InvalidEncoding):
        dense.decode(bytes(lying[:header]) + body[zstandard.frame_header_size(body) :], (50,))


def test_the_digest_is_of_the_entries_not_of_the_frame() -> None:
    log = entries(0, 1, 2, 1, 1, 2)
    other = zstandard.ZstdCompressor(level=19).compress(dense.pack(log))
    assert dense.digest(dense.decode(other, (6,))) == dense.digest(log)
    different = {dense.digest(entries(*values)) for values in ([0, 1], [0, 1, 1], [1, 0], [0, 1, 1, 1, 1, 1])}
    assert len(different) == 4, "padding does not hide the number of elements"
