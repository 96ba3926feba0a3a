"""Make examples/tour.ipynb from examples/tour.py: `python -m scripts.make_notebook`.

The script has the cells in the form that editors and jupytext know: `# %%` begins a cell of code, and `# %% [markdown]`
one of text, whose lines are comments. The notebook has no outputs, so it is the same wherever it is made.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SCRIPT, NOTEBOOK = ROOT / "examples/tour.py", ROOT / "examples/tour.ipynb"
_BEGIN = re.compile(r'# %%(?P<text> \[markdown\])?(?: tags=\["(?P<tag>\w+)"\])?\n')


def cells(script: str) -> list[dict[str, Any]]:
    """Return the cells of a script, as notebooks have them. Raises ValueError for a script that has no cells, for lines
    before the first, and for a line of text that is no comment."""
    marks = [
        found for line in re.finditer(r"^# %%.*\n", script, re.M) if (found := _BEGIN.fullmatch(line[0]))
    ]
    parts = re.split(r"^# %%.*\n", script, flags=re.M)
    if not marks or parts[0] or len(parts) != len(marks) + 1:
        raise ValueError(
            "a script of cells begins with `# %%`, and each of its marks is one that is known here"
        )
    return [
        _cell(number, mark["text"] is not None, mark["tag"], part.strip("\n"))
        for number, (mark, part) in enumerate(zip(marks, parts[1:], strict=True))
    ]


def _cell(number: int, text: bool, tag: str | None, source: str) -> dict[str, Any]:
    if text:
        lines = source.split("\n")
        if wrong := [line for line in lines if not re.match(r"#( |$)", line)]:
            raise ValueError(f"{wrong[0]!r} in a cell of text does not begin with a #")
        source = "\n".join(line[2:] for line in lines)
    cell: dict[str, Any] = {"cell_type": "markdown" if text else "code", "id": f"cell-{number}"}
    cell["metadata"] = {} if tag is None else {"tags": [tag]}
    if not text:
        cell |= {"execution_count": None, "outputs": []}
    return cell | {"source": source.splitlines(keepends=True)}


def notebook(script: str) -> str:
    """Return the text of a notebook, format 4.5."""
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    made = {"cells": cells(script), "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(made, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    NOTEBOOK.write_text(notebook(SCRIPT.read_text()))
