"""The walk of a match or a trial down two trees whose roots differ, to the first difference.

At every node each side may publish its own half, and anybody who knows both halves may conclude. `check_children` and
`check_way` are the rules (contracts/commit/Descents.sol); `next_half` returns the next move of a side.

INVARIANT: siblings to the left of the way are equal in both trees, so everything to the left of the position is equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..commit import Nodes, Tag, Tree, fold_descendants, fold_path
from ..params import REVEAL_LEVELS
from . import refusals
from .refusals import require
from .sides import by_side


@dataclass(frozen=True, slots=True)
class Descent:
    """The number of a descendant, counted from the left, and each side's node there with its path up."""

    child: int
    node0: bytes
    path0: tuple[bytes, ...]
    node1: bytes
    path1: tuple[bytes, ...]


# --- rules ------------------------------------------------------------------------------------------------------


def shown(height: int) -> int:
    """Return the number of levels that a reveal at this height goes down."""
    return min(height, REVEAL_LEVELS)


def check_children(tag: Tag, side: int, node: bytes, height: int, children: Sequence[bytes]) -> None:
    """Raise a Refusal unless ``children`` are the descendants of a side's ``node`` of this height."""
    want = 1 << shown(height)
    require(len(children) == want, refusals.WrongChildCount, len(children), want)
    folded = fold_descendants(tag, children)
    require(folded == node, refusals.WrongNode, side, folded, node)


def check_way(tag: Tag, nodes: tuple[bytes, bytes], height: int, way: Descent) -> int:
    """Return the levels that ``way`` descends. Raises a Refusal unless it leads to the first differing descendant."""
    levels = len(way.path0)
    require(levels == len(way.path1), refusals.PathsDiffer, levels, len(way.path1))
    require(shown(height) <= levels <= height, refusals.BadDescent, levels, height)
    require(way.child >> levels == 0, refusals.ChildOutOfRange, way.child, levels)
    require(way.node0 != way.node1, refusals.NoDifference, way.node0)
    for side, (node, path) in enumerate(((way.node0, way.path0), (way.node1, way.path1))):
        folded = fold_path(tag, node, way.child, path)
        require(folded == nodes[side], refusals.WrongNode, side, folded, nodes[side])
    for level in range(levels):
        left = way.child >> level & 1
        require(not left or way.path0[level] == way.path1[level], refusals.EarlierDifference, level)
    return levels


# --- the next move of a side ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Position:
    """A position in two trees: height and index of a node, both sides' nodes, and the sides that have posted."""

    tag: Tag
    height: int
    index: int
    nodes: tuple[bytes, bytes]
    posted: int


def next_half(
    at: Position, side: int, own: Nodes, served: Nodes | None, revealed: Sequence[bytes] | None
) -> Descent | tuple[bytes, ...] | None:
    """Return the next move of ``side``: a descent as far as both trees are known, else its own children to publish.

    ``own`` is its tree; ``served`` is the whole tree of the other side, if known; ``revealed`` are the children that
    the other side has published on-chain, if any. Returns None if ``side`` has posted and has to wait.
    """
    mine = _Subtree(own, at.height, at.index)
    if served is not None:
        return mine.descent(_Subtree(served, at.height, at.index), at.height, side)
    levels = shown(at.height)
    if revealed is not None and _fits(at, revealed, levels, 1 - side):
        return mine.descent(_Subtree(Tree(at.tag, revealed), levels, 0), levels, side)
    if at.posted >> side & 1:
        return None
    return tuple(own.descendants(at.height, at.index, levels))


def _fits(at: Position, children: Sequence[bytes], levels: int, side: int) -> bool:
    """Return whether the children are those of a side's node at this position."""
    return len(children) == 1 << levels and fold_descendants(at.tag, children) == at.nodes[side]


@dataclass(frozen=True, slots=True)
class _Subtree:
    """The part of a tree below one of its nodes."""

    tree: Nodes
    height: int
    index: int

    def node(self, levels: int, child: int) -> bytes:
        """Return descendant ``child``, counted from the left, ``levels`` down."""
        return self.tree.node(self.height - levels, (self.index << levels) + child)

    def path(self, levels: int, child: int) -> tuple[bytes, ...]:
        """Return the siblings from that descendant up to the subtree's root."""
        return tuple(self.tree.path((self.index << levels) + child, self.height - levels, self.height))

    def descent(self, other: _Subtree, levels: int, side: int) -> Descent:
        """Return the way to the leftmost descendant that differs; the roots of both subtrees must differ."""
        child = 0
        for level in range(1, levels + 1):
            child <<= 1
            child += self.node(level, child) == other.node(level, child)
        node0, node1 = by_side(side, self.node(levels, child), other.node(levels, child))
        path0, path1 = by_side(side, self.path(levels, child), other.path(levels, child))
        return Descent(child, node0, path0, node1, path1)
