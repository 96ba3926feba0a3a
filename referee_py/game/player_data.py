"""The data that a player has: its own run, the program, and what the opponent has published of its run.

Own data may be missing (a liar has none beneath an invented root): then the method returns None, and the solver
does without. The opponent's data is not trusted: the solver checks every hash against the chain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from ..commit import Record, Tag, Tree


class ProgramView(Protocol):
    """The public data of the job's program, with proofs under its on-chain roots."""

    def structure(self, node: int) -> bytes: ...

    def structure_path(self, node: int) -> Sequence[bytes]: ...

    def slot_source(self, slot: int) -> tuple[int, int]:
        """Return the node and the output number that update the slot."""
        ...

    def slot_path(self, slot: int) -> Sequence[bytes]: ...

    def constant_hash(self, constant: int) -> bytes: ...

    def constant_path(self, constant: int) -> Sequence[bytes]: ...

    def initial_hash(self, slot: int) -> bytes: ...

    def initial_path(self, slot: int) -> Sequence[bytes]: ...


class OwnRun(ProgramView, Protocol):
    """The run that a player defends. A cheater's run has false data, and the same solver plays it."""

    def run_tree(self, level: int, start: int, end: int) -> Tree | None:
        """Return the run tree of ``(start, end]`` at ``strides[level]`` (docs/protocol.md, section 5)."""
        ...

    def step_tree(self, step: int) -> Tree | None:
        """Return the tree under ``C_step``."""
        ...

    def record(self, step: int, node: int) -> Record | None: ...

    def log_tree(self, step: int) -> Tree | None:
        """Return the tree over the digests of that step's rounding logs; called only in a mode that has them."""
        ...

    def run_log_tree(self) -> Tree | None:
        """Return the tree over the roots of all log trees; the job keeps its root."""
        ...


class OpponentView(Protocol):
    """The other side's run, as far as it is known."""

    def tree(self, tag: Tag, root: bytes, leaves: int) -> Tree | None:
        """Return a whole tree if the opponent serves it, else None."""
        ...

    def children(self) -> Sequence[bytes] | None:
        """Return the half that the opponent has revealed on-chain at the current position, or None."""
        ...

    def record(self, record_hash: bytes) -> Record | None:
        """Return a record that is served or was opened on-chain, or None."""
        ...


Serve = Callable[[Tag, bytes, int], Tree | None]
ServeRecord = Callable[[bytes], Record | None]


class ChainLog:
    """Data that the accepted moves of one match have published since the position changed."""

    def __init__(self) -> None:
        self.children: list[tuple[bytes, ...] | None] = [None, None]
        self.records: dict[bytes, Record] = {}


class LoggedView:
    """The opponent's data from the chain, and from its artifact server if it has one."""

    def __init__(
        self,
        log: ChainLog,
        opponent: int,
        serve: Serve | None = None,
        serve_record: ServeRecord | None = None,
    ) -> None:
        self._log = log
        self._opponent = opponent
        self._serve = serve
        self._serve_record = serve_record

    def tree(self, tag: Tag, root: bytes, leaves: int) -> Tree | None:
        return self._serve(tag, root, leaves) if self._serve else None

    def children(self) -> Sequence[bytes] | None:
        return self._log.children[self._opponent]

    def record(self, record_hash: bytes) -> Record | None:
        known = self._log.records.get(record_hash)
        return known or (self._serve_record(record_hash) if self._serve_record else None)
