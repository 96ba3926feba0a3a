"""SVG, drawn on the server: strips of leaves, the funnel between two of them, curves, bars and graphs.

SAFETY: no text in a drawing is a stranger's, unless it went through `escape`. Colours come from classes of the style
sheet, so that they follow the theme; no style attribute is used, which the content security policy would refuse.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby

from markupsafe import Markup

from referee_py.params import BURNED

from .intervals import Interval, Intervals
from .money import Account, Flow
from .rungs import Ladder, Strip
from .text import ether_short

WIDTH = 960
NARROW, NARROW_CELLS = 420, 18
"""Width and cells of a drawing for narrow screens."""
MAX_CELLS = 48
"""Cells that a strip draws; more leaves are drawn as ranges."""
Cell = tuple[str, str, float]
"""A cell of a strip: kind, sign (empty where it has no room), left edge."""


def strip(found: Strip, ident: str) -> Markup:
    """Return a strip of leaves: equal, different, unknown. Two drawings, of which narrow screens show the second."""
    return Markup(_strip(found, ident, WIDTH, "wide") + _strip(found, ident, NARROW, "narrow"))


def _strip(found: Strip, ident: str, full: int, cls: str) -> Markup:
    cells = _cells(found, MAX_CELLS if full == WIDTH else NARROW_CELLS)
    gap, top, height = 3, 8, 38
    width = (full - gap * (len(cells) - 1)) / len(cells)
    parts: list[str] = []
    drawn: list[Cell] = []
    for k, (low, high) in enumerate(cells):
        x = k * (width + gap)
        kind, sign = _state(found, low, high)
        drawn.append((kind, sign if width > 12 else "", x))
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
            name += "" if anchor == "middle" else f" {anchor}"
            parts.append(
                f'<text class="{name}" x="{at:.0f}" y="{top + height + 18}">'
                f"{escape(_called(found, low, high))}</text>"
            )
    parts[:0] = _drawn(drawn, top, width, height, 5, f"{ident}{cls[0]}")
    bottom = top + height + 26
    words = (
        f"{found.name(found.lo)} is the first of {found.count} that differs; all before it are equal"
        if found.found
        else f"the first difference is among {found.name(found.lo)} to {found.name(found.hi)} of {found.count}"
    )
    return svg(full, bottom, "".join(parts), words, ident, cls)


def _drawn(
    cells: Sequence[Cell], top: float, width: float, height: int, round_: int, ident: str
) -> Iterator[str]:
    """Yield the cells of a strip: in a row of the same, all but the first are copies of it, which ``ident`` and the
    number of the row name. NOTE: a strip has up to 48 cells, twice, and a dispute six strips, so what cells have in
    common is not said of each."""
    for number, ((kind, sign), row) in enumerate(groupby(cells, lambda cell: cell[:2])):
        x, *others = [x for *_, x in row]
        drawn = (
            f'<rect x="{_short(x)}" y="{top:.0f}" width="{_short(width)}" height="{height}" rx="{round_}"/>'
        )
        if sign:
            middle = _short(x + width / 2)
            drawn += f'<text class="sign" x="{middle}" y="{top + height / 2 + 6:.0f}">{escape(sign)}</text>'
        if others:
            name = f"{ident}{number}"
            copies = "".join(f'<use href="#{name}" x="{_short(other - x)}"/>' for other in others)
            drawn = f'<g id="{name}">{drawn}</g>{copies}'
        yield f'<g class="cell {kind}">{drawn}</g>'


def _short(number: float) -> str:
    """Return a place in a drawing to a tenth, in as few characters as that takes."""
    return f"{number:.1f}".removesuffix(".0")


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
        drawn: list[Cell] = []
        for c, (low, high) in enumerate(cells):
            x = left + c * (width + gap)
            kind, sign = _state(strip_, low, high)
            if kind in ("different", "open"):
                red = (x, x + width)
            if kind == "different" and width > 84:
                sign = f"{sign} {strip_.name(low)}"
            drawn.append((kind, sign if width > 12 else "", x))
        parts += _drawn(drawn, y, width, height, 4, f"o{cls[0]}{k}-")
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
                f'<text class="name different" x="{at:.0f}" y="{y + 17:.0f}">'
                f"{escape(strip_.name(strip_.lo))}</text>"
            )
            y += 22 if last else 0
        y += 0 if last else between
    words = " ".join(f"{rung.title}: {rung.lead}" for rung in rungs)
    return svg(full, round(y) + 4, "".join(parts), words, "overview", cls)


def svg(width: int, height: int, body: str, words: str, ident: str, cls: str = "") -> Markup:
    """Return a drawing with words for those who do not see it. The drawing for narrow screens has those of the wide one
    beside it, of the same name."""
    title = "" if cls == "narrow" else f'<title id="{ident}">{escape(words)}</title>'
    return Markup(  # words are escaped here, bodies by those who make them
        f'<svg class="drawing {cls}" viewBox="0 0 {width} {height}" role="img" aria-labelledby="{ident}">'
        f"{title}{body}</svg>"
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
    return (
        found.name(low) if low == high else f"{found.name(low)}–{found.name(high).removeprefix(found.unit)}"
    )


WORDS = {"sampled": "checked once", "partly": "checked in part"}
"""Words of a kind of interval, where it is not called by its name."""
HEIGHTS = {"disputed": 34, "checked": 34, "sampled": 17, "partly": 12, "unseen": 8, "unclaimed": 8}
"""Heights of an interval by its kind: the more is known, the higher."""
SIGNS = {"disputed": "≠", "checked": "="}
SUM_CHAR = 9.1
"""Width of a character of a sum of money."""
FINE = 6.0
"""Width of a bar up to which it is part of a path."""


def intervals(found: Intervals) -> Markup:
    """Return a run's intervals as a strip. Two drawings, of which narrow screens show the second."""
    return Markup(_intervals(found, WIDTH, "wide") + _intervals(found, NARROW, "narrow"))


def _intervals(found: Intervals, full: int, cls: str) -> Markup:
    count = len(found.shown)
    gap = 2.0 if count <= full / 8 else 0.2 * full / count
    width = (full - gap * (count - 1)) / count
    parts = _bars(found, width, gap) if width > FINE else _fine_bars(found, width, gap, titled=full == WIDTH)
    words = ", ".join(f"{number} {WORDS.get(kind, kind)}" for kind, number in found.counts.items())
    return svg(full, 64, "".join(parts), f"{found.count} intervals: {words}", "intervals", cls)


def _bars(found: Intervals, width: float, gap: float) -> Iterator[str]:
    """Yield a bar for each interval, with a sign and its steps where they have room."""
    names = [f"{one.first}" if one.first == one.last else f"{one.first}–{one.last}" for one in found.shown]
    named = 20 + 8 * max(map(len, names))
    for k, one in enumerate(found.shown):
        x = k * (width + gap)
        # NOTE: colours do not tell all people the kinds apart, so heights do, too.
        height = HEIGHTS[one.kind]
        yield (
            f'<rect class="cell {one.kind}" x="{x:.2f}" y="{38 - height}" width="{width:.2f}" height="{height}" rx="3">'
            f"<title>{_told(one, one)}</title></rect>"
        )
        if width > 16 and height > 20:
            sign = SIGNS[one.kind]
            yield f'<text class="sign {one.kind}" x="{x + width / 2:.2f}" y="27">{sign}</text>'
        if width > named:
            middle = f"{x + width / 2:.2f}"
            yield f'<text class="name" x="{middle}" y="58">{names[k]}</text>'


def _fine_bars(found: Intervals, width: float, gap: float, *, titled: bool) -> Iterator[str]:
    """Yield one path for each row of bars of the same kind, and its steps; without titles, for each kind: nobody points
    at a bar of two pixels on a small screen, and a page of many bars is to stay small."""
    bars = [
        (one, f"M{k * (width + gap):.1f} {38 - HEIGHTS[one.kind]}h{width:.1f}V38h-{width:.1f}z")
        for k, one in enumerate(found.shown)
    ]
    if not titled:
        bars.sort(key=lambda bar: bar[0].kind)
    for (kind, _), row in groupby(bars, lambda bar: (bar[0].kind, bar[0].by if titled else "")):
        same = list(row)
        title = f"<title>{_told(same[0][0], same[-1][0])}</title>" if titled else ""
        yield f'<path class="cell {kind}" d="{"".join(path for _, path in same)}">{title}</path>'


def _told(first: Interval, last: Interval) -> str:
    """Return what is known of these intervals, and of those between, as HTML."""
    kind = WORDS.get(first.kind, first.kind)
    return escape(f"steps {first.first} to {last.last}: {kind}" + (f", {first.by}" if first.by else ""))


def money(found: Flow) -> Markup:
    """Return what each party paid in and got, as two bars for each. Two drawings, of which narrow screens show the
    second."""
    return Markup(_money(found, WIDTH, 150, "wide") + _money(found, NARROW, 120, "narrow"))


def _money(found: Flow, full: int, side: int, cls: str) -> Markup:
    rows = [account for account in found.accounts if account.paid or account.got or account.bond]
    most = max([1, *(max(one.paid + one.bond, one.got) for one in rows)])
    height = 46
    parts = []
    words = [f"{_sign(one)}{ether_short(abs(one.profit))}" for one in rows]
    # NOTE: the longest bar ends where the longest sum begins.
    scale = (full - side - SUM_CHAR * max(map(len, words), default=0) - 10) / most
    for k, one in enumerate(rows):
        y = k * height
        paid, got = (one.paid + one.bond) * scale, one.got * scale
        # NOTE: while the contracts hold stakes or the reward, what is paid in is not lost.
        open_ = one.address == BURNED or found.between > 0
        sign = "even" if open_ or not one.profit else "won" if one.profit > 0 else "lost"
        parts.append(f'<text class="who" x="0" y="{y + 26}">{escape(one.name)}</text>')
        parts.append(f'<rect class="paid" x="{side}" y="{y + 6}" width="{paid:.1f}" height="13" rx="3"/>')
        parts.append(f'<rect class="got" x="{side}" y="{y + 21}" width="{got:.1f}" height="13" rx="3"/>')
        parts.append(f'<text class="sum {sign}" text-anchor="end" x="{full}" y="{y + 26}">{words[k]}</text>')
    told = "; ".join(
        f"{one.name} paid {ether_short(one.paid + one.bond)} and got {ether_short(one.got)}" for one in rows
    )
    drawn = "".join(parts)
    return svg(full, max(1, len(rows)) * height, drawn, told or "no money has moved", "money", cls)


def _sign(one: Account) -> str:
    return "" if one.address == BURNED else "+" if one.profit > 0 else "−" if one.profit < 0 else "±"
