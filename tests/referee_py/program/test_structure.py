"""Structures have exactly one encoding, and all other bytes are refused."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from repops.opset import BOOL, F32, I64, MAX_ELEMENTS

from referee_py.errors import AssayError, InvalidEncoding
from referee_py.program import Kind, Operand, Structure, TensorType

from .tiny import node

SLICE = Structure.make("slice", [node(3)], [TensorType(F32, (2, 5))], dim=0, start=1, stop=3, step=1)


def test_the_encoding_is_the_one_of_the_protocol() -> None:
    structure = Structure.make("full", [], [TensorType(I64, (7,))], shape=(7,), dtype=I64, bits=(1 << 64) - 1)
    assert structure.encode() == bytes.fromhex(
        "0050 00 01"  # op 80, no input, one output
        "02 01 0000000000000007"  # i64, rank 1, 7
        "01 0000000000000007"  # shape
        "02"  # dtype
        "ffffffffffffffff"  # -1 in two's complement
    )
    assert SLICE.encode()[4:10] == struct.pack(">BIB", 0, 3, 0)


operands = st.one_of(
    st.builds(Operand, st.just(Kind.NODE), st.integers(0, (1 << 24) - 1), st.integers(0, 7)),
    st.builds(Operand, st.sampled_from([Kind.SLOT, Kind.CONSTANT]), st.integers(0, (1 << 20) - 1)),
    st.just(Operand(Kind.STEP)),
)
types = st.builds(
    TensorType,
    st.sampled_from([F32, I64, BOOL]),
    st.lists(st.integers(0, MAX_ELEMENTS - 1), max_size=8).map(tuple),
)


@settings(deadline=None)
@given(
    st.lists(operands, max_size=9),
    st.lists(types, max_size=8),
    st.lists(st.integers(0, (1 << 64) - 1), max_size=20),
)
def test_decode_is_the_inverse_of_encode(
    inputs: list[Operand], outputs: list[TensorType], dims: list[int]
) -> None:
    structure = Structure.make("expand", inputs, outputs, shape=dims)
    assert Structure.decode(structure.encode()) == structure


@settings(deadline=None)
@given(st.data())
def test_whatever_decodes_encodes_to_the_same_bytes(data: st.DataObject) -> None:
    encoded = bytearray(SLICE.encode())
    for _ in range(data.draw(st.integers(1, 3))):
        encoded[data.draw(st.integers(0, len(encoded) - 1))] = data.draw(st.integers(0, 255))
    try:
        structure = Structure.decode(bytes(encoded))
    except InvalidEncoding:
        return
    assert structure.encode() == bytes(encoded)


@pytest.mark.parametrize("length", range(len(SLICE.encode())))
def test_a_truncated_structure_is_refused(length: int) -> None:
    with pytest.raises(InvalidEncoding):
        Structure.decode(SLICE.encode()[:length])


@pytest.mark.parametrize(
    ("at", "byte", "reason"),
    [
        (0, 0xFF, "not in the operator table"),
        (3, 9, "9 outputs"),
        (4, 4, "unknown code"),
        (4, Kind.STEP, "STEP has index 3"),
        (9, 8, "names output 8"),
        (10, 0, "unknown code"),
        (11, 9, "ends early|rank"),
        (12, 1, "a dimension below"),
    ],
)
def test_a_wrong_byte_is_refused(at: int, byte: int, reason: str) -> None:
    encoded = bytearray(SLICE.encode())
    encoded[at] = byte
    with pytest.raises(InvalidEncoding, match=reason):
        Structure.decode(bytes(encoded))


def test_bytes_after_the_attributes_are_refused() -> None:
    with pytest.raises(InvalidEncoding, match="1 bytes follow the last attribute"):
        Structure.decode(SLICE.encode() + b"\0")


def test_limits_are_kept_when_encoding_too() -> None:
    with pytest.raises(InvalidEncoding, match="256 inputs"):
        Structure.make("cat", [node(0)] * 256, [], dim=0).encode()
    with pytest.raises(InvalidEncoding, match="limit is 8192"):
        Structure.decode(bytes(8193))
    with pytest.raises(InvalidEncoding, match="output 1"):
        Operand(Kind.SLOT, 0, 1)
    with pytest.raises(InvalidEncoding, match="kind NODE has index"):
        node(1 << 24)
    with pytest.raises(AssayError, match="wrong attributes"):
        Structure.make("slice", [], [], dim=0)


def test_the_longest_structure_that_fits_is_accepted() -> None:
    """255 inputs, 8 outputs of rank 8: the limits together stay below the limit on bytes."""
    widest = Structure.make("cat", [node(0)] * 255, [TensorType(F32, (1,) * 8)] * 8, dim=0)
    assert len(widest.encode()) <= 8192
    assert Structure.decode(widest.encode()) == widest
