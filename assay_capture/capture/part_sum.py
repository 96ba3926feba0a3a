"""Sums over the parts of a batch: in a balanced binary tree, or one after the other.

              add                     the tree over five parts: split at the largest power of two
            /     \\                   below the count, as in the Merkle trees of the protocol
         add       p4
        /   \\
     add     add
    /  \\    /  \\
   p0  p1  p2  p3

Whoever has the parts of a subtree can add them without the others, so the sum can be taken by any number of workers.
"""

from __future__ import annotations

from .builder import Builder, Ref


class PartSum:
    """The sum of values that come one by one: of trees that are as large as they can be, and are added from the right.

    ``balanced`` False gives the left chain ((p0 + p1) + p2) + ....
    """

    def __init__(self, b: Builder, balanced: bool) -> None:
        self._b, self._balanced = b, balanced
        self._trees: list[tuple[int, Ref]] = []

    def add(self, part: Ref) -> None:
        """Add the value of the next part."""
        self._trees.append((1, part))
        while len(self._trees) > 1 and (not self._balanced or self._trees[-2][0] == self._trees[-1][0]):
            self._join()

    def total(self) -> Ref:
        """Return the sum of all parts; there is at least one."""
        while len(self._trees) > 1:
            self._join()
        return self._trees[0][1]

    def _join(self) -> None:
        (left, a), (right, c) = self._trees[-2:]
        self._trees[-2:] = [(left + right, self._b.op("add", a, c))]
