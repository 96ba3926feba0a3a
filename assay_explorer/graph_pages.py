"""The page of a whole graph: where one is in it, what a search finds, and its groups as a list."""

from __future__ import annotations

from typing import Any

from . import text
from .rendering import NotThere
from .whole_graph import WholeGraph

MAX_GROUPS = 120
"""Groups that a page lists."""


def graph_content(
    graph: WholeGraph, node: int | None, q: str, group: int | None, address: str, disputed: int | None = None
) -> dict[str, Any]:
    """Return what the page shows. ``address``: its own. Raises NotThere if there is no such operator or group."""
    if node is not None and not 0 <= node < graph.count:
        raise NotThere(f"the program has no operator {node}; it has {graph.count}")
    words = q[:200]
    found, more = graph.search(words, None) if words else ([], 0)
    here = node if node is not None else found[0] if len(found) == 1 else None
    if group is None and here is not None and graph.by_group:
        group = graph.group_of[here]
    _check(graph, group)
    # NOTE: in a picture of groups the ids are theirs.
    known = graph.group_of.__getitem__ if group is None and graph.by_group else int
    return {
        "graph": graph,
        "address": address,
        "data": f"{address}.json" + ("" if group is None else f"?group={group}"),
        "here": None if here is None else graph.shown(here),
        "at": None if here is None else known(here),
        "disputed": disputed,
        "disputed_at": None if disputed is None else known(disputed),
        "hits": list(dict.fromkeys(map(known, found))),
        "rows": [graph.shown(row) for row in found],
        "more": more,
        "q": text.said(words, 200),
        "group": None if group is None else graph.groups[group],
        "groups": graph.groups[:MAX_GROUPS],
        "fewer": max(0, len(graph.groups) - MAX_GROUPS),
    }


def picture_of(graph: WholeGraph, group: int | None) -> bytes:
    """Return the data of a picture. Raises NotThere for a group that is not there."""
    _check(graph, group)
    return graph.picture(group)


def _check(graph: WholeGraph, group: int | None) -> None:
    if group is not None and not 0 <= group < len(graph.groups):
        raise NotThere(f"the graph has no group {group}; it has {len(graph.groups)}")
