"""What a player knows: its own run, the program, and the opponent's run as far as it was published.

Own data may be missing (a liar has none beneath an invented root); then the answer is None and the solver does
without. Nothing of the opponent's is trusted: the solver checks every hash against the chain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from ..commit import Record, Tag, Tree
from .state import MatchState, Move, OpenRecord, Reveal


class ProgramView(Protocol):
    """The public data of the job's program, with proofs under its on-chain roots."""

    def structure(self, node: int) -> bytes: ...

    def structure_path(self, node: int) -> Sequence[bytes]: ...

    def slot_source(self, slot: int) -> tuple[int, int]:
        """Node and output that update the slot."""
        ...

    def slot_path(self, slot: int) -> Sequence[bytes]: ...

    def constant_hash(self, constant: int) -> bytes: ...

    def constant_path(self, constant: int) -> Sequence[bytes]: ...

    def initial_hash(self, slot: int) -> bytes: ...

    def initial_path(self, slot: int) -> Sequence[bytes]: ...


class OwnRun(ProgramView, Protocol):
    """The run a player stands for. A cheater's run lies, and is played by the same solver."""

    def run_tree(self, level: int, start: int, end: int) -> Tree | None:
        """The run tree of ``(start, end]`` at ``strides[level]`` (section 5)."""
        ...

    def step_tree(self, step: int) -> Tree | None:
        """The tree under ``C_step``."""
        ...

    def record(self, step: int, node: int) -> Record | None: ...

    def log_tree(self, step: int) -> Tree | None:
        """The tree over the digests of that step's rounding logs; only asked for in a mode that has them."""
        ...

    def run_log_tree(self) -> Tree | None:
        """The tree over the roots of all step logs, whose root the job has."""
        ...


class OpponentView(Protocol):
    """What is known of the other side's run."""

    def tree(self, tag: Tag, root: bytes, leaves: int) -> Tree | None:
        """A whole tree as the opponent serves it, if it does."""
        ...

    def children(self) -> Sequence[bytes] | None:
        """The half that the opponent has revealed on-chain at the current position."""
        ...

    def record(self, record_hash: bytes) -> Record | None:
        """A record, served or opened on-chain."""
        ...


Serve = Callable[[Tag, bytes, int], Tree | None]
ServeRecord = Callable[[bytes], Record | None]


class ChainLog:
    """What the accepted moves of one match have published, fed to it in order."""

    def __init__(self) -> None:
        self.children: list[tuple[bytes, ...] | None] = [None, None]
        self.records: dict[bytes, Record] = {}

    def observe(self, before: MatchState, move: Move, after: MatchState) -> None:
        """Take note of an accepted move and the states around it."""
        match move:
            case Reveal():
                self.children[move.side] = move.children
            case OpenRecord():
                self.records[before.node[move.side]] = move.record
        if (before.root, before.height, before.index) != (after.root, after.height, after.index):
            self.children = [None, None]


class LoggedView:
    """The opponent as the chain shows it, and as its artifact server does if there is one."""

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
