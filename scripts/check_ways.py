"""Check the ways that docs/architecture.md draws: each file exists, and the file that it stands under imports it.

`make lint` runs this. A drawing is a code block marked `way`, with one file a line; deeper lines belong to the nearest
line above that is less deep. The numbered steps of a way name files of a drawing, each once. Prints each line that is
wrong and exits with status 1 if there is one.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = "docs/architecture.md"
SOURCES = {"repops": "kernels/repops"}
"""Folders of packages that are not at the top."""


def path_of(module: str) -> str | None:
    """Return the file of a module of ours, from the root; None for other modules."""
    package, _, rest = module.partition(".")
    stem = "/".join([SOURCES.get(package, package), *rest.split(".")]).rstrip("/")
    return next((name for name in (f"{stem}.py", f"{stem}/__init__.py") if (ROOT / name).is_file()), None)


def module_of(path: str) -> str:
    for package, folder in SOURCES.items():
        if path.startswith(f"{folder}/"):
            path = package + path.removeprefix(folder)
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def imported(path: str) -> set[str]:
    """Return the files that a file imports. A name that a package hands on counts as the file that defines it."""
    found = set()
    module = module_of(path)
    package = module if path.endswith("__init__.py") else module.rpartition(".")[0]
    for node in ast.walk(ast.parse((ROOT / path).read_text())):
        if isinstance(node, ast.Import):
            found |= {path_of(alias.name) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            source = ".".join([*parts, node.module] if node.module else parts)
            found |= {defining(source, alias.name) for alias in node.names}
    return {name for name in found if name}


def defining(module: str, name: str) -> str | None:
    """Return the file that ``from module import name`` reads: a submodule, what the package hands on, or itself."""
    path = path_of(f"{module}.{name}") or path_of(module)
    if path is None or not path.endswith("__init__.py"):
        return path
    for node in ast.walk(ast.parse((ROOT / path).read_text())):
        if (
            isinstance(node, ast.ImportFrom)
            and node.level == 1
            and name in {a.asname or a.name for a in node.names}
        ):
            return path_of(f"{module}.{node.module}")
    return path


def problems(document: str) -> list[str]:
    """Return what is wrong with the drawings, one sentence each. Raises ValueError if there is none."""
    drawings = [block.partition("```")[0] for block in document.split("```way\n")[1:]]
    if not drawings:
        raise ValueError(f"{DOCUMENT} draws no way")
    found = []
    for drawing in drawings:
        above: list[tuple[int, str]] = []
        before = ""
        for line in filter(str.strip, drawing.splitlines()):
            depth, path = len(line) - len(line.lstrip()), line.split()[0]
            while above and above[-1][0] >= depth:
                above.pop()
            if line == before:
                found.append(f"{path} is drawn twice in a row")
            before = line
            if not (ROOT / path).is_file():
                found.append(f"{path} does not exist")
                continue
            if above and path not in imported(above[-1][1]):
                found.append(f"{above[-1][1]} does not import {path}")
            above.append((depth, path))
    return found + wrong_steps(
        document, {line.split()[0] for one in drawings for line in one.split("\n") if line.strip()}
    )


def wrong_steps(document: str, drawn: set[str]) -> list[str]:
    """Return what is wrong with the numbered steps: a file that is in no drawing, or that a way enters twice."""
    steps = re.findall(r"^\d+\. `([^`]+/[^`]+)`", document, re.MULTILINE)
    found = [f"{path} is a step, and in no drawing" for path in steps if path not in drawn]
    return found + [f"{path} is entered twice" for path in sorted(set(steps)) if steps.count(path) > 1]


def main() -> int:
    found = problems((ROOT / DOCUMENT).read_text())
    for problem in found:
        print(f"{DOCUMENT}: {problem}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
