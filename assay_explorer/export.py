"""A static copy of one dispute, to send to somebody: a folder of files that a browser opens without a server.

index.html          the dispute; at-<block>.html its moments
job.html  operator.html  element.html  proof.html
deployment.json     the contracts' addresses, for the commands on the pages
assets/             style sheet, script, icon
"""

from __future__ import annotations

import contextlib
import shutil
import time
from pathlib import Path

from referee_py.errors import InvalidInput

from .pages import Pages
from .rendering import DIGEST, NotThere
from .shown_commands import FILE
from .web import STATIC

FILES = ("style.css", "app.js", "chart.js", "icon.svg")
WAIT_S = 90.0


def export(pages: Pages, job: int, match: str, folder: Path) -> list[Path]:
    """Write a dispute into a new or empty folder; return its pages. Raises InvalidInput, NotThere, AssayError."""
    if folder.exists() and any(folder.iterdir()):
        raise InvalidInput(f"{folder} is not empty; choose another folder")
    blocks = pages.blocks(job, match)
    # NOTE: what servers have is waited for, since nobody can look at a file again later.
    deadline = time.monotonic() + WAIT_S
    while pages.fetching(job, match) and time.monotonic() < deadline:
        time.sleep(0.2)
    made = {
        "index.html": pages.dispute(job, match),
        "job.html": pages.job(job),
        "operator.html": pages.operator(job, match, None, "", ""),
        "element.html": pages.element(job, match),
        "proof.html": pages.proof(job, match),
        **{f"at-{block}.html": pages.dispute(job, match, block) for block in blocks},
    }
    (folder / "assets").mkdir(parents=True, exist_ok=True)
    for name in FILES:
        shutil.copy(STATIC / name, folder / "assets" / name)
    with contextlib.suppress(NotThere):
        (folder / FILE).write_text(pages.deployment())
    for name, page in made.items():
        (folder / name).write_text(page.replace(DIGEST, ""))
    return [folder / name for name in made]
