"""Runs all parts, two at a time, and writes the ledger: `python -m tests.peers`. It can be interrupted, and continues.

Exits with 1 if a case fails or a sample that was right is not any more; then the table stays as it is.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

from .ledger import TABLE, failed, lost, write_page, write_table
from .run import PARTS, results_folder, run_part

AT_ONCE = 2


def main(folder: Path | None = None) -> int:
    """Run what is missing in the folder of results of these sources."""
    folder = folder or results_folder()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        parts = list(pool.map(lambda part: run_part(part, folder), range(PARTS)))
    rows = [row for part in parts for row in part]
    wrong = [*failed(rows), *(lost(rows) if TABLE.exists() else ())]
    write_page(rows, torch.__version__)
    print("\n".join(wrong) or f"{len(rows)} samples: right, refused or skipped with a reason")
    if not wrong:
        write_table(rows, torch.__version__)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else None))
