"""Commands that messages, helps and documents tell the reader to run, from the lines that say so."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from scripts.docs.messages import text_of

PACKAGES = ("assay_capture", "assay_explorer", "assay_lab", "kernels", "referee_py", "trainer_node")
PROGRAMS = ("assay", "make", "pip", "apt", "npm")
_QUOTED = re.compile(rf"`((?:{'|'.join(PROGRAMS)}) [^`\n]+)`")
_IN_CODE = re.compile(rf"<code>((?:{'|'.join(PROGRAMS)}) [^<\n]+)</code>")
_BLOCK = re.compile(r"^```(?:sh|bash|console|shell)?\n(.*?)^```$", re.M | re.S)
_REDIRECTED = re.compile(r"\s(?:\d?>{1,2}|\|\|?|&&?|;|<)(?:\s|&|$|\S+).*")


@dataclass(frozen=True, order=True)
class Told:
    """A command, with a gap for what is known at run time only; the text that names it, and its file."""

    command: str
    text: str
    file: str


def texts(root: Path) -> Iterator[tuple[str, str]]:
    """Yield each text of the sources that is no docstring, with a gap for each value in it, and its file."""
    for package in PACKAGES:
        for path in sorted((root / package).glob("**/*.py")):
            tree = ast.parse(path.read_text())
            for text in _texts(tree):
                yield text, path.relative_to(root).as_posix()


def _texts(tree: ast.Module) -> Iterator[str]:
    apart: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            apart.add(node.value)
        elif isinstance(node, ast.JoinedStr):
            apart |= {*node.values}
            yield text_of(node)
        elif isinstance(node, ast.Constant) and node not in apart:
            yield text_of(node)


def of_messages(root: Path) -> list[Told]:
    """Return the commands in texts of the sources, and in what the explorer's templates say."""
    found = {Told(command, text, file) for text, file in texts(root) for command in _QUOTED.findall(text)}
    for path in sorted((root / "assay_explorer/templates").glob("*.html")):
        text = path.read_text()
        found |= {Told(one, text, path.relative_to(root).as_posix()) for one in _IN_CODE.findall(text)}
    return sorted(found)


def of_documents(root: Path) -> list[Told]:
    """Return the commands of `assay` in fenced blocks of the documents."""
    found = set()
    for path in [root / "README.md", *sorted((root / "docs").glob("**/*.md"))]:
        for block in _BLOCK.findall(path.read_text()):
            for line in block.replace("\\\n", " ").splitlines():
                bare = re.sub(r"^\s*(?:\$ )?(?:[A-Z_]+=\S+ )*(?:\S*/bin/)?", "", line)
                if bare.startswith("assay "):
                    found.add(Told(bare, line, path.relative_to(root).as_posix()))
    return sorted(found)


def words(command: str) -> list[str]:
    """Return the words of a command, without its comment and where its output goes."""
    return shlex.split(_REDIRECTED.sub("", command), comments=True)
