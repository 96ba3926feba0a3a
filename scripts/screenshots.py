"""Take the pictures of the explorer in docs/: a dispute, its operator and its number; wide, narrow and dark.

It plays a small job with a liar in it on a local chain, in one process, and looks at it with Debian's Chromium.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from assay_capture.capture import Recipe, build, load_recipe
from assay_lab.faults import Fault
from tests.assay_explorer.conftest import MM, Played, play, served
from tests.conftest import _chains
from tests.e2e.arena import Arena
from tests.support.browser import chromium

DOCS = Path(__file__).resolve().parent.parent / "docs/pictures"
WIDE, NARROW = {"width": 1200, "height": 1000}, {"width": 390, "height": 844}
STEPS, FAULT_STEP = 300, 167


def main() -> None:
    DOCS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, played_in(Path(folder)) as played:
        pages, job = played.pages(), played.arena.job_id
        while pages.fetching(job, hex(played.match)):
            time.sleep(0.1)
        with served(pages) as site, chromium() as browser:
            take(browser, site + played.path, "dispute", WIDE, "light")
            take(browser, site + played.path, "dispute-dark", WIDE, "dark")
            take(browser, site + played.path, "dispute-narrow", NARROW, "light")
            take(browser, f"{site}{played.path}/operator", "operator", WIDE, "light")
            take(browser, f"{site}{played.path}/element", "element", WIDE, "light")
            take(browser, f"{site}{played.path}/element", "element-dark", WIDE, "dark")
            take(browser, f"{site}/job/{job}", "job", {**WIDE, "height": 1300}, "light")


@contextmanager
def played_in(folder: Path) -> Iterator[Played]:
    """Play a job whose liar gets one element of a matrix product wrong, up to the court."""
    recipe = load_recipe("digits-mlp", steps=STEPS, batch_size=16)
    assert isinstance(recipe, Recipe)
    module = nn.Sequential(nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 10))
    bundle = build(replace(recipe, module=module, strides=(100, 10, 1)))
    lies: Any = {"trainers": [Fault.NONE, Fault.WRONG_OP_OUTPUT], "fault_node": MM, "fault_step": FAULT_STEP}
    with _chains() as start, Arena(start(), folder, bundle, appeals=True, **lies) as arena:
        yield play(arena, bundle, folder)


def take(browser: Any, url: str, name: str, size: dict[str, int], scheme: str) -> None:
    """Write one picture, of what is seen first."""
    context = browser.new_context(viewport=size, color_scheme=scheme)
    page = context.new_page()
    page.goto(url)
    page.wait_for_timeout(300)
    page.screenshot(path=DOCS / f"{name}.png")
    context.close()


if __name__ == "__main__":
    main()
