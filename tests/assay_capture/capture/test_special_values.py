"""Composites at special values, once and for all: those of PyTorch, or in a ledger with a reason."""

from __future__ import annotations

import functools
from collections.abc import Mapping

import numpy as np
import pytest
import torch

from . import special, special_rows
from .alone import Array, by_one_program, by_program, by_torch, unlike

TABLES = {
    "numbers": (special.FUNCTIONS, special.VALUES),
    "rows": (special_rows.FUNCTIONS, special_rows.ROWS),
}
TOGETHER = 24
"""How many functions of a table share a program."""


@functools.cache
def _shared(table: str, part: int) -> Mapping[str, Mapping[str, Array]]:
    """Return what the program of a part of a table's functions gives, by their names; nothing if it is refused."""
    functions, start = TABLES[table]
    names = list(functions)[part * TOGETHER : (part + 1) * TOGETHER]
    return dict(zip(names, by_one_program([functions[name] for name in names], start), strict=False))


def _found(table: str, name: str) -> Mapping[str, Array]:
    """Return what a function's program gives: of one that it shares or, where that is refused, of its own, so that a
    refusal fails nobody else."""
    functions, start = TABLES[table]
    shared = _shared(table, list(functions).index(name) // TOGETHER)
    return shared[name] if shared else by_program(functions[name], start)


def test_the_tables_are_as_large_as_the_documentation_says() -> None:
    assert len(special.VALUES) == 79
    assert len(special.FUNCTIONS) >= 118
    assert len(special_rows.FUNCTIONS) >= 40


@pytest.mark.parametrize("name", special.FUNCTIONS)
def test_a_function_of_a_number_is_that_of_pytorch_at_special_values(name: str) -> None:
    function, values = special.FUNCTIONS[name], np.array(special.VALUES, np.float32)
    found, wanted = _found("numbers", name), by_torch(function, special.VALUES)
    precise = None if name == "heaviside" else by_torch(function, special.VALUES, torch.float64)
    for what in ("value", "gradient"):
        apart = unlike(found[what], wanted[what], None if precise is None else precise[what])
        expected = np.array(special.LEDGER.get((name, what), ((), ""))[0], np.float32)
        assert sorted(map(str, values[apart])) == sorted(map(str, expected)), (
            f"{what} at {values[apart]}: {found[what][apart]}, PyTorch {wanted[what][apart]}"
        )


@pytest.mark.parametrize("name", special_rows.FUNCTIONS)
def test_a_function_of_rows_is_that_of_pytorch_at_special_values(name: str) -> None:
    function = special_rows.FUNCTIONS[name]
    found, wanted = _found("rows", name), by_torch(function, special_rows.ROWS)
    mixed = ("index add", "where", "clamp by tensors", "searchsorted")  # with tensors of f32 in them
    precise = None if name in mixed else by_torch(function, special_rows.ROWS, torch.float64)
    for what in ("value", "gradient"):
        apart = unlike(found[what], wanted[what], None if precise is None else precise[what], 3e-7)
        rows = tuple(sorted({int(place[0]) for place in np.argwhere(apart)}))
        assert rows == special_rows.LEDGER.get((name, what), ((), ""))[0], (
            f"{what} of rows {rows}: {found[what][list(rows)]}, PyTorch {wanted[what][list(rows)]}"
        )


def _rest(x: torch.Tensor, by: torch.Tensor | float) -> torch.Tensor:
    return torch.fmod(x, by)


def test_rests_are_exact_for_any_two_numbers() -> None:
    """20,000 pairs of any bits, and multiples and their neighbours, by a divisor that is a tensor and by known ones."""
    draw = np.random.default_rng(0)
    bits = draw.integers(0, 1 << 32, (2, 21_000), dtype=np.uint32).view(np.float32)
    x, d = bits[:, np.isfinite(bits).all(0)][:, :20_000]
    with np.errstate(over="ignore"):
        multiples = (d[:2_000] * draw.integers(1, 5_000, 2_000)).astype(np.float32)
    finite = np.isfinite(multiples)
    x = np.concatenate([x, multiples[finite], np.nextafter(multiples[finite], np.float32(0))])
    d = np.concatenate([d, d[:2_000][finite], d[:2_000][finite]])
    for divisor in (None, 1.5, -0.7, 1e-30, 3e38):
        by = torch.tensor(d if divisor is None else np.full_like(d, divisor))
        function = functools.partial(_rest, by=by if divisor is None else divisor)
        found = by_program(function, x)
        with np.errstate(invalid="ignore"):
            exact = np.fmod(x.astype(np.float64), by.double().numpy()).astype(np.float32)
        np.testing.assert_array_equal(found["value"].view(np.uint32), exact.view(np.uint32))
