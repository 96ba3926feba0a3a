"""Choice of the variants of a test that `make test` runs: the others are marked slow (variants.toml)."""

from __future__ import annotations

import tomllib
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import pytest

TABLE = Path(__file__).with_name("variants.toml")


def few(table: Path = TABLE) -> dict[str, int]:
    """Return how many variants stay quick, by the id of a test without its parameters."""
    files = tomllib.loads(table.read_text())
    return {f"tests/{file}::{test}": count for file, tests in files.items() for test, count in tests.items()}


def spread(count: int, chosen: int) -> set[int]:
    """Return so many of the numbers below ``count``, evenly spaced, the first and the last among them."""
    if chosen >= count:
        return set(range(count))
    return {round(k * (count - 1) / max(1, chosen - 1)) for k in range(chosen)}


def mark_the_others(items: Sequence[pytest.Item]) -> None:
    """Mark as slow what is not chosen of the tests of the table. What is slow already is not counted."""
    table, variants = few(), defaultdict[str, list[pytest.Item]](list)
    for item in items:
        name = item.nodeid.partition("[")[0]
        if name in table and item.get_closest_marker("slow") is None:
            variants[name].append(item)
    for name, found in variants.items():
        quick = spread(len(found), table[name])
        for number, item in enumerate(found):
            if number not in quick:
                item.add_marker(pytest.mark.slow)
