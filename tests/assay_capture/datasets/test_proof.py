"""A row is proven with the root alone, and a proof can be about nothing except what it states."""

from __future__ import annotations

import dataclasses
import hashlib
from typing import Any

import cbor2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from repops.opset import BOOL, F32, MAX_ELEMENTS

from assay_capture.datasets import RowProof, prove
from referee_py.commit import Tag, Tree, tensor_hash
from referee_py.commit.tensor import Array
from referee_py.errors import AssayError, InvalidEncoding, InvalidInput, InvalidProof, UnknownVersion

DTYPES = (np.float32, np.int64, np.bool_)


def some_tensor(dtype: type, shape: tuple[int, ...], seed: int = 0) -> Array:
    values = np.random.default_rng(seed).integers(-1000, 1000, shape)
    return values.astype(dtype)


def committed(*arrays: Array) -> tuple[list[bytes], bytes]:
    hashes = [tensor_hash(array) for array in arrays]
    return hashes, Tree(Tag.CONSTANT_TREE, hashes).root


X, Y = some_tensor(np.float32, (50, 3, 13, 11)), some_tensor(np.int64, (50,))
HASHES, ROOT = committed(X, Y)


def proof(row: int = 17) -> RowProof:
    return prove({0: X, 1: Y}, HASHES, row)


@settings(deadline=None, max_examples=150)
@given(
    st.sampled_from(DTYPES),
    st.integers(1, 40),
    st.lists(st.integers(1, 12), max_size=3),
    st.data(),
)
def test_every_row_of_every_tensor_is_proven(
    dtype: type, rows: int, inner: list[int], data: st.DataObject
) -> None:
    array, other = some_tensor(dtype, (rows, *inner)), some_tensor(np.int64, (2, 200))
    hashes, root = committed(other, array, other)
    row = data.draw(st.integers(0, rows - 1))
    sent = prove({1: array}, hashes, row).to_bytes()
    found = RowProof.from_bytes(sent).verify(root, row)
    assert list(found) == [1]
    assert found[1].dtype == array.dtype
    np.testing.assert_array_equal(found[1], array[row])


def test_a_proof_is_as_long_as_the_row_and_the_depth() -> None:
    """1.7 KB of a row need three leaves of 1 KB and a few hashes per level, not the 86 KB of the tensor."""
    only = proof().tensors[0]
    assert [len(leaf) for leaf in only.leaves] == [1024] * 3
    assert len(only.siblings) <= 2 * 7
    assert len(proof().to_bytes()) < 3 * 1024 + 1024 + 600


def test_nan_of_a_tensor_is_the_one_that_is_committed() -> None:
    array = np.array([[0xFFC12345], [0x3F800000]], np.uint32).view(np.float32)
    hashes, root = committed(array)
    assert prove({0: array}, hashes, 0).verify(root, 0)[0].view(np.uint32) == 0x7FC00000


def test_a_proof_of_another_row_is_no_answer() -> None:
    with pytest.raises(InvalidProof, match="of row 17, not of row 18"):
        proof().verify(ROOT, 18)
    moved = dataclasses.replace(proof(), row=18)
    with pytest.raises(InvalidProof):
        moved.verify(ROOT, 18)


@pytest.mark.parametrize("row", [50, 1 << 60])
def test_a_row_that_does_not_exist_cannot_be_proven(row: int) -> None:
    with pytest.raises(InvalidInput, match="does not exist"):
        proof(row)
    with pytest.raises(InvalidInput, match="does not exist"):
        proof(-row)
    with pytest.raises(InvalidProof, match="has no row"):
        dataclasses.replace(proof(), row=row).verify(ROOT, row)


def test_a_proof_under_another_root_is_refused() -> None:
    with pytest.raises(InvalidProof, match="does not lead to root"):
        proof().verify(committed(Y, X)[1], 17)


def test_only_the_tensor_that_was_committed_can_be_proven() -> None:
    with pytest.raises(InvalidInput, match="not the one that the root commits to"):
        prove({0: X + 1}, HASHES, 17)


def changed(name: str, value: Any, tensor: int = 0) -> RowProof:
    original = proof()
    tensors = list(original.tensors)
    tensors[tensor] = dataclasses.replace(tensors[tensor], **{name: value})
    return dataclasses.replace(original, tensors=tuple(tensors))


LEAVES = proof().tensors[0].leaves
SIBLINGS = proof().tensors[0].siblings
LIES: dict[str, RowProof] = {
    "a bit of the data": changed("leaves", (LEAVES[0][:-1] + b"\xff", *LEAVES[1:])),
    "a leaf too few": changed("leaves", LEAVES[1:]),
    "a leaf too many": changed("leaves", (*LEAVES, LEAVES[0])),
    "a longer leaf": changed("leaves", (LEAVES[0] + b"\0", *LEAVES[1:])),
    "a shorter leaf": changed("leaves", (LEAVES[0][:-1], *LEAVES[1:])),
    "no leaf": changed("leaves", ()),
    "a sibling too few": changed("siblings", SIBLINGS[:-1]),
    "a sibling too many": changed("siblings", (*SIBLINGS, SIBLINGS[0])),
    "siblings in another order": changed("siblings", SIBLINGS[::-1]),
    "another dtype of the same size": changed("dtype", BOOL),
    "another shape of the same size": changed("shape", (50, 13, 3, 11)),
    "another number of rows": changed("shape", (25, 6, 13, 11)),
    "more rows": changed("shape", (100, 3, 13, 11)),
    "no dimension": changed("shape", ()),
    "rows of nothing": changed("shape", (50, 0)),
    "another number": changed("number", 1),
    "a number beyond the path": changed("number", 2),
    "a longer path": changed("path", (*proof().tensors[0].path, bytes(32))),
    "no path": changed("path", ()),
    "a row of the wrong tensor": changed("path", proof().tensors[1].path),
    "no tensor": dataclasses.replace(proof(), tensors=()),
}


@pytest.mark.parametrize("name", LIES)
def test_a_lie_is_refused(name: str) -> None:
    with pytest.raises(InvalidProof):
        LIES[name].verify(ROOT, 17)


def test_a_shape_that_promises_billions_of_leaves_costs_nothing() -> None:
    huge = changed("shape", (50, MAX_ELEMENTS // 64))
    with pytest.raises(InvalidProof, match="leaves"):
        huge.verify(ROOT, 17)


def test_a_leaf_cannot_pass_for_an_inner_node() -> None:
    """The classic second preimage: the leaf of a shallower tree is two hashes of the deeper one, joined."""
    array = some_tensor(np.float32, (4, 256))  # four leaves
    hashes, root = committed(array)
    honest = prove({0: array}, hashes, 0).tensors[0]
    joined = hashlib.sha256(b"\x01" + honest.leaves[0]).digest() + honest.siblings[0]
    forged = dataclasses.replace(
        honest, shape=(2, 16), dtype=F32, leaves=(joined,), siblings=honest.siblings[1:]
    )
    with pytest.raises(InvalidProof):
        RowProof(0, (forged,)).verify(root, 0)


def test_a_bool_is_zero_or_one() -> None:
    leaf = b"\x02"
    data_root = hashlib.sha256(b"\x01" + leaf).digest()
    root = hashlib.sha256(b"\x02\x03\x01" + (1).to_bytes(8, "big") + data_root).digest()
    sent = [0, 3, [1], [leaf], [], []]
    forged = RowProof.from_bytes(cbor2.dumps({"format": 1, "row": 0, "tensors": [sent]}, canonical=True))
    with pytest.raises(InvalidProof, match="neither 0 nor 1"):
        forged.verify(root, 0)


# ------------------------------------------------------------------------------------------------------ encoding


@settings(deadline=None, max_examples=300)
@given(st.data())
def test_a_damaged_proof_is_never_accepted(data: st.DataObject) -> None:
    sent = bytearray(proof().to_bytes())
    at = data.draw(st.integers(0, len(sent) - 1))
    sent[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(AssayError):
        RowProof.from_bytes(bytes(sent)).verify(ROOT, 17)


@settings(deadline=None)
@given(st.binary(max_size=300))
def test_bytes_that_are_no_proof_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidInput):
        RowProof.from_bytes(data)


def encoded(**changes: object) -> bytes:
    top = cbor2.loads(proof().to_bytes())
    return cbor2.dumps({**top, **changes}, canonical=True)


TENSOR = cbor2.loads(proof().to_bytes())["tensors"][0]
BAD: dict[str, bytes] = {
    "not a map": cbor2.dumps([]),
    "another key": encoded(extra=1),
    "a row below zero": encoded(row=-1),
    "a row that is a float": encoded(row=1.0),
    "a row that is a bool": encoded(row=True),
    "tensors that are no list": encoded(tensors={}),
    "a tensor twice": encoded(tensors=[TENSOR, TENSOR]),
    "a tensor that is short": encoded(tensors=[TENSOR[:5]]),
    "a dtype that is none": encoded(tensors=[[0, 7, *TENSOR[2:]]]),
    "a dtype that is a list": encoded(tensors=[[0, [], *TENSOR[2:]]]),
    "a hash that is short": encoded(tensors=[[*TENSOR[:5], [b"x"]]]),
    "a shape that is huge": encoded(tensors=[[0, 1, [1 << 39, 2], *TENSOR[3:]]]),
    "bytes at the end": proof().to_bytes() + b"\0",
    "not canonical": cbor2.dumps(dict(reversed(cbor2.loads(proof().to_bytes()).items()))),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_not_the_encoding_is_refused(name: str) -> None:
    with pytest.raises(InvalidEncoding):
        RowProof.from_bytes(BAD[name])


def test_another_format_is_refused() -> None:
    with pytest.raises(UnknownVersion, match="this build reads 1"):
        RowProof.from_bytes(encoded(format=2))
