"""Both forms of a log: each log has one encoding, and all other bytes are refused."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from referee_py.errors import InvalidEncoding, InvalidInput
from referee_py.rounding import DOWN, NOT_LOGGED, UP, Form, Log, forms
from referee_py.rounding.entries import WRITTEN

from .logs import log_of, same

FORMS = st.sampled_from(list(Form))
FLOATS = st.floats(width=32, allow_nan=False)


def varint(n: int) -> bytes:
    return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + varint(n >> 7)


def positions(places: list[int]) -> bytes:
    return b"".join(varint(k - before - 1) for before, k in zip([-1, *places], places, strict=False))


def values(wide: dict[int, float]) -> bytes:
    return b"".join(np.float32(wide[k]).tobytes() for k in sorted(wide))


def naive_sparse(elements: int, narrow: dict[int, bool], wide: dict[int, float]) -> bytes:
    bits = sum(narrow[k] << i for i, k in enumerate(sorted(narrow)))
    counts = varint(len(narrow)) + varint(len(wide)) + positions(sorted(narrow)) + positions(sorted(wide))
    return counts + bits.to_bytes(-(-len(narrow) // 8), "little") + values(wide)


def naive_dense(elements: int, narrow: dict[int, bool], wide: dict[int, float]) -> bytes:
    digits = [2 * narrow[k] if k in narrow else 1 for k in range(elements)]
    digits += [1] * (-elements % 5)
    packed = bytes(sum(d * 3**i for i, d in enumerate(digits[j : j + 5])) for j in range(0, len(digits), 5))
    return packed + varint(len(wide)) + positions(sorted(wide)) + values(wide)


NAIVE: dict[Form, Callable[..., bytes]] = {Form.SPARSE: naive_sparse, Form.DENSE: naive_dense}


@given(st.data(), FORMS)
def test_round_trip_with_a_naive_encoding(data: st.DataObject, form: Form) -> None:
    sizes = [1, 5, 130, 2000] + ([20_000, 2**39] if form == Form.SPARSE else [])
    elements = data.draw(st.sampled_from(sizes))
    places = data.draw(st.lists(st.integers(0, elements - 1), unique=True, max_size=20))
    cut = data.draw(st.integers(0, len(places)))
    narrow = {k: data.draw(st.booleans()) for k in places[:cut]}
    wide = {k: data.draw(FLOATS) for k in places[cut:]}
    log = log_of(elements, narrow, wide)
    packed = forms.pack(log, form)
    assert packed == NAIVE[form](elements, narrow, wide)
    assert same(forms.unpack(packed, elements, form), log)
    asked = sorted({*places, *(min(k + 1, elements - 1) for k in places)})
    said = log.at(np.array(asked))
    want = [
        WRITTEN if k in wide else NOT_LOGGED if k not in narrow else UP if narrow[k] else DOWN for k in asked
    ]
    assert said.kinds.tolist() == want
    assert said.values.tolist() == [wide.get(k, 0.0) for k in asked]


@given(st.binary(max_size=14), st.integers(0, 60), FORMS)
def test_bytes_are_either_canonical_or_refused(data: bytes, elements: int, form: Form) -> None:
    try:
        log = forms.unpack(data, elements, form)
    except InvalidEncoding:
        return
    assert forms.pack(log, form) == data


@given(st.data(), FORMS)
def test_a_changed_byte_is_another_log_or_refused(data: st.DataObject, form: Form) -> None:
    log = log_of(400, {0: True, 7: False, 300: True}, {3: 1.5, 399: -2.0})
    packed = bytearray(forms.pack(log, form))
    packed[data.draw(st.integers(0, len(packed) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        other = forms.unpack(bytes(packed), 400, form)
    except InvalidEncoding:
        return
    assert not same(other, log)


ONE = np.float32(1).tobytes()


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
        (bytes([1, 1, 4, 4, 0]) + ONE, "element 4 is both"),
        (bytes([0, 1, 4, 1, 0, 0xC0, 0x7F]), "NaN"),
        (bytes([0, 1, 4, 0, 0, 0xC0, 0xFF]), "NaN"),
    ],
)
def test_sparse_bytes_that_no_log_has_are_refused(data: bytes, why: str) -> None:
    with pytest.raises(InvalidEncoding, match=why):
        forms.unpack(data, 10, Form.SPARSE)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (bytes([121]), "five digits per byte make 2"),
        (bytes([121, 121]), "a count follows"),
        (bytes([121, 243, 0]), "byte 1 is 243"),
        (bytes([121, 242, 0]), "digits after the last of 9"),
        (bytes([121, 121, 10]), "10 wide entries for 9"),
        (bytes([121, 121, 1, 9]) + ONE, "do not ascend within 9"),
        (bytes([121, 121, 1, 0]) + ONE[:3], "3 bytes after the positions"),
        (bytes([121, 121, 0, 0]), "1 bytes after the positions"),
        (bytes([120, 121, 1, 0]) + ONE, "element 0 is both"),
    ],
)
def test_dense_bytes_that_no_log_has_are_refused(data: bytes, why: str) -> None:
    """121 is five digits 1, and 9 elements leave one place after the last."""
    with pytest.raises(InvalidEncoding, match=why):
        forms.unpack(data, 9, Form.DENSE)


def test_what_a_wide_entry_says_is_not_a_matter_of_the_encoding() -> None:
    """NaN, -0 and values of a finer grid decode; their elements ignore them, and other elements keep their entries."""
    for odd in (np.nan, -0.0, 1 + 2.0**-23, np.inf):
        log = log_of(10, {1: True}, {4: odd})
        for form in Form:
            assert same(forms.unpack(forms.pack(log, form), 10, form), log)


def test_logs_that_are_none_are_not_written() -> None:
    none, yes = np.zeros(0, np.int64), np.array([True])
    for log, why in (
        (Log(9, np.array([4, 2]), np.array([True, False]), none, np.zeros(0)), "do not ascend"),
        (Log(9, np.array([9]), yes, none, np.zeros(0)), "do not ascend"),
        (Log(9, np.array([3]), yes, np.array([3]), np.ones(1)), "both narrow and wide"),
        (Log(9, np.array([3, 4]), yes, none, np.zeros(0)), "2 positions for 1 directions"),
        (Log(1 << 40, np.array([3]), yes, none, np.zeros(0)), "2\\^40"),
    ):
        with pytest.raises(InvalidInput, match=why):
            forms.pack(log, Form.SPARSE)
