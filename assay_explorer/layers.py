"""A layout of a graph in layers: a node stands below what it reads; a long graph continues in the next column.

0   1            5          NOTE: a training step of 10,000 operators is some thousand layers deep and few wide, so
 ╲ ╱ ╲     .     │          that one column would be a line that no screen shows. Columns make it a sheet.
  2   3    .     6
"""

from __future__ import annotations

import math
from collections.abc import Sequence

ACROSS, DOWN, BETWEEN = 150, 70, 90
"""Distances of nodes in a row, of rows, and of columns beside that of their nodes."""
WIDEST = 8
"""Nodes of a row; a wider layer takes several rows."""
SHAPE = 1.6
"""Width of the sheet over its height."""
Place = tuple[int, int]


def layers(sources: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return nodes by the length of the longest way to them, each layer in the order of what it reads.

    INVARIANT: a node reads only nodes with lower numbers; others in its sources are left out.
    """
    depth: list[int] = []
    for node, read in enumerate(sources):
        depth.append(1 + max((depth[one] for one in read if one < node), default=-1))
    found: list[list[int]] = [[] for _ in range(max(depth, default=-1) + 1)]
    for node, level in enumerate(depth):
        found[level].append(node)
    at = [0.0] * len(depth)
    for layer in found:
        middle = {node: [at[one] for one in sources[node] if one < node] for node in layer}
        layer.sort(key=lambda node: (sum(middle[node]) / len(middle[node]) if middle[node] else 0.0, node))
        for k, node in enumerate(layer):
            at[node] = k - (len(layer) - 1) / 2
    return found


def places(sources: Sequence[Sequence[int]]) -> list[Place]:
    """Return the place of each node."""
    rows = [layer[k : k + WIDEST] for layer in layers(sources) for k in range(0, len(layer), WIDEST)]
    width = max(map(len, rows), default=1) * ACROSS + BETWEEN
    columns = max(1, round(math.sqrt(SHAPE * len(rows) * DOWN / width)))
    height = -(-len(rows) // columns) or 1
    found: list[Place] = [(0, 0)] * len(sources)
    for k, row in enumerate(rows):
        column, y = divmod(k, height)
        for number, node in enumerate(row):
            found[node] = round(column * width + (number - (len(row) - 1) / 2) * ACROSS), y * DOWN
    return found
