"""SVG, drawn on the server: strips of leaves, the funnel between two of them, curves, bars and graphs.

SAFETY: no text in a drawing is a stranger's, unless it went through `escape`. Colours come from classes of the style
sheet, so that they follow the theme; no style attribute is used, which the content security policy would refuse.
"""

from __future__ import annotations

from html import escape

from markupsafe import Markup

from .intervals import Intervals
from .money import BURNED, Flow
from .rungs import Ladder, Strip
from .text import ether_short

WIDTH = 960
NARROW, NARROW_CELLS = 420, 18
"""Width and cells of a drawing for narrow screens."""
MAX_CELLS = 48
"""Cells that a strip draws; more leaves are drawn as ranges."""


def strip(found: Strip, ident: str) -> Markup:
    """Return a strip of leaves: equal, different, unknown. Two drawings, of which narrow screens show the second."""
    return Markup(_strip(found, ident, WIDTH, "wide") + _strip(found, f"{ident}n", NARROW, "narrow"))


def _strip(found: Strip, ident: str, full: int, cls: str) -> Markup:
    cells = _cells(found, MAX_CELLS if full == WIDTH else NARROW_CELLS)
    gap, top, height = 3, 8, 38
    width = (full - gap * (len(cells) - 1)) / len(cells)
    parts = []
    for k, (low, high) in enumerate(cells):
        x = k * (width + gap)
        kind, sign = _state(found, low, high)
        parts.append(
            f'<rect class="cell {kind}" x="{x:.1f}" y="{top}" width="{width:.1f}" height="{height}" rx="5"/>'
        )
        if width > 12:
            parts.append(f'<text class="sign {kind}" x="{x + width / 2:.1f}" y="{top + 25}">{sign}</text>')
        first, last = k == 0, k == len(cells) - 1
        if (
            width > 64
            or kind == "different"
            or (first and found.lo > 8)
            or (last and found.hi < found.count - 9)
        ):
            anchor, at = "middle", x + width / 2
            if width <= 64 and (first or at < 40):
                anchor, at = "start", x
            elif width <= 64 and (last or at > full - 40):
                anchor, at = "end", x + width
            name = "name different" if kind == "different" else "name"
            parts.append(
                f'<text class="{name}" text-anchor="{anchor}" x="{at:.1f}" y="{top + height + 18}">'
                f"{escape(_called(found, low, high))}</text>"
            )
    bottom = top + height + 26
    words = (
        f"{found.name(found.lo)} is the first of {found.count} that differs; all before it are equal"
        if found.found
        else f"the first difference is among {found.name(found.lo)} to {found.name(found.hi)} of {found.count}"
    )
    return svg(full, bottom, "".join(parts), words, ident, cls)


def overview(found: Ladder) -> Markup:
    """Return all strips of a dispute as one picture: each first difference opens into the strip below it. Two drawings,
    of which narrow screens show the second."""
    return Markup(_overview(found, WIDTH, 168, 26, "wide") + _overview(found, NARROW, 0, 46, "narrow"))


def _overview(found: Ladder, full: int, left: int, between: int, cls: str) -> Markup:
    height, above = 34, 0 if left else 22
    rungs = [
        rung
        for rung in found.rungs
        if rung.strip is not None and (rung.strip.count > 1 or rung.kind != "trial")
    ]
    parts, y = [], 6.0 + above
    for k, rung in enumerate(rungs):
        strip_ = rung.strip
        assert strip_ is not None
        cells = _cells(strip_, MAX_CELLS if left else NARROW_CELLS)
        gap = 3 if len(cells) < 60 else 2
        width = (full - left - gap * (len(cells) - 1)) / len(cells)
        title = rung.title.replace(" · ", ", ").split(", ")
        name = title[1].capitalize() if rung.kind in ("run", "interval") and len(title) > 1 else title[0]
        at = y + 22 if left else y - 8
        parts.append(f'<text class="rung" x="0" y="{at:.0f}">{escape(name)}</text>')
        red = (float(left), float(full))
        for c, (low, high) in enumerate(cells):
            x = left + c * (width + gap)
            kind, sign = _state(strip_, low, high)
            if kind in ("different", "open"):
                red = (x, x + width)
            parts.append(
                f'<rect class="cell {kind}" x="{x:.1f}" y="{y:.0f}" width="{width:.1f}" height="{height}" rx="4"/>'
            )
            if width > 12:
                wide = kind == "different" and width > 84
                word = f"{sign} {strip_.name(low)}" if wide else sign
                parts.append(
                    f'<text class="sign {kind}" x="{x + width / 2:.1f}" y="{y + 23:.0f}">{escape(word)}</text>'
                )
        y += height
        last = k == len(rungs) - 1
        if not last and strip_.found:
            a, b, end = *red, y + between
            parts.append(
                f'<path class="funnel" d="M{a:.1f} {y:.0f} L{b:.1f} {y:.0f} C{b:.1f} {y + 18:.0f} {full} {y + 6:.0f} '
                f'{full} {end:.0f} L{left} {end:.0f} C{left} {y + 6:.0f} {a:.1f} {y + 18:.0f} {a:.1f} {y:.0f} Z"/>'
            )
        if strip_.found and red[1] - red[0] <= 84:
            at = min(max((red[0] + red[1]) / 2, left + 40), full - 40)
            parts.append(
                f'<text class="name different" text-anchor="middle" x="{at:.0f}" y="{y + 17:.0f}">'
                f"{escape(strip_.name(strip_.lo))}</text>"
            )
            y += 22 if last else 0
        y += 0 if last else between
    words = "; ".join(f"{rung.title}: {rung.lead}" for rung in rungs)
    return svg(full, round(y) + 4, "".join(parts), words, f"overview-{cls}", cls)


def svg(width: int, height: int, body: str, words: str, ident: str, cls: str = "") -> Markup:
    """Return a drawing with words for those who do not see it."""
    return Markup(  # words are escaped here, bodies by those who make them
        f'<svg class="drawing {cls}" viewBox="0 0 {width} {height}" role="img" aria-labelledby="{ident}">'
        f'<title id="{ident}">{escape(words)}</title>{body}</svg>'
    )


def _cells(found: Strip, most: int) -> list[tuple[int, int]]:
    """Return the ranges of leaves that cells stand for; around the difference each leaf has its own."""
    count = max(found.count, found.hi + 1)
    if count <= most:
        return [(k, k) for k in range(count)]
    near, sides = (4, 14) if most == MAX_CELLS else (2, 5)
    low, high = max(found.lo - near, 0), min(found.hi + near, count - 1)
    if high - low > 3 * near:
        middle = [(found.lo, found.hi)]
        low, high = found.lo, found.hi
    else:
        middle = [(k, k) for k in range(low, high + 1)]
    left = _ranges(0, low - 1, sides)
    return [*left, *middle, *_ranges(high + 1, count - 1, sides)]


def _ranges(low: int, high: int, parts: int) -> list[tuple[int, int]]:
    size = high - low + 1
    if size <= 0:
        return []
    parts = min(parts, size)
    edges = [low + size * k // parts for k in range(parts + 1)]
    return [(edges[k], edges[k + 1] - 1) for k in range(parts)]


def _state(found: Strip, low: int, high: int) -> tuple[str, str]:
    if high < found.lo:
        return "equal", "="
    if low > found.hi:
        return "after", "·"
    return ("different", "≠") if found.found else ("open", "?")


def _called(found: Strip, low: int, high: int) -> str:
    return found.name(low) if low == high else f"{found.name(low)}–{found.name(high).lstrip('C#')}"


def intervals(found: Intervals) -> Markup:
    """Return a run's intervals as a strip."""
    count = len(found.shown)
    gap = 2 if count <= 120 else 1
    width = (WIDTH - gap * (count - 1)) / count
    parts = []
    for k, one in enumerate(found.shown):
        x = k * (width + gap)
        words = f"steps {one.first} to {one.last}: {one.kind}" + (f", {one.by}" if one.by else "")
        parts.append(
            f'<rect class="cell {one.kind}" x="{x:.2f}" y="4" width="{width:.2f}" height="34" rx="4">'
            f"<title>{escape(words)}</title></rect>"
        )
        if width > 16:
            sign = {"disputed": "≠", "checked": "=", "sampled": "=", "unseen": "?"}[one.kind]
            parts.append(f'<text class="sign {one.kind}" x="{x + width / 2:.2f}" y="27">{sign}</text>')
        if width > 64:
            parts.append(
                f'<text class="name" text-anchor="middle" x="{x + width / 2:.2f}" y="56">{one.first}–{one.last}</text>'
            )
    words = ", ".join(f"{number} {kind}" for kind, number in found.counts.items())
    return svg(WIDTH, 62, "".join(parts), f"{found.count} intervals: {words}", "intervals")


def money(found: Flow) -> Markup:
    """Return what each party paid in and got, as two bars for each."""
    rows = [account for account in found.accounts if account.paid or account.got or account.bond]
    most = max([1, *(max(one.paid + one.bond, one.got) for one in rows)])
    left, right, height = 150, 150, 46
    parts = []
    for k, one in enumerate(rows):
        y = k * height
        scale = (WIDTH - left - right) / most
        paid, got = (one.paid + one.bond) * scale, one.got * scale
        burned = one.address == BURNED
        sign = "even" if burned else "won" if one.profit > 0 else "lost" if one.profit < 0 else "even"
        words = {"won": "+", "lost": "−", "even": "±"}[sign]
        parts.append(f'<text class="who" x="0" y="{y + 26}">{escape(one.name)}</text>')
        parts.append(f'<rect class="paid" x="{left}" y="{y + 6}" width="{paid:.1f}" height="13" rx="3"/>')
        parts.append(f'<rect class="got" x="{left}" y="{y + 21}" width="{got:.1f}" height="13" rx="3"/>')
        parts.append(
            f'<text class="sum {sign}" text-anchor="end" x="{WIDTH}" y="{y + 26}">'
            f"{'' if burned else words}{ether_short(abs(one.profit))}</text>"
        )
    words = "; ".join(
        f"{one.name} paid {ether_short(one.paid + one.bond)} and got {ether_short(one.got)}" for one in rows
    )
    return svg(WIDTH, max(1, len(rows)) * height, "".join(parts), words or "no money has moved", "money")
