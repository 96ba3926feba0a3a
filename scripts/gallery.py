"""Write the gallery of the explorer: each page in every state, wide, narrow and dark, as pictures in .build/gallery.

The pages are those of `tests/assay_explorer/gallery.py`. Without Debian's Chromium they are written as HTML alone.
"""

from __future__ import annotations

import functools
import http.server
import re
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from html import escape
from pathlib import Path

from torch import nn

from assay_capture.capture import Recipe, build, load_recipe
from assay_explorer.rendering import DIGEST
from assay_explorer.web import STATIC
from tests.assay_explorer.conftest import MAX_BYTES
from tests.assay_explorer.gallery import gallery
from tests.conftest import _chains
from tests.support.browser import PROGRAM, chromium, confused, violations
from trainer_node.local.bundle import Bundle

OUT = Path(__file__).resolve().parent.parent / ".build/gallery"
WIDE, NARROW = 1200, 360
LOOKS = {"wide": (WIDE, "light"), "narrow": (NARROW, "light"), "dark": (WIDE, "dark")}


def main() -> int:
    """Write pages and pictures. Return 1 if a page is heavy, wider than its window or confused, or
    axe-core finds something."""
    shutil.rmtree(OUT, ignore_errors=True)
    shutil.copytree(STATIC, OUT / "static")
    with _chains() as start:
        pages = list(gallery(start, small_bundle()))
    names, found = list(map(write, pages)), heavy(pages)
    rows = "".join(f"<h2>{escape(name)}</h2>{row(file)}" for name, file in names)
    (OUT / "index.html").write_text(
        f"<!doctype html><title>Gallery</title><h1>{len(names)} states</h1>{rows}"
    )
    if PROGRAM is None:
        print(f"{len(names)} pages in {OUT}; no pictures: apt install chromium", file=sys.stderr)
    else:
        found += pictures([file for _, file in names])
        print(f"{len(names)} states, {len(names) * len(LOOKS)} pictures: {OUT / 'index.html'}")
    print("\n".join(found))
    return 1 if found else 0


def small_bundle() -> Bundle:
    """Return digits, 64-16-10, 40 steps, three levels of strides."""
    recipe = load_recipe("digits-mlp", steps=40, batch_size=16)
    assert isinstance(recipe, Recipe)
    module = nn.Sequential(nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 10))
    return build(replace(recipe, module=module, strides=(20, 5, 1)))


def write(page: tuple[str, str]) -> tuple[str, str]:
    """Write a page; return its name, and that of its file without the ending."""
    name, html = page
    file = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    # NOTE: a copy asks nobody whether it has changed.
    (OUT / f"{file}.html").write_text(re.sub(r' hx-[a-z]+="[^"]*"', "", html.replace(DIGEST, "")))
    return name, file


def heavy(pages: list[tuple[str, str]]) -> list[str]:
    """Print the least and the largest weight; return the pages that are heavier than allowed."""
    # NOTE: a copy has in it what its page would load.
    weights = {name: len(re.sub('"data:[^"]*"', "", html).encode()) for name, html in pages}
    least, most = min(weights, key=weights.__getitem__), max(weights, key=weights.__getitem__)
    print(f"{weights[least]:,} bytes ({least}) to {weights[most]:,} ({most})")
    return [f"{name}: {weight:,} bytes" for name, weight in weights.items() if weight > MAX_BYTES]


def row(file: str) -> str:
    if PROGRAM is None:
        return f'<a href="{file}.html">page</a>'
    return "".join(
        f'<a href="{file}.html"><img src="{file}-{look}.png" alt="{look}" height="420"></a> '
        for look in LOOKS
    )


def pictures(files: list[str]) -> Iterator[str]:
    """Take the pictures of all pages; yield what is wrong with one."""
    with served(OUT) as site, chromium() as browser:
        for look, (width, scheme) in LOOKS.items():
            context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
            page = context.new_page()
            for file in files:
                page.goto(f"{site}/{file}.html")
                page.screenshot(path=OUT / f"{file}-{look}.png", full_page=True)
                yield from (f"{file}, {look}: {one}" for one in [*violations(page), *confused(page)])
                if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                    yield f"{file}, {look}: wider than {width}"
            context.close()


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder at a free port of this machine."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder))
    ) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


if __name__ == "__main__":
    sys.exit(main())
