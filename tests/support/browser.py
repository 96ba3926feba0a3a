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


# NOTE: boxes of text have room above and below their letters, so a few pixels of two may lie over each other.
_LAYOUT = """() => {
    const found = [], box = (one) => one.getBoundingClientRect();
    const over = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
        && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 4;
    for (const drawing of document.querySelectorAll("svg.drawing")) {
        if (!drawing.getClientRects().length) continue;
        const texts = [...drawing.querySelectorAll("text")], frame = box(drawing);
        texts.forEach((one, k) => {
            const mine = box(one), words = one.textContent;
            if (mine.left < frame.left - 1 || mine.right > frame.right + 1) found.push(`${words} is cut`);
            for (const other of texts.slice(k + 1))
                if (over(mine, box(other))) found.push(`${words} over ${other.textContent}`);
            const bars = one.matches(".sum, .who") ? [...drawing.querySelectorAll("rect")] : [];
            if (bars.some((bar) => over(mine, box(bar)))) found.push(`${words} over a bar`);
        });
    }
    for (const legend of document.querySelectorAll(".legend, figcaption")) {
        const looks = [...legend.querySelectorAll(".key")].map((one) => {
            const style = getComputedStyle(one);
            return [style.backgroundColor, style.backgroundImage, style.border, style.height].join();
        });
        if (new Set(looks).size < looks.length) found.push(`keys look the same: ${legend.textContent}`);
    }
    return found;
}"""


def confused(page: Any) -> list[str]:
    """Return what cannot be told apart on a page: words of drawings over others or over bars, keys of a legend."""
    found: list[str] = page.evaluate(_LAYOUT)
    return found


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
