"""The table of variants names tests that exist, and leaves some of each to `make test`."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from .variants import few, spread

ROOT = Path(__file__).resolve().parent.parent


def functions(file: Path) -> set[str]:
    found = set()
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}::{of.name}" for of in node.body if isinstance(of, ast.FunctionDef)}
        elif isinstance(node, ast.FunctionDef):
            found.add(node.name)
    return found


def test_each_test_of_the_table_exists() -> None:
    for name, count in few().items():
        file, _, test = name.partition("::")
        assert test in functions(ROOT / file), name
        assert count >= 2, name


@pytest.mark.parametrize("count", [1, 2, 3, 7, 35])
@pytest.mark.parametrize("chosen", [2, 3, 9])
def test_variants_are_evenly_spaced(count: int, chosen: int) -> None:
    found = spread(count, chosen)
    assert len(found) == min(count, chosen)
    assert {0, count - 1} <= found <= set(range(count))


def test_the_others_are_slow_and_named_ones_run() -> None:
    name = "tests/trainer_node/chain/test_tags.py::test_one_of_three_does_not_say_which_block_is_final"

    def collected(*more: str) -> int:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", name, *more],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        return len(re.findall(r"^tests/.*::", done.stdout, re.MULTILINE))

    assert collected("-m", "not slow") == few()[name]
    assert collected() > 3 * few()[name]
