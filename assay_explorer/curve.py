"""Curves of published numbers, as SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from markupsafe import Markup

from .drawing import svg

WIDTH, HEIGHT = 960, 240
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 12, 30
MAX_POINTS = 400
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
        kept = [*points[::every], points[-1]]
        path = " ".join(f"{x(step):.1f},{y(value):.1f}" for step, value in kept)
        parts.append(f'<polyline class="curve curve{number}" points="{path}"/>')
        step, value = points[-1]
        parts.append(f'<circle class="dot curve{number}" cx="{x(step):.1f}" cy="{y(value):.1f}" r="4"/>')
        words.append(f"{name}: {points[0][1]:.4g} after step {points[0][0]}, {value:.4g} after step {step}")
    legend = "".join(
        f'<li><span class="key curve{k}"></span>{escape(line)}</li>' for k, line in enumerate(words)
    )
    drawing = svg(WIDTH, HEIGHT, "".join(parts), "; ".join(words), "curve")
    return Markup(f'{drawing}<ul class="legend">{legend}</ul>')  # escaped above
