"""Curves of published numbers, as SVG; with script, a value at each step and smoothing.

A chart is whole without script (`assay_explorer/static/chart.js`). What the script needs stands on the elements: the
frame and the range of the values on the figure, the steps and the values of its points on each curve.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from itertools import groupby, pairwise

from markupsafe import Markup

from .drawing import svg

WIDTH, HEIGHT = 960, 300
LEFT, RIGHT, TOP, BOTTOM = 84, 16, 12, 34
MAX_POINTS, MAX_DOTS = 400, 24
Series = tuple[str, Sequence[tuple[int, float]]]


def draw(series: Sequence[Series], steps: int) -> Markup:
    """Return curves over the steps of a run. Values must be finite."""
    values = [value for _, points in series for _, value in points]
    low, high = min(values), max(values)
    if low == high:
        low, high = low - 1, high + 1

    def x(step: int) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * step / max(1, steps)

    def y(value: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (1 - (value - low) / (high - low))

    parts = []
    for k in range(5):
        value = low + (high - low) * k / 4
        parts.append(f'<path class="grid" d="M{LEFT} {y(value):.1f} H{WIDTH - RIGHT}"/>')
        parts.append(
            f'<text class="tick" text-anchor="end" x="{LEFT - 8}" y="{y(value) + 4:.1f}">{value:.3g}</text>'
        )
    for step in sorted({0, steps // 4, steps // 2, 3 * steps // 4, steps}):
        parts.append(
            f'<text class="tick" text-anchor="middle" x="{x(step):.1f}" y="{HEIGHT - 8}">{step:,}</text>'
        )
    words = []
    for number, (name, points) in enumerate(series):
        every = math.ceil(len(points) / MAX_POINTS)
        kept = [*points[:-1:every], points[-1]]
        path = " ".join(f"{x(step):.0f},{y(value):.1f}" for step, value in kept)
        told = f'data-steps="{_steps(kept)}" data-values="{" ".join(f"{value:.6g}" for _, value in kept)}"'
        parts.append(
            f'<polyline class="curve curve{number}" points="{path}" data-name="{escape(name)}" {told}/>'
        )
        # NOTE: a line between two points says nothing of the steps between them, so a few points are shown as such.
        for step, value in points if len(points) <= MAX_DOTS else points[-1:]:
            parts.append(f'<circle class="dot curve{number}" cx="{x(step):.1f}" cy="{y(value):.1f}" r="4"/>')
        step, value = points[-1]
        words.append(f"{name}: {points[0][1]:.4g} after step {points[0][0]}, {value:.4g} after step {step}")
    legend = "".join(
        f'<li><span class="key curve{k}"></span>{escape(line)}</li>' for k, line in enumerate(words)
    )
    drawing = svg(WIDTH, HEIGHT, "".join(parts), "; ".join(words), "curve")
    frame = f'data-frame="{LEFT} {TOP} {WIDTH - RIGHT} {HEIGHT - BOTTOM}" data-range="{float(low)!r} {float(high)!r}"'
    return Markup(  # escaped above
        f'<figure class="chart" {frame} data-last="{steps}">{drawing}<ul class="legend">{legend}</ul></figure>'
    )


def _steps(points: Sequence[tuple[int, float]]) -> str:
    """Return the steps of points, in short: the first, and how often each distance to the next follows itself."""
    gaps = groupby(later - step for (step, _), (later, _) in pairwise(points))
    return " ".join([str(points[0][0]), *(f"{gap}*{len(list(same))}" for gap, same in gaps)])
