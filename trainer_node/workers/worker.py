"""One worker of a run: its state, and its part of each step over a channel.

load     the state before a step, from worker 0
step     a plain step, compiled where that is possible
commit   a step node by node, with the hashes of the nodes that this worker owns
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from repops.host.memory import allocate
from repops.tensors import NUMPY_DTYPE

from referee_py.commit.tensor import Array
from referee_py.execute import Backend, Value, machine_for
from referee_py.program import Program, TensorType

from .by_node import ByNode, Hashes
from .channel import Channel, Pending
from .compiled import CompiledPart, can_compile
from .plan import Message, Output, Plan

FIRST_MESSAGE = 16
"""Number of a plan's message 0 on the channel; lower ones are for commands (`commands`)."""


@dataclass(frozen=True)
class _Letter:
    """The memory of a message, and its values in it."""

    data: Array
    views: tuple[Array, ...]

    @classmethod
    def of(cls, message: Message) -> _Letter:
        offsets = message.offsets
        data = allocate((max(offsets[-1], 1),), np.dtype(np.uint8), offsets[-1])
        views = (view(data, offset, type_) for offset, type_ in zip(offsets, message.types, strict=False))
        return cls(data, tuple(views))


def view(data: Array, offset: int, type_: TensorType) -> Array:
    """Return the tensor of a type at an offset of bytes, u8 [n]."""
    if not type_.count:
        return np.empty(type_.shape, NUMPY_DTYPE[type_.dtype])
    return np.ndarray(type_.shape, NUMPY_DTYPE[type_.dtype], data, offset)


class Worker:
    """The worker ``channel.rank`` of a plan. The caller has checked the constants against the program.

    ``backend`` computes its nodes, one by one without ``compiles``. Two threads must not use one object.
    """

    def __init__(
        self,
        plan: Plan,
        constants: Sequence[Array],
        backend: Backend,
        channel: Channel,
        compiles: bool = True,
    ) -> None:
        self.plan, self.channel = plan, channel
        self.part = plan.parts[channel.rank]
        self._constants, self._backend, self._compiles = constants, backend, compiles
        self._kept = [(source.node, source.output) for source in plan.metrics] if channel.rank == 0 else []
        self._nodes = ByNode(plan.program, constants, backend, self.part, self._kept)
        self._letters = {
            message.number: _Letter.of(message)
            for message in (*self.part.awaits, *(m for stage in self.part.stages for m in stage.sends))
        }
        self.owned = frozenset(
            number
            for stage in self.part.stages
            for number in stage.nodes
            if plan.partition.owner(number) == channel.rank
        )
        self.metrics: dict[Output, Array] = {}
        """On worker 0: the metrics of the last step."""
        self._is_compiled = False
        """True if the compiled part has the state, and not `_nodes`."""

    @property
    def program(self) -> Program:
        return self.plan.program

    @cached_property
    def compiled(self) -> CompiledPart | None:
        """The compiled part; None if all steps run node by node."""
        machine = machine_for(self._backend) if self._compiles else None
        if machine is None or not can_compile(self.program, self.part):
            return None
        return CompiledPart(self.program, self._constants, machine, self.part, self._kept)

    # ------------------------------------------------------------------ the state

    def load(self, slots: dict[int, Value]) -> None:
        """Take the state before the next step: a value for each of ``part.slots``."""
        self._nodes.load(slots)
        self._is_compiled = False

    def slot(self, slot: int) -> Array:
        """Return a slot after the last step, valid until the next one."""
        if self._is_compiled and self.compiled is not None:
            return self.compiled.slot(slot)
        return self._nodes.slots[slot].array

    def slot_hash(self, slot: int) -> bytes:
        """Return the TENSOR hash of a slot after the last step."""
        if self._is_compiled and self.compiled is not None:
            return self.compiled.slot_hash(slot)
        return self._nodes.slots[slot].hash()

    # ------------------------------------------------------------------ steps

    def step(self, number: int) -> None:
        """Compute a plain step. Raises WorkerLost."""
        if self.compiled is None:
            self._run(number, self._nodes, None)
            return
        if not self._is_compiled:
            self.compiled.load(self._nodes.slots)
            self._nodes.load({})
            self._is_compiled = True
        self._run(number, self.compiled, None)

    def commit(self, number: int) -> Hashes:
        """Compute a step node by node; return the hashes of the nodes that this worker owns. Raises WorkerLost."""
        if self._is_compiled and self.compiled is not None:
            self._nodes.load(self.compiled.state())
            self._is_compiled = False
        hashes: Hashes = {}
        self._run(number, self._nodes, hashes)
        return hashes

    def operands(self, node: int) -> list[Array]:
        """Return the operands of a node in the last step, which was committed to (`ByNode.operands`)."""
        return self._nodes.operands(node)

    def outputs(self, node: int, step: int, operands: Sequence[Array]) -> tuple[bytes, ...]:
        """Return the hashes of a node's outputs, computed here from another worker's operands."""
        return self._nodes.outputs(node, step, operands)

    def _run(self, number: int, part: ByNode | CompiledPart, hashes: Hashes | None) -> None:
        coming = {
            message.number: self.channel.receive(
                message.sender, self._letters[message.number].data, FIRST_MESSAGE + message.number
            )
            for message in self.part.awaits
        }
        leaving: list[Pending] = []
        part.begin(number)
        for stage in self.part.stages:
            for message in stage.awaits:
                self._await(message, coming, part)
            if isinstance(part, CompiledPart) or hashes is None:
                part.run(stage)
            else:
                hashes.update(part.run(stage, self.owned))
            leaving += [self._send(message, part) for message in stage.sends]
        for message in self.part.ends:
            self._await(message, coming, part)
        self.metrics = {output: np.array(part.get(output)) for output in self._kept}
        part.end()
        for pending in leaving:
            pending.wait()

    def _await(self, message: Message, coming: dict[int, Pending], part: ByNode | CompiledPart) -> None:
        coming[message.number].wait()
        part.take(message, self._letters[message.number].views)

    def _send(self, message: Message, part: ByNode | CompiledPart) -> Pending:
        letter = self._letters[message.number]
        for output, place in zip(message.outputs, letter.views, strict=True):
            np.copyto(place, part.get(output))
        return self.channel.send(message.receiver, letter.data, FIRST_MESSAGE + message.number)
