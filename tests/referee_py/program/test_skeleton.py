"""Skeletons: a program without its tensors has the same structure and a file of its own, and can become the program."""

from __future__ import annotations

import dataclasses
from typing import Any

import cbor2
import pytest

from referee_py.errors import InvalidEncoding, InvalidInput, InvalidProgram, UnknownVersion
from referee_py.program import Program, SlotSource, validate
from referee_py.program.read import read_program, read_skeleton

from . import tiny

PROGRAM = tiny.program()
SKELETON = PROGRAM.skeleton
FILE = SKELETON.to_bytes()


def edited(**changes: Any) -> bytes:
    return cbor2.dumps({**cbor2.loads(FILE), **changes}, canonical=True)


def test_the_roots_of_the_structure_need_no_tensor() -> None:
    assert SKELETON.structure_root == PROGRAM.structure_root
    assert SKELETON.slot_root == PROGRAM.slot_root


def test_hashes_of_the_tensors_make_it_the_program() -> None:
    constants = [tensor.hash for tensor in PROGRAM.constants]
    initial = [tensor.hash for tensor in PROGRAM.initial]
    again = Program.of(SKELETON, constants, initial)
    assert again.to_bytes() == PROGRAM.to_bytes()
    with pytest.raises(ValueError, match="shorter"):
        Program.of(SKELETON, constants[:-1], initial)


def test_its_file_is_read_back() -> None:
    assert read_skeleton(FILE) == SKELETON
    assert read_skeleton(FILE).to_bytes() == FILE


def test_neither_file_is_taken_for_the_other() -> None:
    with pytest.raises(InvalidEncoding, match="a program file is a map"):
        read_program(FILE)
    with pytest.raises(InvalidEncoding, match="a skeleton file is a map"):
        read_skeleton(PROGRAM.to_bytes())


WRONG: list[tuple[bytes, type[InvalidInput], str]] = [
    (edited(skeleton=2), UnknownVersion, "skeleton file format 2"),
    (edited(opset=99), UnknownVersion, "operator set 99"),
    (edited(constants=[[1, [2], b"x" * 32]]), InvalidEncoding, "a type is"),
    (edited(initial=[[9, [2]]]), InvalidEncoding, "dtype code 9"),
    (edited(initial=[]), InvalidProgram, "2 slots but 0 initial"),
    (FILE + b"\x00", InvalidEncoding, "canonical"),
    (b"\x81" * 100_000, InvalidEncoding, "not CBOR"),
]


@pytest.mark.parametrize(("data", "error", "message"), WRONG)
def test_a_wrong_file_is_refused_with_a_reason(data: bytes, error: type[InvalidInput], message: str) -> None:
    with pytest.raises(error, match=message):
        read_skeleton(data)


def test_every_truncation_is_refused() -> None:
    for size in range(0, len(FILE), 7):
        with pytest.raises(InvalidInput):
            read_skeleton(FILE[:size])


def test_it_is_validated_as_a_program_is() -> None:
    broken = dataclasses.replace(SKELETON, slots=(SlotSource(10_000, 0), SKELETON.slots[1]))
    with pytest.raises(InvalidProgram, match="slot 0 is updated by output 0 of node 10000"):
        validate(broken)
