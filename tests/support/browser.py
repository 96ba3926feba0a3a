"""Debian's Chromium, driven by playwright. Where it is missing, `NEEDS_CHROMIUM` says what to install."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

PROGRAM = shutil.which("chromium")
NEEDS_CHROMIUM = pytest.mark.skipif(PROGRAM is None, reason="no Chromium: apt install chromium")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
)
AXE = Path(__file__).resolve().parents[2] / "node_modules/axe-core/axe.min.js"
WCAG = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]


@contextmanager
def chromium() -> Iterator[Any]:
    """Start a browser with a profile of its own. Raises RuntimeError if there is none."""
    if PROGRAM is None:
        raise RuntimeError("no Chromium: apt install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=PROGRAM, args=list(FLAGS))
        yield browser
        browser.close()


def violations(page: Any) -> list[str]:
    """Return what axe-core finds against WCAG 2.1 AA on a page."""
    # NOTE: the page's policy refuses scripts of others; the protocol of the browser evaluates this one beside it.
    page.evaluate(AXE.read_text())
    found = page.evaluate(
        "tags => axe.run(document, {preload: false, runOnly: {type: 'tag', values: tags}}).then(r => r.violations)",
        WCAG,
    )
    return [
        f"{one['id']}: {one['help']}: {[node['html'][:120] for node in one['nodes'][:3]]}" for one in found
    ]
