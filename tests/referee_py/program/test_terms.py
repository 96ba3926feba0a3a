"""The on-chain terms: their hash, and the refusal of a job whose roots do not belong to its program."""

from __future__ import annotations

import dataclasses
import hashlib
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from referee_py.errors import InvalidProgram, UnknownVersion
from referee_py.program.modes import Rounding
from referee_py.program.terms import Terms, check_strides, suggest_strides

from . import tiny

PROGRAM = tiny.program()
TERMS = Terms.of(PROGRAM, 100, (10, 5, 1))


def test_the_program_hash_is_the_one_of_the_protocol() -> None:
    preimage = b"".join(
        [
            b"\x06",
            struct.pack(">IBIIIQ", 1, 1, 15, 2, 3, 100),
            PROGRAM.structure_root,
            PROGRAM.slot_root,
            PROGRAM.constant_root,
            PROGRAM.initial_root,
            struct.pack(">BQQQ", 3, 10, 5, 1),
        ]
    )
    assert TERMS.hash() == hashlib.sha256(preimage).digest()


@pytest.mark.parametrize(
    "field", [f.name for f in dataclasses.fields(Terms) if f.name not in ("steps", "strides")]
)
def test_a_job_whose_terms_differ_from_its_program_is_refused(field: str) -> None:
    TERMS.check(PROGRAM)
    value = getattr(TERMS, field)
    other: Any = bytes(32) if isinstance(value, bytes) else value + 3
    with pytest.raises((InvalidProgram, UnknownVersion)):
        dataclasses.replace(TERMS, **{field: other}).check(PROGRAM)


@pytest.mark.parametrize("mode", [0, 4, 0x7F, 0x87, 0x8F, 0xA0, 0xFF, 256 + 1, -1])
def test_an_arithmetic_that_is_not_implemented_is_refused(mode: int) -> None:
    with pytest.raises(UnknownVersion, match="arithmetic mode"):
        Terms.of(PROGRAM, 100, (10, 1), mode)


def test_the_mode_is_part_of_the_program_hash() -> None:
    modes = [1, 2, 3, *(Rounding(bits).mode for bits in range(26, 33))]
    terms = [Terms.of(PROGRAM, 100, (10, 1), mode) for mode in modes]
    assert len({found.hash() for found in terms}) == len(modes)
    for found in terms:
        found.check(PROGRAM)


@pytest.mark.parametrize(
    "strides", [(), (2,), (0,), (1, 1), (4, 3, 1), (1, 2), (512,) * 9, (1 << 64, 1), (4, 0, 1)]
)
def test_impossible_strides_are_refused(strides: tuple[int, ...]) -> None:
    with pytest.raises(InvalidProgram, match="strides"):
        Terms.of(PROGRAM, 10, strides)


@pytest.mark.parametrize("steps", [0, -1, 1 << 64])
def test_impossible_numbers_of_steps_are_refused(steps: int) -> None:
    with pytest.raises(InvalidProgram, match="steps"):
        Terms.of(PROGRAM, steps, (1,))


@settings(deadline=None)
@given(st.integers(1, (1 << 64) - 1))
def test_suggested_strides_are_possible(steps: int) -> None:
    strides = suggest_strides(steps)
    check_strides(strides)
    assert len(strides) == 8 or -(-steps // strides[0]) <= 64


@settings(deadline=None)
@given(st.integers(2, (1 << 64) - 1), st.integers(1, 1 << 20))
def test_suggested_strides_leave_more_than_one_checkpoint(steps: int, apart: int) -> None:
    """A run of one interval has nothing to sample, and a tree of one leaf decides nothing."""
    strides = suggest_strides(steps, apart)
    check_strides(strides)
    assert strides[0] < steps


@pytest.mark.parametrize(
    ("steps", "apart", "strides"),
    [
        (100, 1, (8, 1)),
        (5000, 100, (512, 64, 8, 1)),
        (100, 512, (64, 8, 1)),
        (12, 512, (8, 1)),
        (8, 512, (1,)),
        (1, 512, (1,)),
    ],
)
def test_checkpoints_are_far_enough_apart(steps: int, apart: int, strides: tuple[int, ...]) -> None:
    assert suggest_strides(steps, apart)[: len(strides)] == strides
