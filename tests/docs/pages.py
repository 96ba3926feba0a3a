"""Commands of pages, executed as they stand.

A block after the comment `run` is executed by `bash -eu`, one after `file: NAME` is written to that file. Blocks of one
page have their turns in their order, as in one terminal: a block begins in the folder where the one before it ended.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
_BLOCK = re.compile(
    r"(?:^<!-- (?:run|file: (?P<file>[\w.]+)) -->\n)?^```\w*\n(?P<text>.*?)^```$", re.M | re.S
)


@dataclass(frozen=True)
class Block:
    """A fenced block: its text, the file that it is written to, and whether it has a mark."""

    text: str
    file: str | None
    marked: bool


def blocks(page: Path) -> list[Block]:
    """Return all fenced blocks of a page, with and without a mark."""
    return [
        Block(found["text"], found["file"], found[0].startswith("<!--"))
        for found in _BLOCK.finditer(page.read_text())
    ]


def play(page: Path, folder: Path, commands: Path = Path(sys.executable).parent) -> str:
    """Follow a page in an empty folder, or in a clone, with the environment whose ``commands`` are named. Returns what
    its commands wrote. Raises AssertionError if one fails."""
    told = []
    environment = {**os.environ, "PATH": f"{commands}:{os.environ['PATH']}"}
    here = folder
    for block in (block for block in blocks(page) if block.marked):
        if block.file is not None:
            (folder / block.file).write_text(block.text)
            continue
        # NOTE: a file and no pipe, which processes in the background would keep open.
        with tempfile.TemporaryFile() as output, tempfile.NamedTemporaryFile() as place:
            done = subprocess.run(
                ["bash", "-eu", "-c", f"{block.text}pwd >{place.name}"],
                cwd=here,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
            )
            output.seek(0)
            told.append(f"$ {block.text}{output.read().decode(errors='replace')}")
            assert done.returncode == 0, f"{page.name}: {told[-1]}"
            here = Path(place.read().decode().strip())
    return "".join(told)
