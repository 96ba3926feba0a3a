"""The cells of a notebook, executed as a kernel does: one after the other, in one namespace of a fresh process.

    python -m tests.examples.cells NOTEBOOK [TAG]       leaves out the cells with that tag

NOTE: no kernel of Jupyter. It would bring some thirty packages and sockets for cells that print and use no magic; what
is executed here is the notebook's own JSON, and not the script that it is made from.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def execute(notebook: Path, without: str | None = None) -> int:
    """Execute the cells of code; return how many."""
    # NOTE: what a cell defines says that it is of __main__, as in a kernel, and there it must be found.
    namespace: dict[str, Any] = sys.modules["__main__"].__dict__
    done = 0
    for cell in json.loads(notebook.read_text())["cells"]:
        if cell["cell_type"] != "code" or without in cell["metadata"].get("tags", ()):
            continue
        exec(compile("".join(cell["source"]), f"<{cell['id']}>", "exec"), namespace)
        done += 1
    return done


if __name__ == "__main__":
    print(f"{execute(Path(sys.argv[1]), *sys.argv[2:3])} cells executed")
