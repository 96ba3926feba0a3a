"""The rooms of the C kernels: each includes only rooms below it, and no two files include each other."""

from __future__ import annotations

import re
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "kernels" / "csrc"
_INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)


def rooms() -> list[str]:
    """Return the rooms in the order of the table in docs/kernels.md, the uppermost first."""
    text = (ROOT / "docs/kernels.md").read_text().partition("| room | contents |")[2].partition("\n\n")[0]
    return re.findall(r"^\| `([a-z0-9]+)` \|", text, re.MULTILINE)


def included() -> dict[Path, list[Path]]:
    found = {}
    for path in SOURCES.rglob("*.[ch]"):
        names = _INCLUDE.findall(path.read_text())
        found[path] = [SOURCES / name if "/" in name else path.parent / name for name in names]
    return found


def test_the_table_names_every_room() -> None:
    assert sorted(rooms()) == sorted(path.name for path in SOURCES.iterdir())


def test_rooms_include_downwards() -> None:
    order = {room: floor for floor, room in enumerate(rooms())}
    upwards = [
        (str(path.relative_to(SOURCES)), str(other.relative_to(SOURCES)))
        for path, others in included().items()
        for other in others
        if order[other.parent.name] < order[path.parent.name]
    ]
    assert upwards == []


def test_no_files_include_each_other() -> None:
    """NOTE: a source and its header count as one file."""
    graph = dict[str, set[str]]()
    for path, others in included().items():
        name = str(path.with_suffix(""))
        graph.setdefault(name, set()).update({str(other.with_suffix("")) for other in others} - {name})
    assert len(graph) > 50
    TopologicalSorter(graph).prepare()
