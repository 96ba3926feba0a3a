"""Links: those of a page that leave docs/, and a check of the built site.

The check reads the pages that were built, as a browser would: so it also sees links of the theme, of the generated
reference and of docstrings, which a check of Markdown does not.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_LOADS = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "audio": "src",
    "embed": "src",
    "object": "data",
    "use": "href",
    "image": "href",
}
"""Attributes whose address a browser loads by itself."""
_NO_REQUESTS = {"canonical", "alternate", "next", "prev"}
"""Kinds of <link> that load nothing."""
_CSS_ADDRESS = re.compile(r"url\(\s*['\"]?(?:https?:)?//|@import\s+['\"](?:https?:)?//")


class _Page(HTMLParser):
    """Anchors and needs of a page: ``ids``, ``links`` to follow, ``loads`` that happen by themselves."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self._style = False
        self.styles = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids |= {given[name] for name in ("id", "name") if given.get(name)}
        self.styles += given.get("style", "")
        self._style = tag == "style"
        if tag in ("a", "area") and "href" in given:
            self.links.append(given["href"])
        elif tag == "link" and not _NO_REQUESTS & set(given.get("rel", "").split()):
            self.loads.append(given.get("href", ""))
        elif tag == "form":
            self.links.append(given.get("action", ""))
        elif tag in _LOADS and (address := given.get(_LOADS[tag]) or given.get(f"xlink:{_LOADS[tag]}")):
            self.loads.append(address)
        for part in given.get("srcset", "").split(","):
            self.loads += part.split()[:1]

    def handle_data(self, data: str) -> None:
        if self._style:
            self.styles += data

    def handle_endtag(self, tag: str) -> None:
        self._style &= tag != "style"


def problems(site: Path) -> list[str]:
    """Return what is wrong with a built site, one line each: broken links and anchors, loads from other hosts."""
    pages = {path.resolve(): _Page(path.read_text()) for path in sorted(site.glob("**/*.html"))}
    if not pages:
        return [f"{site} has no page"]
    found = []
    for path, page in pages.items():
        # NOTE: the page for unknown addresses is shown at any depth, so its links begin at the root.
        name = path.relative_to(site.resolve())
        for address in page.links + page.loads:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                if address in page.loads and parts.scheme != "data":
                    found.append(f"{name}: loads {address} from another host")
                continue
            if reason := _broken(path, unquote(parts.path), unquote(parts.fragment), site.resolve(), pages):
                found.append(f"{name}: {address}: {reason}")
        if _CSS_ADDRESS.search(page.styles):
            found.append(f"{name}: a style loads from another host")
    for path in sorted(site.glob("**/*.css")):
        if _CSS_ADDRESS.search(path.read_text()):
            found.append(f"{path.relative_to(site)}: a style loads from another host")
    return list(dict.fromkeys(found))


def _broken(path: Path, target: str, anchor: str, site: Path, pages: dict[Path, _Page]) -> str | None:
    """Return why a link of the page at ``path`` leads nowhere, or None."""
    place = path
    if target:
        place = (site / target.lstrip("/") if target.startswith("/") else path.parent / target).resolve()
        if place.is_dir():
            place /= "index.html"
        if not place.is_relative_to(site) or not place.is_file():
            return "no such file"
    if anchor and place in pages and anchor not in pages[place].ids:
        return "no such anchor"
    return None


_LINK = re.compile(r"(?<!!)\[([^\]\n]+)\]\((\.\./[^)\s]*)\)")


def within(text: str, path: Path, root: Path) -> str:
    """Return the text of a page for the site: of a link to a file of the repository outside docs/ its words are left.

    ``path`` is where the page lies in docs/. Raises ValueError if the link's file does not exist.
    """

    def replace(found: re.Match[str]) -> str:
        words, target = found.groups()
        place = (path.parent / target.partition("#")[0]).resolve()
        if not place.exists():
            raise ValueError(f"{path.relative_to(root)}: the link to {target} leads nowhere")
        return found.group(0) if place.is_relative_to(root / "docs") else words

    return _LINK.sub(replace, text)
