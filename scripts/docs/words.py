"""Tables and cells of generated pages."""

from __future__ import annotations

from collections.abc import Sequence


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table; each cell is one line of Markdown."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)]) + "\n"


def cell(text: str) -> str:
    """Return text for a cell: one line, its bars and angle brackets as they are read."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def code_cell(text: str) -> str:
    """Return text as code for a cell."""
    return "`" + " ".join(text.split()).replace("|", "\\|") + "`" if text else ""


def rows_of(page: str, first: str) -> dict[str, str]:
    """Return the last cell of each row of the tables of a page whose first column is headed ``first``.

    Keys are the names in backquotes in the first cell of the row; a row may name several.
    """
    found: dict[str, str] = {}
    inside = False
    for line in page.splitlines():
        if not line.startswith("|"):
            inside = False
            continue
        cells = [part.strip() for part in line.strip().strip("|").replace("\\|", "\0").split("|")]
        if cells[0] == first:
            inside = True
        elif inside and "`" in cells[0]:
            for name in cells[0].split("`")[1::2]:
                found[name] = cells[-1].replace("\0", "\\|")
    return found
