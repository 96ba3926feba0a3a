"""The block rule of docs/tensor-cores.md gives what an NVIDIA H200 gave, in each family of inputs: the reference's and
the kernels'."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from repops.block_data import DRAWERS, TYPE, drawn
from repops.host import tensor_core
from repops.host.library import BEST_ISA
from repops.reference.tensor_core import INFINITY, NAN, TERMS, block
from repops.tensors import canonical

from scripts.check_tensor_rows import main

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
    for isa in range(BEST_ISA + 1):
        assert (
            canonical(tensor_core.blocks(a, b, c, isa).view(np.float32)).view(np.uint32).tolist()
            == wanted.tolist()
        )


@pytest.mark.parametrize("isa", range(BEST_ISA + 1))
def test_blocks_with_any_accumulator(isa):
    rng = np.random.default_rng(isa)
    for kind in DRAWERS:
        a, b = (drawn(rng, kind, (500, TERMS)).view(np.uint16) for _ in "ab")
        c = rng.integers(0, 1 << 32, 500, dtype=np.uint32)
        # Half of them are near the products.
        with np.errstate(all="ignore"):
            near = a[:250, 0].view(TYPE).astype(np.float64) * b[:250, 0].view(TYPE).astype(np.float64)
            c[:250] = (near * np.exp2(rng.integers(-30, 31, 250))).astype(np.float32).view(np.uint32)
        got, want = (
            canonical(x.view(np.float32)) for x in (tensor_core.blocks(a, b, c, isa), block(a, b, c))
        )
        assert got.view(np.uint32).tolist() == want.view(np.uint32).tolist(), kind


def test_the_script_compares_a_folder(tmp_path, capsys):
    kept = ROWS.read_text().splitlines()
    (tmp_path / "same.txt").write_text("\n".join(kept[:50]))
    (tmp_path / "eight.txt").write_text("0000" * 8 + " " + "0000" * 8 + " 00000000 00000000")
    assert main([str(tmp_path)]) == 0
    assert "skipped: blocks of 8 products" in capsys.readouterr().out

    *before, d = kept[20].split()
    (tmp_path / "changed.txt").write_text(" ".join([*before, f"{int(d, 16) ^ 1:08x}"]))
    assert main([str(tmp_path)]) == 1
    assert f"{BEST_ISA + 3} results wrong" in capsys.readouterr().out, "reference, kernels and court"

    (tmp_path / "other.txt").write_text("no rows here")
    assert main([str(tmp_path)]) == 2


def test_a_folder_without_rows_is_no_success(tmp_path):
    assert main([str(tmp_path)]) == 1


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
