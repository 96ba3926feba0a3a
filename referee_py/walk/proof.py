"""Merkle proofs in moves; refusals have the names of the contract's errors."""

from __future__ import annotations

from collections.abc import Sequence

from ..commit import Tag, fold_path
from . import refusals
from .refusals import require


def proven(tag: Tag, leaf: bytes, index: int, path: Sequence[bytes], depth: int, *roots: bytes) -> None:
    """Raise a Refusal unless ``leaf`` is leaf ``index`` under one of the roots.

    SAFETY: the path has exactly the tree's depth, so ``leaf`` cannot be an inner node. NOTE: to the left of the
    position both trees of a match are equal, so a proof under either root suffices; each side knows its own tree.
    """
    require(len(path) == depth, refusals.WrongPathLength, len(path), depth)
    require(index >> depth == 0, refusals.IndexOutOfTree, index, depth)
    folded = fold_path(tag, leaf, index, path)
    require(folded in roots, refusals.PathMismatch, folded, *roots)
