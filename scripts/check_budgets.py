"""Check the size of things against scripts/budgets.toml: lines of a file and of a package, arguments of a function.

`make lint` runs this. A budget is raised in the commit that needs it, with a reason. What is smaller than a
budget of its own by more than a tenth is reported too, so that budgets follow downwards. Exits with status 1 then.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BUDGETS = "scripts/budgets.toml"
SUFFIXES = {".py", ".pyi", ".sol", ".c", ".h", ".cu", ".cuh", ".cpp", ".html", ".css", ".js"}


@dataclass(frozen=True, slots=True)
class Size:
    """A thing that has a size: ``kind`` is the table of budgets.toml that may have a budget of its own for it."""

    kind: str
    name: str
    size: int


def sizes(path: str, text: str) -> Iterator[Size]:
    """Yield the sizes of a source file: its lines, and the arguments of each function of Python, without self."""
    yield Size("files", path, text.count("\n"))
    if not path.endswith(".py"):
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
            yield Size(
                "arguments", f"{path}::{node.name}", len([n for n in names if n not in ("self", "cls")])
            )


def over(found: list[Size], budgets: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each thing that is over its budget, and for each budget that is too large or of nothing."""
    largest: dict[tuple[str, str], int] = {}
    for one in found:
        key = one.kind, one.name
        largest[key] = max(largest.get(key, 0), one.size)
    for (kind, name), size in largest.items():
        own = budgets[kind].get(name)
        limit = own["limit"] if own else budgets["limits"].get(kind)
        unit = "arguments" if kind == "arguments" else "lines"
        if limit is None:
            yield f"{name} has no budget: give it one in {BUDGETS}, table {kind}"
        elif size > limit:
            yield (
                f"{name} has {size} {unit}, and its budget is {limit}: make it smaller, or raise the budget in "
                f"{BUDGETS} with a reason"
            )
        elif own and size < limit * 9 // 10:
            yield f"{name} has {size} {unit}, and a budget of {limit}: lower it in {BUDGETS}"
    for kind in ("files", "arguments", "packages"):
        for name in budgets[kind]:
            if (kind, name) not in largest:
                yield f"{BUDGETS} has a budget for {name}, which does not exist"


def sources() -> Iterator[tuple[str, str]]:
    """Yield the path and the text of each source file of the project."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    for path in sorted({*listed.split("\0")} - {""}):
        # NOTE: a file that is deleted and not committed yet is still listed.
        if Path(path).suffix in SUFFIXES and (ROOT / path).is_file():
            yield path, (ROOT / path).read_text()


def measured(files: Iterator[tuple[str, str]]) -> list[Size]:
    """Return all sizes; a package is a folder at the top."""
    found, packages = list[Size](), Counter[str]()
    for path, text in files:
        found += sizes(path, text)
        packages[path.partition("/")[0]] += text.count("\n")
    return [*found, *(Size("packages", name, lines) for name, lines in packages.items())]


def main() -> int:
    budgets = tomllib.loads((ROOT / BUDGETS).read_text())
    problems = list(over(measured(sources()), budgets))
    print(*problems, sep="\n", end="\n" if problems else "")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
