"""Program files: a program has one file, and every other file is refused with a clear reason."""

from __future__ import annotations

import dataclasses
import hashlib
from typing import Any

import cbor2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from repops.opset import F32, I64

from referee_py.commit import Tag, fold_path
from referee_py.errors import HashMismatch, InvalidEncoding, InvalidInput, InvalidProgram, UnknownVersion
from referee_py.program import (
    Program,
    SlotSource,
    Structure,
    TensorDescriptor,
    TensorType,
    validate,
)
from referee_py.program import (
    read as read_module,
)
from referee_py.program.read import read_program

from . import tiny

PROGRAM = tiny.program()
FILE = PROGRAM.to_bytes()


def edited(**changes: Any) -> bytes:
    """Return the file with some of its keys changed."""
    return cbor2.dumps({**cbor2.loads(FILE), **changes}, canonical=True)


def with_node(index: int, structure: Structure) -> Program:
    nodes = list(PROGRAM.nodes)
    nodes[index] = structure
    return dataclasses.replace(PROGRAM, nodes=tuple(nodes))


# ---------------------------------------------------------------------------------------------------- good ones


def test_a_file_reads_back_as_the_same_program() -> None:
    again = read_program(FILE)
    assert again == PROGRAM
    assert again.to_bytes() == FILE
    assert again.file_hash() == hashlib.sha256(FILE).digest()


def test_the_file_is_cbor_with_the_keys_of_the_protocol() -> None:
    top = cbor2.loads(FILE)
    assert (top["format"], top["opset"]) == (1, 1)
    assert top["nodes"][0] == PROGRAM.nodes[0].encode()
    assert top["slots"] == [[tiny.NEW_WEIGHT, 0], [11, 0]]
    assert top["constants"][tiny.ORDER][:2] == [2, [tiny.STEPS, 4]]
    assert list(top) == sorted(top, key=lambda key: (len(key), key))


def test_roots_and_paths_prove_each_part() -> None:
    trees = [
        (
            Tag.STRUCTURE_TREE,
            PROGRAM.structure_root,
            PROGRAM.structure_path,
            [n.hash() for n in PROGRAM.nodes],
        ),
        (Tag.SLOT_TREE, PROGRAM.slot_root, PROGRAM.slot_path, [s.hash() for s in PROGRAM.slots]),
        (
            Tag.CONSTANT_TREE,
            PROGRAM.constant_root,
            PROGRAM.constant_path,
            [c.hash for c in PROGRAM.constants],
        ),
        (Tag.INITIAL_TREE, PROGRAM.initial_root, PROGRAM.initial_path, [i.hash for i in PROGRAM.initial]),
    ]
    for tag, root, path, leaves in trees:
        for k, leaf in enumerate(leaves):
            assert fold_path(tag, leaf, k, path(k)) == root


def test_tensors_are_checked_against_the_program() -> None:
    constants, initial = tiny.tensors()
    PROGRAM.check_tensors(constants, initial)
    with pytest.raises(HashMismatch, match="constant 1 has hash"):
        PROGRAM.check_tensors([constants[0], constants[1] + 1, constants[2]], initial)
    with pytest.raises(HashMismatch, match=r"initial slot 0 is f32\[1, 3\]"):
        PROGRAM.check_tensors(constants, [initial[0].T, initial[1]])
    with pytest.raises(HashMismatch, match="2 tensors for 3"):
        PROGRAM.check_tensors(constants[:2], initial)


# ------------------------------------------------------------------------------------------------ hostile bytes


@pytest.mark.parametrize("length", range(0, len(FILE), 7))
def test_a_truncated_file_is_refused(length: int) -> None:
    with pytest.raises(InvalidEncoding):
        read_program(FILE[:length])


@settings(deadline=None)
@given(st.data())
def test_no_damage_can_do_more_than_be_refused(data: st.DataObject) -> None:
    damaged = bytearray(FILE)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        program = read_program(bytes(damaged))
    except InvalidInput:
        return
    assert program.to_bytes() == bytes(damaged)


@settings(deadline=None)
@given(st.binary(max_size=60))
def test_noise_is_refused(noise: bytes) -> None:
    with pytest.raises(InvalidInput):
        read_program(noise)


NOT_CANONICAL = {
    "bytes after the end": FILE + b"\0",
    "keys in another order": cbor2.dumps(dict(reversed(cbor2.loads(FILE).items()))),
    "an overlong integer": FILE.replace(b"\x66format\x01", b"\x66format\x18\x01"),
    "a map of indefinite length": b"\xbf" + FILE[1:] + b"\xff",
    "a tag around it": b"\xd9\xd9\xf7" + FILE,
    "a key twice": b"\xa7" + FILE[1:] + b"\x66format\x01",
    "a bool for a number": FILE.replace(b"\x66format\x01", b"\x66format\xf5"),
}


@pytest.mark.parametrize("case", NOT_CANONICAL)
def test_a_file_that_is_not_canonical_is_refused(case: str) -> None:
    assert NOT_CANONICAL[case] != FILE
    with pytest.raises(InvalidInput):
        read_program(NOT_CANONICAL[case])


HUGE = [1, [1 << 63], bytes(32)]

WRONG_CONTENT: list[tuple[dict[str, Any], type[InvalidInput], str]] = [
    ({"opset": 2}, UnknownVersion, "operator set 2; this build implements exactly 1: install"),
    ({"opset": "1"}, UnknownVersion, "operator set '1'"),
    ({"opset": True}, UnknownVersion, "operator set True"),
    ({"format": 2}, UnknownVersion, "format 2; this build reads 1"),
    ({"comment": "hello"}, InvalidEncoding, "exactly the keys"),
    ({"nodes": []}, InvalidProgram, "at least one node"),
    ({"nodes": 5}, InvalidEncoding, "a list is expected"),
    ({"nodes": ["text"]}, InvalidEncoding, "byte string is expected"),
    ({"nodes": [b"\xff\xff\0\0"]}, InvalidEncoding, "operator 65535 is not in the operator table"),
    ({"slots": []}, InvalidProgram, "0 slots but 2 initial tensors"),
    ({"slots": [[14, 0], [99, 0]]}, InvalidProgram, "slot 1 is updated by output 0 of node 99"),
    ({"slots": [[14, 0], [11, 1]]}, InvalidProgram, "slot 1 is updated by output 1 of node 11"),
    (
        {"slots": [[14, 0], [6, 0]]},
        InvalidProgram,
        r"slot 1 is f32\[3, 1\], but output 0 of node 6 is f32\[4, 1\]",
    ),
    ({"slots": [[14, 0], [-1, 0]]}, InvalidEncoding, "-1"),
    ({"slots": [[14, 0], [1.0, 0]]}, InvalidEncoding, "1.0"),
    ({"slots": [[14, 0], [11]]}, InvalidEncoding, "list of 2 ints"),
    ({"constants": []}, InvalidProgram, "node 2 reads constant 0; there are 0"),
    ({"constants": [HUGE]}, InvalidEncoding, "a dimension below"),
    ({"constants": [[1, [1 << 39, 4], bytes(32)]]}, InvalidProgram, "dimensions out of range"),
    ({"constants": [[5, [1], bytes(32)]]}, InvalidEncoding, "dtype code 5"),
    ({"constants": [[1, [1], bytes(31)]]}, InvalidEncoding, "32 bytes, not 31"),
    ({"constants": [[1, [1] * 9, bytes(32)]]}, InvalidEncoding, "rank"),
    ({"constants": [[1, [1]]]}, InvalidEncoding, "not a list of 2"),
]


@pytest.mark.parametrize(("changes", "error", "message"), WRONG_CONTENT)
def test_wrong_content_is_refused_with_a_reason(
    changes: dict[str, Any], error: type[InvalidInput], message: str
) -> None:
    with pytest.raises(error, match=message):
        read_program(edited(**changes))


def test_a_file_above_the_limit_is_refused_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_module, "MAX_FILE_BYTES", 100)
    with pytest.raises(InvalidEncoding, match="the limit is 100"):
        read_program(FILE)


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(InvalidEncoding):
        read_program(b"\x81" * 100_000 + b"\x01")


# --------------------------------------------------------------------------------------------- ill-formed graphs


def test_a_node_may_not_read_itself_or_a_later_one() -> None:
    for source in (3, 4, 1 << 23):
        bad = Structure.make("neg", [tiny.node(source)], [TensorType(F32, (4, 3))])
        with pytest.raises(InvalidProgram, match=f"node 3 reads node {source}; a node may only read earlier"):
            validate(with_node(3, bad).skeleton)


def test_a_node_may_not_read_what_does_not_exist() -> None:
    for operand, message in (
        (tiny.node(2, 1), "reads output 1 of node 2, which has 1"),
        (tiny.slot(2), "reads slot 2; there are 2"),
        (tiny.constant(3), "reads constant 3; there are 3"),
    ):
        with pytest.raises(InvalidProgram, match=message):
            validate(with_node(3, Structure.make("neg", [operand], [TensorType(F32, (4, 3))])).skeleton)


def test_declared_types_must_be_what_the_operator_gives() -> None:
    good = PROGRAM.nodes[3]
    for outputs in ([TensorType(F32, (4, 4))], [TensorType(I64, (4, 3))], [], [good.outputs[0]] * 2):
        with pytest.raises(InvalidProgram, match=r"node 3: take gives f32\[4, 3\], the program declares"):
            validate(with_node(3, dataclasses.replace(good, outputs=tuple(outputs))).skeleton)


def test_an_operator_must_accept_its_inputs() -> None:
    bad = Structure.make("mm", [tiny.node(2), tiny.slot(0)], [TensorType(F32, (4, 1))])
    with pytest.raises(InvalidProgram, match="node 3: mm: a: dtype not allowed"):
        validate(with_node(3, bad).skeleton)


def test_an_unknown_opset_is_refused_in_memory_too() -> None:
    with pytest.raises(UnknownVersion, match="operator set 7"):
        validate(dataclasses.replace(PROGRAM, opset=7).skeleton)


def test_too_many_slots_are_refused() -> None:
    many = (1 << 20,)
    big = dataclasses.replace(
        PROGRAM,
        slots=(SlotSource(14, 0),) * many[0],
        initial=(TensorDescriptor.of(np.zeros((3, 1), np.float32)),) * many[0],
    )
    with pytest.raises(InvalidProgram, match="their number must be below"):
        validate(big.skeleton)
