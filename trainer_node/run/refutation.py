"""A refutation: one checkpoint of a claimed run, and the refuter's own in its place (docs/protocol.md, section 6)."""

from __future__ import annotations

from dataclasses import dataclass

from referee_py.execute import RunClaim


@dataclass(frozen=True)
class Refuted(RunClaim):
    """Statement of a refutation. As a claim it has the root of the claimed run tree with its own checkpoint in it.

    ``against``: the claimed root; ``index``: the interval, from 0; ``claimed`` and ``computed``: its checkpoints;
    ``siblings``: the path from either to its root.
    """

    against: bytes = b""
    index: int = 0
    claimed: bytes = b""
    computed: bytes = b""
    siblings: tuple[bytes, ...] = ()
