"""The walk on a terminal, in a file, and while it is watched."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from trainer_node.cli import dispute

LONG = "first difference: " + " ".join(f"word{number}" for number in range(30))


def tree(last: str) -> Tree:
    found = Tree(Text("match 0x01234567… of job 1"))
    found.add(Text("run tree")).add(Text(LONG))
    found.add(Text(last))
    return found


def console(monkeypatch: pytest.MonkeyPatch, *, terminal: bool) -> io.StringIO:
    file = io.StringIO()
    screen = Console(file=file, force_terminal=terminal, width=40 if terminal else None, color_system=None)
    monkeypatch.setattr(dispute, "out", screen)
    return file


def test_a_tree_fits_a_narrow_terminal_and_loses_no_word(monkeypatch: pytest.MonkeyPatch) -> None:
    file = console(monkeypatch, terminal=True)
    dispute._print(tree("open"))
    lines = file.getvalue().splitlines()
    assert max(map(len, lines)) <= 40
    words = "".join(lines)
    assert all(word in words for word in LONG.split())


def test_a_tree_as_json_says_the_same() -> None:
    top = dispute._row(tree("open"))
    assert top["text"] == "match 0x01234567… of job 1"
    assert [(one["text"], len(one["under"])) for one in top["under"]] == [("run tree", 1), ("open", 0)]
    assert top["under"][0]["under"] == [{"text": LONG, "under": []}]


def test_without_a_terminal_a_line_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    file = console(monkeypatch, terminal=False)
    dispute._print(tree("open"))
    assert any(line.rstrip().endswith(LONG) for line in file.getvalue().splitlines())


def test_watching_prints_news_only_and_ends_with_the_dispute(monkeypatch: pytest.MonkeyPatch) -> None:
    file = console(monkeypatch, terminal=False)
    looks = iter([([tree("open")], False), ([tree("open")], False), ([tree("decided")], True)])
    waits: list[int] = []
    dispute._follow(lambda: next(looks), watch=True, wait=lambda: waits.append(1))
    assert file.getvalue().count("of job 1") == 2
    assert len(waits) == 2
    assert "decided" in file.getvalue()
