"""Placement of a program's nodes on workers: a pure function of the program and the number of workers.

one micro-batch   its owner; owners have contiguous ranges of micro-batches, so sums within a range stay there
several owners    the owner of the slot that the node leads to: gradients' sums, optimizer, running statistics
none              whoever needs the value computes it: casts of weights, masks of dropout, rates of a schedule

Slots and what is as large as they are form groups (a weight, its gradient's sum, its moments), which are dealt out by
bytes: the optimizer's state is shared among the workers, as in ZeRO stage 1.

INVARIANT: operators are functions of their operands, so every partition gives the same bits, and only speed depends on
it. So it is no part of a program, and a wrong guess about its micro-batches harms nobody.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from referee_py.errors import InvalidInput
from referee_py.program import Kind, Program

from .micro_batches import Marks, marks_of, parts_of


@dataclass(frozen=True)
class Partition:
    """A program's nodes on ``workers`` workers.

    ``homes[n]`` are the workers that compute node n: the first owns it, that is hashes it, and sends its outputs to
    those who need them and do not compute it. A worker computes its nodes by ascending ``phase``, and in the program's
    order within one. INVARIANT: no node has a lower phase than its operands.
    """

    workers: int
    homes: tuple[tuple[int, ...], ...]
    phase: tuple[int, ...]

    def owner(self, node: int) -> int:
        return self.homes[node][0]


def owner_of_part(part: int, parts: int, workers: int) -> int:
    """Return the worker that owns a micro-batch: ranges are contiguous, and their lengths differ by at most one."""
    return part * workers // parts


def partition_of(program: Program, workers: int, *, replicate: bool = True) -> Partition:
    """Return the partition of a validated program. ``replicate`` False: no node is computed twice.

    Raises InvalidInput if the program has fewer micro-batches than there are workers.
    """
    marks = checked_marks(program, workers)
    placed = _Placed(program, marks, workers)
    homes = _homes(program, placed.rank, replicate)
    return Partition(workers, homes, _phases(program, marks.masks))


def checked_marks(program: Program, workers: int) -> Marks:
    """Return a program's micro-batches. Raises InvalidInput if there are fewer than workers."""
    marks = marks_of(program)
    if not 1 <= workers <= marks.count:
        if marks.count == 1:
            raise InvalidInput(
                f"{workers} workers for a program without micro-batches, which one process computes; use 1, or build "
                f"the program with micro_batches={max(workers, 2)} or more"
            )
        raise InvalidInput(
            f"{workers} workers for a program of {marks.count} micro-batches; use 1 to {marks.count} workers, or build "
            f"the program with micro_batches={workers} or more"
        )
    return marks


class _Placed:
    """The rank of every node that depends on a micro-batch; None for all others."""

    def __init__(self, program: Program, marks: Marks, workers: int) -> None:
        self._program, self._workers = program, workers
        self.rank: list[int | None] = []
        self._joined: list[bool] = []
        for mask in marks.masks:
            ranks = {owner_of_part(part, marks.count, workers) for part in parts_of(mask)}
            self._joined.append(len(ranks) > 1)
            self.rank.append(ranks.pop() if len(ranks) == 1 else None)
        self._group = list(range(len(program.nodes)))
        self._deal(self._groups())
        self._follow()

    def _groups(self) -> dict[int, int]:
        """Join equally large nodes that depend on each other. Return the bytes of the slots of each group that has
        some."""
        for number, node in enumerate(self._program.nodes):
            size = node.outputs[0].count
            for operand in node.inputs if self._joined[number] and size > 1 else ():
                joined = operand.kind is Kind.NODE and self._joined[operand.index]
                if joined and self._program.type_of(operand).count == size:
                    self._group[self._find(number)] = self._find(operand.index)
        sizes: dict[int, int] = {}
        for source, tensor in zip(self._program.slots, self._program.initial, strict=True):
            if self._joined[source.node]:
                group = self._find(source.node)
                sizes[group] = sizes.get(group, 0) + tensor.type.nbytes
        return sizes

    def _find(self, node: int) -> int:
        while self._group[node] != node:
            self._group[node] = self._group[self._group[node]]
            node = self._group[node]
        return node

    def _deal(self, sizes: dict[int, int]) -> None:
        """Give each group to the worker with the fewest bytes, the largest group first."""
        held = [0] * self._workers
        owner: dict[int, int] = {}
        for group in sorted(sizes, key=lambda group: (-sizes[group], group)):
            owner[group] = held.index(min(held))
            held[owner[group]] += sizes[group]
        for number, joined in enumerate(self._joined):
            if joined:
                self.rank[number] = owner.get(self._find(number))

    def _follow(self) -> None:
        """Place what leads to no slot of its size (a loss, a norm) where its largest operand is."""
        for number, node in enumerate(self._program.nodes):
            if not self._joined[number] or self.rank[number] is not None:
                continue
            there = [o for o in node.inputs if o.kind is Kind.NODE and self.rank[o.index] is not None]
            largest = max(there, key=lambda operand: self._program.type_of(operand).nbytes)
            self.rank[number] = self.rank[largest.index]


def _homes(program: Program, rank: Sequence[int | None], replicate: bool) -> tuple[tuple[int, ...], ...]:
    needed: list[set[int]] = [set() if r is None else {r} for r in rank]
    sources = {slot.node for slot in program.slots}
    for number in reversed(range(len(program.nodes))):
        if rank[number] is None and (not needed[number] or number in sources):
            needed[number].add(0)  # nobody reads it, or a slot that no micro-batch changes
        if rank[number] is None and not replicate:
            needed[number] = {min(needed[number])}
        for operand in program.nodes[number].inputs:
            if operand.kind is Kind.NODE and rank[operand.index] is None:
                needed[operand.index] |= needed[number]
    return tuple(tuple(sorted(homes)) for homes in needed)


def _phases(program: Program, masks: Sequence[int]) -> tuple[int, ...]:
    """Return the last micro-batch that a node depends on, so that a worker computes one after the other; for nodes that
    depend on none, that of their first reader, or after all others if nobody reads them."""
    last = max(mask.bit_length() for mask in masks)
    phase = [mask.bit_length() if mask else last for mask in masks]
    for number in reversed(range(len(program.nodes))):
        for operand in program.nodes[number].inputs:
            if operand.kind is Kind.NODE and not masks[operand.index]:
                phase[operand.index] = min(phase[operand.index], phase[number])
    return tuple(phase)
