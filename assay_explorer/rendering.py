"""Templates, and the addresses of pages that they name."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import jinja2

from trainer_node.cli.arithmetic import mode_words
from trainer_node.ids import SIDES, short

from . import text

ADDRESS_CHARS = 42
"""Length of an account as text."""
DIGEST = "@@digest@@"
"""Stands in a page for the digest of the page, until that is known."""


class NotThere(Exception):
    """There is no such thing to show."""


@dataclass(frozen=True)
class Place:
    """Place of a page: it makes the addresses of other pages. ``static``: the pages are files of one folder; ``chain``:
    they are about a chain."""

    static: bool = False
    chain: bool = True

    def home(self) -> str:
        return "/" if not self.static else "index.html"

    def asset(self, name: str) -> str:
        return f"assets/{name}" if self.static else f"/static/{name}"

    def file(self, name: str) -> str:
        return name if self.static else f"/{name}"

    def job(self, job: int) -> str:
        return "job.html" if self.static else f"/job/{job}"

    def account(self, address: str) -> str:
        return f"/account/{address.lower()}"

    def known_of(self, value: str) -> str | None:
        """Return the page of what is known of a hash or an account, given in full; None where no chain is asked."""
        if self.static or not self.chain:
            return None
        return self.account(value) if len(value) == ADDRESS_CHARS else f"/find?q={value}"

    def dispute(self, job: int, match: int) -> str:
        return "index.html" if self.static else f"/job/{job}/dispute/{match:#066x}"

    def moment(self, at: int) -> str:
        """Return the address of a dispute at a block, as it is from the dispute's own page."""
        return f"at-{at}.html" if self.static else f"?at={at}"

    def part(self, job: int, match: int, page: str, **query: object) -> str:
        if self.static:
            return f"{page}.html"
        words = "&".join(f"{key}={value}" for key, value in query.items() if value is not None)
        return f"/job/{job}/dispute/{match:#066x}/{page}" + (f"?{words}" if words else "")


def render(
    template: str,
    title: str,
    place: Place,
    *,
    live: str | None = None,
    problem: str | None = None,
    **content: Any,
) -> str:
    """Return a page. ``live``: its address, if it asks by itself whether it has changed; ``problem``: why what it shows
    may be old."""
    found = _templates().get_template(template)
    return found.render(
        title=text.said(title), place=place, live=live, digest=DIGEST, problem=problem, **content
    )


@cache
def _templates() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("assay_explorer"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "said": text.said,
        "link": text.link,
        "short": short,
        "whole": text.whole,
        "ether": text.ether,
        "ether_short": text.ether_short,
        "seconds": text.seconds,
        "moment": text.moment,
    }
    made.tests["digest"] = text.is_digest
    made.globals |= {"plural": text.plural, "several": text.several, "SIDES": SIDES, "mode_words": mode_words}
    return made
