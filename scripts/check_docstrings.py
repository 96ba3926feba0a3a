"""Check docstrings against the project, and English against a short list; `make lint` runs this.

A docstring must not name a file, an identifier or an option that the project does not have, nor a heading in docs a
file. The docstring of a module, a class or an attribute begins with a noun or a verb, and each describes something.
PATTERNS are refused in docstrings, comments and pages of docs.
Prints each place and exits with status 1 if there is one.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON = (".py", ".pyi")
OTHER = (".sol", ".c", ".h", ".cu", ".cuh", ".cpp", ".js")
FILES = {"assay.toml", "path/to/file.py", "sysexits.h"}
"""Files that docstrings may name without their being part of the project: examples, and those of other programs."""
NAMES = {"C_0", "C_n", "C_step", "Scan", "_oldNameOf"}
"""Names that docstrings may use and no source does: of formulas, of ONNX, and examples."""
OPTIONS = {"--help"}
"""Options of other programs, and of every command."""
PATTERNS = {
    r"of late": "recent, recently",
    r"none's": "of nothing",
    r"in vain": "what happens instead: times out, fails",
    r"once an? (?:job|round|process)(?=[.,;:)])": "once per job",
    r"of elsewhere": "existing, of another program",
    r"without a word": "silently",
    r"anew": "again, or a verb with re-",
    r"reckon(?:s|ed)?": "estimate, count",
    r"(?:go|goes|going|gone) on(?!-chain| the list)": "continue, last, resume",
    r"beside the (?:daemon's )?loop": "outside the loop",
    r"0 is no limit": "0 means no limit",
    r"for who": "for those who",
}
"""Calques, and what to write instead. A space stands for any white space."""
_SUSPECT = re.compile("|".join(one.replace(" ", r"[\s#/*]+") for one in PATTERNS), re.IGNORECASE)
_FILE = re.compile(r"(?<![\w./*{}<>-])(?:[\w-]+/)*[\w-]+\.(?:py|pyi|sol|c|h|cuh?|cpp|md|js|toml)(?![\w.]*\w)")
_NAME = re.compile(r"(?<!`)`(\w+(?:\.\w+)*)(?:\([^`]*\))?`(?!`)")
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
_CLAUSE = re.compile(r"\s*((?:What|Whether|Where|Which|How|Who|Whose|Whom|When|If|That)\b)")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Docstring:
    """A docstring: its first line in the file, its text, and the kind of thing that it describes."""

    line: int
    text: str
    kind: str


@dataclass(frozen=True, slots=True)
class Project:
    """Everything that a docstring may name: files by every end of their paths, identifiers, and options."""

    files: frozenset[str]
    names: frozenset[str]
    options: frozenset[str]


def docstrings(tree: ast.Module) -> Iterator[Docstring]:
    """Yield all docstrings; a string after an assignment is that of an attribute, after another string of nothing."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        kind = {"Module": "a module", "ClassDef": "a class"}.get(type(node).__name__, "a function")
        before: ast.stmt | None = None
        for statement in node.body:
            match statement:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    if before is None:
                        yield Docstring(statement.lineno, text, kind)
                    elif isinstance(before, ast.Assign | ast.AnnAssign | ast.AugAssign):
                        yield Docstring(statement.lineno, text, "an attribute")
                    else:
                        yield Docstring(statement.lineno, text, "nothing")
            before = statement


def project(sources: Mapping[str, str | None]) -> Project:
    """Return what there must be named. ``sources``: texts by path, None for files that are no source."""
    files = set(FILES)
    names, strings = set(NAMES), list[str]()
    for path, text in sources.items():
        parts = path.split("/")
        files |= {"/".join(parts[i:]) for i in range(len(parts))}
        names |= {part.partition(".")[0] for part in parts}
        if text is None:
            continue
        if not path.endswith(PYTHON):
            names |= set(_WORD.findall(_COMMENT.sub("", text)))
            continue
        tree = ast.parse(text)
        described = {one.text for one in docstrings(tree)}
        for node in ast.walk(tree):
            match node:
                case ast.Constant(value=str(string)) if string not in described:
                    strings.append(string)
                case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.alias(name=name):
                    names.add(name)
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                    names.add(name)
                case ast.keyword(arg=str(name)):
                    names.add(name)
    names |= {word for one in (*strings, *names) for word in _WORD.findall(one)}
    options = {option for one in strings for option in _OPTION.findall(one)}
    return Project(frozenset(files), frozenset(names), frozenset(options | OPTIONS))


def missing(one: Docstring, known: Project) -> Iterator[str]:
    """Yield a sentence for each file, identifier and option that the docstring names and the project does not have."""
    for name in _FILE.findall(one.text):
        if name not in known.files:
            yield f"there is no file {name}"
    for name in _NAME.findall(one.text):
        if not set(name.split(".")) <= known.names:
            yield f"there is no {name}"
    for name in _OPTION.findall(one.text):
        if name not in known.options:
            yield f"there is no option {name}"


def comments(path: str, text: str) -> Iterator[tuple[int, str]]:
    """Yield the comments of a source with the number of the first line; comments of lines in a row are one."""
    if path.endswith(PYTHON):
        found = [
            (token.start[0], token.string.lstrip("#: "))
            for token in tokenize.generate_tokens(io.StringIO(text).readline)
            if token.type == tokenize.COMMENT
        ]
    else:
        found = [
            (text.count("\n", 0, match.start()) + 1, re.sub(r"^[ /*]+", "", match[0], flags=re.MULTILINE))
            for match in _COMMENT.finditer(text)
        ]
    first, last, lines = 0, -1, list[str]()
    for number, comment in found:
        if number != last + 1 and lines:
            yield first, "\n".join(lines)
            lines = []
        first = first if lines else number
        lines.append(comment)
        last = number + comment.count("\n")
    if lines:
        yield first, "\n".join(lines)


def calques(text: str) -> Iterator[tuple[int, str]]:
    """Yield lines, from 0, and sentences for each of PATTERNS that a text has."""
    for pattern, better in PATTERNS.items():
        spaced = pattern.replace(" ", r"\s+")
        for match in re.finditer(rf"\b(?:{spaced})\b", text, re.IGNORECASE):
            phrase = " ".join(match[0].split())
            yield text.count("\n", 0, match.start()), f"{phrase!r} is not plain English; write: {better}"


def problems(path: str, text: str, known: Project) -> Iterator[tuple[int, str]]:
    """Yield line numbers and sentences: what is wrong in a file. Of tests only what they name is looked at."""
    prose: list[tuple[int, str]] = []
    for line, heading in enumerate(text.splitlines() if path.endswith(".md") else (), 1):
        named = _FILE.findall(heading) if heading.startswith("#") else ()
        yield from ((line, f"there is no file {name}") for name in named if name not in known.files)
    if path.endswith(PYTHON):
        for one in docstrings(ast.parse(text)):
            prose.append((one.line, one.text))
            yield from ((one.line, sentence) for sentence in missing(one, known))
            if one.kind == "nothing":
                yield one.line, "docstring of nothing: it stands after another one, or after a statement"
            clause = _CLAUSE.match(one.text)
            if clause and one.kind != "a function" and not path.startswith("tests/"):
                yield (
                    one.line,
                    f"docstring of {one.kind} begins with {clause[1]!r}, not with a noun or a verb",
                )
    # NOTE: taking comments out of a source takes long, so only those that can have a phrase are taken apart.
    if path.startswith("tests/") or not _SUSPECT.search(text):
        return
    prose += [(1, text)] if path.endswith(".md") else comments(path, text)
    for line, paragraph in prose:
        yield from ((line + below, sentence) for below, sentence in calques(paragraph))


def main() -> int:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    # NOTE: a file that is deleted and not committed yet is still listed.
    paths = [path for path in sorted(listed.split("\0")) if path and (ROOT / path).is_file()]
    sources = {
        path: (ROOT / path).read_text() if path.endswith((*PYTHON, *OTHER)) else None for path in paths
    }
    known = project(sources)
    pages = {path: (ROOT / path).read_text() for path in paths if re.fullmatch(r"docs/.*\.md", path)}
    found = [
        (path, line, sentence)
        for path, text in (sources | pages).items()
        if text is not None
        for line, sentence in sorted(problems(path, text, known))
    ]
    for path, line, sentence in found:
        print(f"{path}:{line}: {sentence}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
