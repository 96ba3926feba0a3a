"""The mode byte: 28 of 256 bytes have parameters, and different parameters have different bytes."""

from __future__ import annotations

import itertools

import pytest

from referee_py.errors import InvalidInput, UnknownVersion
from referee_py.program.modes import Bounds, Form, Rounding, mode_or_unknown


def test_every_combination_of_parameters_has_a_byte_of_its_own() -> None:
    all_of_them = [Rounding(*p) for p in itertools.product(range(26, 33), Bounds, Form)]
    assert [Rounding.of(r.mode) for r in all_of_them] == all_of_them
    assert {r.mode for r in all_of_them} == {m for m in range(256) if mode_or_unknown(m).follows_logs}
    assert len({r.mode for r in all_of_them}) == 28


def test_the_layout_of_the_byte() -> None:
    assert Rounding().mode == 0x86
    assert Rounding(26).mode == 0x80
    assert Rounding(32, Bounds.PROBABLE).mode == 0x8E
    assert Rounding(29, Bounds.PROVEN, Form.DENSE).mode == 0x93


@pytest.mark.parametrize("mode", [-1, 0, 1, 0x7F, 0x87, 0x8F, 0x97, 0x9F, 0xA0, 0xC0, 0xFF, 0x186, -0x7A])
def test_other_bytes_are_refused(mode: int) -> None:
    assert not mode_or_unknown(mode).follows_logs
    with pytest.raises(UnknownVersion, match="rounded-f64"):
        Rounding.of(mode)


@pytest.mark.parametrize("bits", [25, 33, 0, True])
def test_bits_outside_the_grid_are_refused(bits: int) -> None:
    with pytest.raises(InvalidInput, match="26 to 32"):
        Rounding(bits)
