"""Plan of a step on many workers: each one's nodes in stages, and the messages between them, from a partition.

    worker 0   stage 0: its micro-batches ──┐   ┌── stage 1: sums, optimizer ──┐   ┌── new weights
                                            ├─X─┤  messages of stage 0         ├─X─┤  messages of stage 1
    worker 1   stage 0: its micro-batches ──┘   └── stage 1: sums, optimizer ──┘   └── new weights

A node is in the lowest stage in which its operands are there: those of the worker's own in the same stage, those of
others one stage later. All that one worker has for another after a stage is one message.

INVARIANT: a message is sent after stage s of its sender and awaited before a later stage of its receiver, and sending
waits for nobody. So by induction over stages no worker waits for ever, whatever the partition is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from referee_py.program import Kind, Operand, Program, SlotSource, TensorType

from .partition import Partition

Output = tuple[int, int]
"""A value of a step: a node, and which of its outputs."""
ALIGNMENT = 64
"""Bytes: the values of a message begin at multiples of a cache line."""


@dataclass(frozen=True)
class Message:
    """Values that one worker sends another after one of its stages; ``number`` tells messages of a step apart."""

    number: int
    sender: int
    receiver: int
    outputs: tuple[Output, ...]
    types: tuple[TensorType, ...]

    @property
    def offsets(self) -> list[int]:
        """The places of the values in the message, and its length in bytes."""
        places = [0]
        for type_ in self.types:
            places.append(places[-1] + -(-type_.nbytes // ALIGNMENT) * ALIGNMENT)
        return places


@dataclass(frozen=True)
class Stage:
    """``nodes`` of a worker, which it computes in this order after ``awaits`` have come and before it ``sends``."""

    nodes: tuple[int, ...]
    awaits: tuple[Message, ...]
    sends: tuple[Message, ...]


@dataclass(frozen=True)
class Part:
    """One worker's part of a step. ``ends`` are messages for the next step: new slots, and metrics for worker 0.

    ``slots`` are those that it needs before a step: those that its nodes read, and those that it owns.
    """

    worker: int
    stages: tuple[Stage, ...]
    ends: tuple[Message, ...]
    slots: tuple[int, ...]

    @property
    def awaits(self) -> list[Message]:
        """All messages that it gets."""
        return [message for stage in self.stages for message in stage.awaits] + list(self.ends)


class Plan:
    """The parts of all workers. ``metrics`` are outputs that worker 0 needs after a step."""

    def __init__(self, program: Program, partition: Partition, metrics: Iterable[SlotSource] = ()) -> None:
        self.program, self.partition = program, partition
        self.metrics = tuple(metrics)
        self._stage: list[dict[int, int]] = []
        self._needs: dict[tuple[Output, int], int | None] = {}
        """The stage of a worker in which it first needs a value of another's; None: after the last."""
        for number in range(len(program.nodes)):
            self._place(number)
        self._readers = _readers(program, partition)
        self._end()
        self.parts = self._parts()

    def slot_owner(self, slot: int) -> int:
        """Return the worker that computes a slot's next value, hashes it and gives it to whoever asks."""
        return self.partition.owner(self.program.slots[slot].node)

    def is_kept(self, slot: int) -> bool:
        """Return whether a slot keeps its value: its next one is only its own in the same shape."""
        node = self.program.nodes[self.program.slots[slot].node]
        return node.name == "reshape" and node.inputs[0] == Operand(Kind.SLOT, slot)

    def _place(self, number: int) -> None:
        homes = self.partition.homes
        stages = dict.fromkeys(homes[number], 0)
        inputs = [operand for operand in self.program.nodes[number].inputs if operand.kind is Kind.NODE]
        for worker in stages:
            for operand in inputs:
                there, source = self._stage[operand.index], homes[operand.index]
                after = there[worker] if worker in there else there[source[0]] + 1
                stages[worker] = max(stages[worker], after)
            for operand in inputs:
                if worker not in homes[operand.index]:
                    self._need((operand.index, operand.output), worker, stages[worker])
        self._stage.append(stages)

    def _need(self, output: Output, worker: int, stage: int | None) -> None:
        before = self._needs.setdefault((output, worker), stage)
        if stage is not None and (before is None or stage < before):
            self._needs[output, worker] = stage

    def _end(self) -> None:
        homes = self.partition.homes
        for slot, source in enumerate(self.program.slots):
            for worker in self._readers[slot] if not self.is_kept(slot) else ():
                if worker not in homes[source.node]:
                    self._need((source.node, source.output), worker, None)
        for source in self.metrics:
            if 0 not in homes[source.node]:
                self._need((source.node, source.output), 0, None)

    def _parts(self) -> tuple[Part, ...]:
        workers, partition = self.partition.workers, self.partition
        sent: dict[tuple[int, int, int], list[Output]] = {}
        for output, receiver in sorted(self._needs, key=lambda need: need[0]):
            sender = partition.owner(output[0])
            sent.setdefault((self._stage[output[0]][sender], sender, receiver), []).append(output)
        sends: list[dict[int, list[Message]]] = [{} for _ in range(workers)]
        awaits: list[dict[int | None, list[Message]]] = [{} for _ in range(workers)]
        for number, (stage, sender, receiver) in enumerate(sorted(sent)):
            outputs = sent[stage, sender, receiver]
            message = Message(number, sender, receiver, tuple(outputs), tuple(map(self._type, outputs)))
            sends[sender].setdefault(stage, []).append(message)
            first = [self._needs[output, receiver] for output in outputs]
            due = min((need for need in first if need is not None), default=None)
            awaits[receiver].setdefault(due, []).append(message)
        return tuple(self._part(worker, sends[worker], awaits[worker]) for worker in range(workers))

    def _part(
        self, worker: int, sends: dict[int, list[Message]], awaits: dict[int | None, list[Message]]
    ) -> Part:
        nodes: dict[int, list[int]] = {}
        for number, at in enumerate(self._stage):
            if worker in at:
                nodes.setdefault(at[worker], []).append(number)
        phase = self.partition.phase
        stages = [
            Stage(
                tuple(sorted(nodes[stage], key=lambda number: (phase[number], number))),
                tuple(awaits.get(stage, ())),
                tuple(sends.get(stage, ())),
            )
            for stage in sorted(nodes)
        ]
        slots = [
            slot
            for slot, readers in enumerate(self._readers)
            if worker in readers or worker == self.slot_owner(slot)
        ]
        return Part(worker, tuple(stages), tuple(awaits.get(None, ())), tuple(slots))

    def _type(self, output: Output) -> TensorType:
        return self.program.nodes[output[0]].outputs[output[1]]


def _readers(program: Program, partition: Partition) -> Sequence[frozenset[int]]:
    """Return for each slot the workers that read it."""
    readers: list[set[int]] = [set() for _ in program.slots]
    for number, node in enumerate(program.nodes):
        for operand in node.inputs:
            if operand.kind is Kind.SLOT:
                readers[operand.index].update(partition.homes[number])
    return [frozenset(found) for found in readers]
