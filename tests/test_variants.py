"""The table of variants names tests that exist, and leaves some of each to `make test`."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import cast

import pytest

from .choose import SECONDS, measured, text_of
from .choose import chosen as chosen_of
from .variants import few, mark_the_others, spread

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
        assert count >= 0, name


@pytest.mark.parametrize("count", [1, 2, 3, 7, 35])
@pytest.mark.parametrize("chosen", [0, 1, 2, 3, 9])
def test_variants_are_evenly_spaced(count: int, chosen: int) -> None:
    found = spread(count, chosen)
    assert len(found) == min(count, chosen)
    assert found <= set(range(count))
    assert chosen < 2 or {0, count - 1} <= found


def test_a_measured_run_chooses_what_fits(tmp_path: Path) -> None:
    """Three variants of half the time: two fit. A dear one keeps a variant; a cheap one, and one without, stay."""
    lines = [f"{SECONDS / 2:.2f}s call     tests/a/test_a.py::test_one[{k}]" for k in "abc"]
    lines += [
        f"{s}s {part}     tests/a/test_a.py::test_dear[{k}]"
        for k in "ab"
        for part, s in (("setup", 1), ("call", 9))
    ]
    lines += [
        "0.5s call     tests/a/test_a.py::test_cheap[a]",
        "0.5s call     tests/a/test_a.py::test_cheap[b]",
    ]
    lines += [
        "9.00s call     tests/a/test_a.py::test_alone",
        "0.1s call     tests/a/test_b.py::TestA::test_kept[0-1 s]",
    ]
    found = measured("= slowest durations =\n" + "\n".join(lines) + "\n3 passed in 3.00s\n")
    table = chosen_of(found, {"tests/a/test_b.py::TestA::test_kept": 3, "tests/a/test_a.py::test_dear": 2})
    assert table == {
        "tests/a/test_b.py::TestA::test_kept": 3,
        "tests/a/test_a.py::test_dear": 1,
        "tests/a/test_a.py::test_one": 2,
    }
    (tmp_path / "table.toml").write_text(text_of(table))
    assert few(tmp_path / "table.toml") == table


class Item:
    """What pytest has collected."""

    def __init__(self, nodeid: str) -> None:
        self.nodeid = nodeid
        self.marks: list[str] = []

    def add_marker(self, mark: pytest.MarkDecorator) -> None:
        self.marks.append(mark.name)

    def get_closest_marker(self, name: str) -> str | None:
        return name if name in self.marks else None


def test_the_others_are_slow_and_named_ones_run() -> None:
    name = "tests/trainer_node/chain/test_tags.py::test_one_of_three_does_not_say_which_block_is_final"
    other = "tests/trainer_node/chain/test_tags.py::test_of_another_name"
    made = [Item(f"{other}[0]"), *(Item(f"{name}[{number}]") for number in range(3 * few()[name]))]
    made[1].add_marker(pytest.mark.slow)
    mark_the_others(cast("list[pytest.Item]", made))
    quick = [item for item in made if not item.marks]
    assert quick[0] is made[0]
    assert len(quick) == 1 + few()[name]
    assert made[1].marks == ["slow"], "what is slow already is not counted"
