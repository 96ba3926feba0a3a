"""The reference of messages with a remedy, from the lines that raise them, and of reasons to leave a job to others."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from assay_capture.capture import remedies

from .words import cell, code_cell, table

GAP = "…"
"""Stands for what is known only at run time."""
LEAST_LETTERS = 6
"""Letters of a message's own that a row has at least: with fewer nobody would find it."""
PARTS = (
    ("assay_capture", "When capture refuses", "`assay program build`, `assay data`, and `--hf`."),
    ("trainer_node", "Commands, daemons, files, chains", "Everything that nodes and clients run."),
    ("referee_py", "Programs and proofs", "What all parties read."),
    ("assay_lab", "The demonstration", "`assay demo` and `assay lab`."),
    ("assay_explorer", "The explorer", "`assay explorer`, and its pages."),
    ("assay_serve", "The service of models", "`assay serve` and `assay receipt`."),
)
APART = {"Unsupported", "unsupported"}
"""Errors that get the remedy as an argument of its own."""


@dataclass(frozen=True, order=True)
class Message:
    """A problem and what to do about it, with `GAP` for what the message is about; the error and its file."""

    problem: str
    remedy: str
    error: str
    file: str

    def means(self, text: str) -> bool:
        """Return whether a message that somebody has read is this one."""
        own = f"{self.problem}; {self.remedy}"
        return re.search(".*".join(map(re.escape, own.split(GAP))), text, re.S) is not None


def messages(root: Path, package: str) -> list[Message]:
    """Return the messages of a package that name a remedy, in the order of their words."""
    found = set()
    for path in root.glob(f"{package}/**/*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                found |= {Message(*told, path.relative_to(root).as_posix()) for told in _told(node.exc)}
    return sorted(found, key=lambda one: (one.problem.strip(f"{GAP} '\"").lower(), one))


def _told(call: ast.Call) -> Iterator[tuple[str, str, str]]:
    """Yield problem, remedy and error of a call that makes an exception; nothing if it names no remedy."""
    function = call.func
    error = function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
    texts = [text_of(argument) for argument in call.args]
    if error in APART and len(texts) > 1:
        problem, remedy = texts[:2]
        error = "Unsupported"
    else:
        problem, _, remedy = (texts[0] if texts else "").rpartition("; ")
    if sum(map(str.isalpha, problem)) >= LEAST_LETTERS and any(map(str.isalpha, remedy)):
        yield problem, remedy, error


def text_of(node: ast.expr) -> str:
    """Return the words of a text, with `GAP` for each value in it; `GAP` alone for what is no text."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        parts = [part.value if isinstance(part, ast.Constant) else _value(part) for part in node.values]
        return re.sub(f"{GAP}(?:{GAP})+", GAP, "".join(map(str, parts)))
    return GAP


def _value(part: ast.expr) -> str:
    """Return what stands for a value in a text. NOTE: whoever looks for a message finds `pip` with any path."""
    return "pip" if isinstance(part, ast.FormattedValue) and ast.unparse(part.value) == "PIP" else GAP


def reasons(root: Path) -> list[tuple[str, str, str]]:
    """Return the kind, the text and the file of each reason to leave a job to others that has a text of its own."""
    found = []
    for path in sorted(root.glob("trainer_node/**/*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.ClassDef) or "Reason" not in map(ast.unparse, node.bases):
                continue
            for line in node.body:
                if isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) == "text":
                    words = re.sub(r"\{[^}]*\}", GAP, text_of(line.value))
                    found.append((node.name, words, path.relative_to(root).as_posix()))
    return sorted(found)


def page(root: Path) -> str:
    """Return the page of messages."""
    text = "# Messages\n\nGenerated from the code: each message that names a remedy. "
    text += f"`{GAP}` stands for what the message is about. Search this page for the words of yours; "
    text += "`--debug` shows where an error comes from.\n"
    for package, title, words in PARTS:
        rows = [
            [cell(one.problem), cell(one.remedy), code_cell(one.error)] for one in messages(root, package)
        ]
        if rows:
            text += f"\n## {title}\n\n{words}\n\n{table(['message', 'what to do', 'error'], rows)}"
        if package == "assay_capture":
            text += _remedies()
    text += "\n## Why a node leaves a job to others\n\nThe `reason` and the `kind` of the log events "
    text += "`job.left_to_others` and `job.not_watched`.\n\n"
    rows = [[code_cell(kind), cell(words)] for kind, words, _ in reasons(root)]
    return text + table(["kind", "reason"], rows)


def _remedies() -> str:
    """Return the remedies of capture by the operator, and by what PyTorch says."""
    parts = [
        ("Operators whose result depends on values", "operator", remedies.OF_VALUES),
        ("Operators without a lowering", "operator", remedies.WITHOUT),
        ("What PyTorch says while it traces", "words of the message", remedies.OF_ERRORS),
    ]
    return "".join(
        f"\n### {title}\n\n{table([what, 'what to do'], [[code_cell(k), cell(v)] for k, v in rows.items()])}"
        for title, what, rows in parts
    )
