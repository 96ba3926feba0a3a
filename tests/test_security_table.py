"""Each test that docs/security.md names for an attack exists."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_every_test_that_the_table_names_exists() -> None:
    named = set(re.findall(r"::(test_\w+)", (ROOT / "docs/security.md").read_text()))
    sources = [*(ROOT / "tests").rglob("*.py"), *(ROOT / "tests").rglob("*.sol")]
    there = {
        name for path in sources for name in re.findall(r"(?:def|function) (test_\w+)\(", path.read_text())
    }
    assert len(named) > 100
    assert named <= there, sorted(named - there)
