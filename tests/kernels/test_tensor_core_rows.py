"""The block rule of docs/tensor-cores.md gives what an NVIDIA H200 gave, in each family of inputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from repops.reference.tensor_core import INFINITY, NAN, block

ROWS = Path(__file__).parent.parent / "vectors" / "tensor-core-h200.txt"
FAMILIES, INSTRUCTIONS, EACH = 13, 3, 64


def rows() -> list[list[str]]:
    return [line.split() for line in ROWS.read_text().splitlines() if not line.startswith("#")]


def bf16s(digits: str) -> list[int]:
    return [int(digits[at : at + 4], 16) for at in range(0, 64, 4)]


def test_every_family_and_instruction_is_recorded():
    counts: dict[tuple[str, str], int] = {}
    for family, instruction, *_ in rows():
        counts[family, instruction] = counts.get((family, instruction), 0) + 1
    assert len(counts) == FAMILIES * INSTRUCTIONS
    assert set(counts.values()) == {EACH}


@pytest.mark.parametrize("family", range(FAMILIES))
def test_the_rule_gives_the_recorded_results(family):
    found = [row[2:] for row in rows() if int(row[0]) == family]
    a, b = (np.array([bf16s(row[side]) for row in found], np.uint16) for side in (0, 1))
    c, recorded = (np.array([int(row[side], 16) for row in found], np.uint32) for side in (2, 3))
    wanted = np.where(recorded & 0x7FFFFFFF > INFINITY, NAN, recorded)
    assert block(a, b, c).tolist() == wanted.tolist()


ONE, TINY = 0x3F80, 0x0080


@pytest.mark.parametrize(
    ("a", "b", "c", "result", "why"),
    [
        ([], [], 0x80000000, 0, "nothing but -0 is +0"),
        ([ONE], [0x3380], 0x3F800000, 0x3F800000, "2^-24 is cut by the rounding toward zero"),
        ([0x3F80, 0xBF80], [0x3F80, 0x3F80], 0, 0, "what cancels is +0"),
        ([0], [0x7F00], 0x30800000, 0x30800000, "a zero factor is not a term, however large the other one"),
        ([0], [0x7F80], 0, NAN, "zero times infinity"),
        ([0x7F00], [0x7F00], 0, INFINITY, "what is too large is infinite, though rounding is toward zero"),
        ([TINY], [0x8080], 0, 0, "a negative result below the last subnormal is +0"),
    ],
)
def test_corners(a, b, c, result, why):
    pad = [0] * (16 - len(a))
    assert block(np.array(a + pad), np.array(b + pad), np.array(c)) == result, why
