"""The table of modes: every byte has one mode or none, and a package has a part for each."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from referee_py.errors import InvalidInput, UnknownVersion
from referee_py.program.modes import (
    EXACT,
    MODES,
    REPOPS_F32,
    USUAL,
    Bounds,
    Exact,
    Parts,
    RepopsF32,
    RoundedF64,
    Rounding,
    Tc16,
    UnknownMode,
    mode_named,
    mode_of,
    mode_or_unknown,
)
from referee_py.program.terms import Terms
from tests.test_modes import ROOT, mappings

from ..tiny import program

PROGRAM = program()
KNOWN = {
    1,
    2,
    3,
    *(0x80 | form << 4 | bounds << 3 | bits for form in (0, 1) for bounds in (0, 1) for bits in range(7)),
}


def test_each_byte_has_the_mode_that_names_it() -> None:
    for byte in KNOWN:
        assert mode_of(byte).byte == mode_or_unknown(byte).byte == byte
    assert {byte for byte in range(256) if not isinstance(mode_or_unknown(byte), UnknownMode)} == KNOWN
    assert [mode_named(mode.name) for mode in MODES] == list(MODES) == [mode_of(mode.byte) for mode in MODES]


@pytest.mark.parametrize("byte", [-1, 0, 4, 0x7F, 0x87, 0xA0, 0xFF, 0x101, 0x180])
def test_other_bytes_are_refused_and_nothing_follows_from_them(byte: int) -> None:
    with pytest.raises(UnknownVersion) as caught:
        mode_of(byte)
    assert str(caught.value) == (
        f"arithmetic mode {byte}; this build implements 1 (repops-f32), 2 (exact), 0x80 to 0x9e "
        "(rounded-f64) and 3 (tc16)"
    )
    unknown = mode_or_unknown(byte)
    assert unknown.byte == byte
    assert str(byte) in unknown.words
    assert not unknown.follows_logs
    with pytest.raises(UnknownVersion, match=f"mode {byte};"):
        Parts({RepopsF32: 1, Exact: 2, RoundedF64: 3, Tc16: 4}).of(byte)


def test_terms_with_a_stranger_s_byte_can_be_asked() -> None:
    terms = Terms.of(PROGRAM, 1, [1])
    assert terms.arithmetic == USUAL
    assert replace(terms, mode=0x8E).arithmetic.honest_may_lose
    assert isinstance(replace(terms, mode=77).arithmetic, UnknownMode)
    with pytest.raises(UnknownVersion, match="arithmetic mode 77"):
        replace(terms, mode=77).check(PROGRAM)


def test_what_follows_from_each_mode() -> None:
    for byte in KNOWN:
        mode = mode_of(byte)
        logs = byte >= 0x80
        assert mode.follows_logs == mode.in_binary64 == logs
        assert (
            mode.many_trainers == mode.watchable == mode.same_everywhere == mode.runs_as_judged == (not logs)
        )
        assert mode.data_slows_sums == (byte in (2, 3))
        assert mode.honest_may_lose == (logs and bool(byte & 8))
    assert [mode.words for mode in MODES] == [
        "repops-f32",
        "exact",
        "rounded-f64, 32 bits, proven bounds, sparse logs",
        "tc16",
    ]


def test_modes_are_equal_by_their_bytes() -> None:
    assert RoundedF64(Rounding(30)) == RoundedF64(Rounding()).changed(bits=30) != RoundedF64(Rounding())
    assert RoundedF64(Rounding()).changed(bounds=Bounds.PROBABLE).byte == 0x8E
    assert len({REPOPS_F32, EXACT, mode_of(1), mode_of(2)}) == 2
    with pytest.raises(InvalidInput, match="26 to 32"):
        RoundedF64(Rounding()).changed(bits=25)


def test_a_package_without_a_part_for_a_mode_is_refused() -> None:
    with pytest.raises(TypeError, match="no part for exact, rounded-f64, tc16"):
        Parts({RepopsF32: 1})


ANOTHER = """
import importlib, sys, traceback
from referee_py.program.modes import ArithmeticMode, table

class Another(ArithmeticMode):
    name, rule_contracts, byte = "another", ("",) * 10, 4

table.MODES = (*table.MODES, Another())
try:
    importlib.import_module(sys.argv[1])
except TypeError as error:
    assert str(error) == "no part for another; add one", error
    print(traceback.extract_tb(error.__traceback__)[-2].filename)
"""


@pytest.mark.parametrize("path", mappings())
def test_with_another_mode_each_mapping_says_that_it_lacks_it(path: str) -> None:
    module = path.removesuffix(".py").replace("/", ".")
    done = subprocess.run(
        [sys.executable, "-c", ANOTHER, module], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == str(ROOT / path), done.stderr
