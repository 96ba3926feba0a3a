"""A claimed run, seen through what its claimants serve: run tree, checkpoints, slots, rounding logs.

    root ─> run tree ─> C_k ─> step tree ─> records of the nodes that write the slots ─> slots

INVARIANT: nothing is used that does not lead to the claim's root; whoever serves the bytes can only withhold them.

NOTE: so bytes that lead to the root and cannot be of the program (`Malformed`) are the claim's fault, not a server's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from referee_py.commit import Record, Tag, Tree
from referee_py.commit.tensor import Array
from referee_py.errors import Unavailable
from referee_py.program import Program, SlotSource, TensorType
from referee_py.program.terms import Terms
from referee_py.rounding.step_log import StepLog

from ..errors import Malformed
from ..network.sources import Source
from ..run.package import MAX_HEADER_BYTES, Package, check_leaves, load
from ..storage.artifacts import MAX_RECORD_BYTES, Kind, Name, decode_tensor
from ..storage.stored_tree import StoredTree

LOGS_AHEAD = 64
"""Steps whose rounding logs are asked for before the next look at a budget."""


class ClaimedRun:
    """The run of a program that a root claims. Raises Unavailable for what nobody serves, InvalidProgram for more
    intervals than a run may have.

    ``program_file`` is the hash of the program's file; ``logs`` the root of its rounding logs in a mode with them.

    SAFETY: strangers say how many intervals it has, and how many runs are claimed. So its trees stay in the store, and
    what waits for a stranger or for the processors holds some kilobytes of them.
    """

    def __init__(
        self, source: Source, terms: Terms, program: Program, program_file: bytes, root: bytes, logs: bytes
    ) -> None:
        self.source, self.terms, self.program = source, terms, program
        self.root, self.logs = root, logs
        self._program_file = program_file
        check_leaves(terms)
        self.count = -(-terms.steps // terms.strides[0])
        """The number of intervals."""
        try:
            self.tree = source.stored_tree(Tag.RUN_TREE, root, self.count)
        except Unavailable as error:
            raise Unavailable(
                f"nobody serves the run tree of the claimed root {root.hex()}, so nothing can be checked: {error}"
            ) from error
        self._log_tree: StoredTree | None = None

    @property
    def identity(self) -> str:
        """The claim as 64 hexadecimal digits: SHA-256 of "Assay claim 1" ‖ program hash ‖ run root ‖ logs.

        SAFETY: a root alone is not a claim. The same root can be claimed of another program, or with other logs.
        """
        return hashlib.sha256(b"Assay claim 1" + self.terms.hash() + self.root + self.logs).hexdigest()

    def span(self, interval: int) -> tuple[int, int]:
        """Return `(start, end]` of an interval, counted from 1."""
        stride = self.terms.strides[0]
        return (interval - 1) * stride, min(interval * stride, self.terms.steps)

    def package(self, max_memory: int) -> Package:
        """Return the program with its tensors. Raises InvalidProgram for one that needs more memory."""
        return load(self.source, self.terms, self._program_file, max_memory)

    def step_tree(self, root: bytes) -> Tree:
        return self.source.tree(Tag.STEP_TREE, root, self.terms.node_count)

    def slot_records(self, interval: int) -> dict[int, Record]:
        """Return the records of the nodes that write the slots at the end of an interval, by node. Raises Malformed."""
        tree = self.step_tree(self.tree.leaves[interval - 1])
        names = {slot.node: Name(Kind.RECORD, tree.leaves[slot.node]) for slot in self.program.slots}
        self.source.ahead(list(names.values()), MAX_RECORD_BYTES)
        records = {}
        for node, name in names.items():
            record = Record.decode(bytes(self.source.once(name, MAX_RECORD_BYTES)))
            structure = self.program.nodes[node]
            counts = len(structure.inputs), len(structure.outputs)
            if record.structure != structure.hash() or (len(record.inputs), len(record.outputs)) != counts:
                raise Malformed(
                    f"step {self.span(interval)[1]}: the record of node {node} has the structure "
                    f"{record.structure.hex()[:8]}, {len(record.inputs)} inputs and {len(record.outputs)} outputs; the "
                    f"program has {structure.hash().hex()[:8]}, {counts[0]} and {counts[1]} there"
                )
            records[node] = record
        return records

    def slot_arrays(self, interval: int) -> Iterator[Array]:
        """Yield the slots at the end of an interval, from the records under its checkpoint. Raises Malformed."""
        records = self.slot_records(interval)
        names = [self._tensor(records, slot) for slot in self.program.slots]
        types = [descriptor.type for descriptor in self.program.initial]
        self.source.ahead(names, max((kind.nbytes for kind in types), default=0) + MAX_HEADER_BYTES)
        for number, (name, kind) in enumerate(zip(names, types, strict=True)):
            array = decode_tensor(self.source.once(name, kind.nbytes + MAX_HEADER_BYTES))
            if (found := TensorType.of(array)) != kind:
                raise Malformed(
                    f"step {self.span(interval)[1]}: slot {number} is {found}, in the program it is {kind}"
                )
            yield array

    def slots(self, interval: int) -> list[Array]:
        """Return the slots at the end of an interval. Raises as `slot_arrays`."""
        return list(self.slot_arrays(interval))

    def bring_state(self, interval: int) -> Iterator[None]:
        """Bring the slots at the end of an interval, and see that they can be of the program. Yields after each part,
        for a look at a budget. Raises Unavailable, Malformed. NOTE: interval 0 needs nothing."""
        if interval:
            self.slot_records(interval)
            yield
            # SAFETY: one tensor at a time is in memory, besides those of a run that is computed meanwhile.
            for _ in self.slot_arrays(interval):
                pass
            yield

    def bring(self, interval: int, max_log_bytes: int) -> Iterator[None]:
        """Bring what a replay of an interval needs: the state before it, and its rounding logs. As `bring_state`."""
        start, end = self.span(interval)
        yield from self.bring_state(interval - 1)
        if self.terms.arithmetic.follows_logs:
            for first in range(start + 1, end + 1, LOGS_AHEAD):
                steps = range(first, min(first + LOGS_AHEAD, end + 1))
                self.source.ahead([self._log_name(step) for step in steps], max_log_bytes)
                yield

    def names(self, interval: int) -> list[Name]:
        """Return the artifacts that a replay of an interval rests on, once they are here (`bring`)."""
        start, end = self.span(interval)
        found = [Name(Kind.TREE, self.root, Tag.RUN_TREE, self.count)]
        if start:
            records = self.slot_records(interval - 1)
            before = self.tree.leaves[interval - 2]
            found.append(Name(Kind.TREE, before, Tag.STEP_TREE, self.terms.node_count))
            found += [Name(Kind.RECORD, record.hash()) for record in records.values()]
            found += [self._tensor(records, slot) for slot in self.program.slots]
        if self.terms.arithmetic.follows_logs:
            found.append(Name(Kind.TREE, self.logs, Tag.LOG_RUN_TREE, self.terms.steps))
            found += [self._log_name(step) for step in range(start + 1, end + 1)]
        return list(dict.fromkeys(found))

    def refined(self, start: int, end: int, stride: int, last: bytes) -> Tree:  # noqa: ARG002
        """Return the claim's run tree of `(start, end]` at a finer stride, whose last leaf is `last`."""
        raise Unavailable(f"no run tree of steps {start + 1} to {end} at stride {stride} is published")

    def run_log_tree(self) -> Tree:
        """Return the tree over the roots of all steps' rounding logs."""
        return self.source.tree(Tag.LOG_RUN_TREE, self.logs, self.terms.steps)

    def log(self, step: int, max_bytes: int) -> StepLog:
        """Return the rounding logs of a step, counted from 1."""
        return self.source.log(self._log_name(step).hash, self.terms.node_count, max_bytes)

    def _log_name(self, step: int) -> Name:
        if self._log_tree is None:
            self._log_tree = self.source.stored_tree(Tag.LOG_RUN_TREE, self.logs, self.terms.steps)
        return Name(Kind.LOG, self._log_tree.leaves[step - 1], count=self.terms.node_count)

    def _tensor(self, records: dict[int, Record], slot: SlotSource) -> Name:
        return Name(Kind.TENSOR, records[slot.node].outputs[slot.output])
