"""Runs the cases of a part of the functions, in processes that end and are begun again.

Results are lines of JSON, one for each case, in a folder named after the sources that they depend on: what was run
already with the same sources is not run again.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .judge import CRASH, Outcome

ROOT = Path(__file__).resolve().parents[2]
SOURCES = (
    "assay_capture/capture",
    "kernels/repops",
    "referee_py/program",
    "referee_py/execute",
    "tests/peers",
)
PARTS = 16
"""A part is a process: what a case leaves in one does not reach other parts, and a part takes some minutes."""
DTYPES = ("float32", "bfloat16")
_DONE = "function"


def results_folder() -> Path:
    """Return the folder of results of these sources and this version of PyTorch."""
    import torch

    digest = hashlib.sha256(torch.__version__.encode())
    for folder in SOURCES:
        for path in sorted((ROOT / folder).rglob("*.py")):
            digest.update(path.relative_to(ROOT).as_posix().encode() + path.read_bytes())
    return ROOT / ".build" / "peers" / digest.hexdigest()[:16]


def run_part(part: int, folder: Path, dtypes: Sequence[str] = DTYPES) -> list[dict[str, Any]]:
    """Run what is missing of a part, and return the rows of all its cases.

    A process that dies has the case that it was at as a crash; another one continues after it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"part-{part}.jsonl"
    while True:
        process = multiprocessing.get_context("spawn").Process(target=_work, args=(part, path, dtypes))
        process.start()
        process.join()
        if process.exitcode == 0:
            return [row for row in _read(path) if "case" in row and row["outcome"]]
        begun = [row for row in _read(path) if row.get("case")]
        if not begun or begun[-1]["outcome"]:
            raise RuntimeError(f"part {part} ended with exit code {process.exitcode} outside of a case")
        died = Outcome(begun[-1]["case"], CRASH, f"the process ended with exit code {process.exitcode}")
        _append(path, died.row())


def _work(part: int, path: Path, dtypes: Sequence[str]) -> None:
    """Run the samples of a part that are not in the file."""
    import torch

    from .judge import judge
    from .samples import cases, functions

    torch.set_num_threads(1)
    rows = _read(path)
    complete = {row[_DONE] for row in rows if _DONE in row}
    judged = {row["case"] for row in rows if row.get("outcome")}
    for function in functions()[part::PARTS]:
        for dtype in dtypes:
            if (done := f"{function}/{dtype}") in complete:
                continue
            for case in cases(function, dtype):
                if case.name not in judged:
                    _append(path, {"case": case.name, "outcome": ""})
                    _append(path, judge(case).row())
            _append(path, {_DONE: done})


def _read(path: Path) -> list[dict[str, Any]]:
    lines: Sequence[str] = path.read_text().splitlines() if path.exists() else ()
    return [json.loads(line) for line in lines]


def _append(path: Path, row: dict[str, Any]) -> None:
    with path.open("a") as file:
        file.write(json.dumps(row) + "\n")
