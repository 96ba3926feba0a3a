"""A worker's part of a step, compiled: each stage is a program of its own, whose state is what comes from elsewhere.

    slots of a stage's program     those that the stage updates, which stay in its memory from step to step
                                   values of other stages, messages and other slots, which are written into its memory
    watched outputs                what other stages, other workers and the metrics need

Nothing is copied for a slot that one stage reads and updates, such as a moment of the optimizer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from repops.tensors import NUMPY_DTYPE

from referee_py.commit.tensor import Array
from referee_py.compiled import Buffer, Compiled, Machine
from referee_py.execute import Value
from referee_py.execute.fast import MAX_VALUES
from referee_py.program import (
    Kind,
    Operand,
    Program,
    SlotSource,
    Structure,
    TensorDescriptor,
    TensorType,
)

from .plan import Message, Output, Part, Stage

_UNKNOWN = bytes(32)
"""Hash of a tensor that a stage's program does not commit to."""
Source = tuple[Kind, int, int]
"""A slot or an output from outside a stage, which its program has as a slot."""


def can_compile(program: Program, part: Part) -> bool:
    """Return whether the stages of a part are small enough to compile; if not, they run node by node."""
    nodes = sum(len(stage.nodes) for stage in part.stages)
    return nodes + len(part.slots) + len(program.constants) <= MAX_VALUES


class StageProgram:
    """One stage as a program. ``own`` are the numbers of its slots that it updates, by the whole program's slot."""

    def __init__(self, program: Program, part: Part, stage: Stage, leaving: Iterable[Output]) -> None:
        self._program = program
        here = {number: place for place, number in enumerate(stage.nodes)}
        updated = {slot: program.slots[slot] for slot in part.slots if program.slots[slot].node in here}
        self.sources: dict[Source, int] = {}
        for number in stage.nodes:
            for operand in program.nodes[number].inputs:
                if operand.kind is Kind.SLOT or (operand.kind is Kind.NODE and operand.index not in here):
                    self._source(operand.kind, operand.index, operand.output)
        self.own = {slot: self._source(Kind.SLOT, slot, 0) for slot in updated}
        constants = sorted(
            {
                operand.index
                for number in stage.nodes
                for operand in program.nodes[number].inputs
                if operand.kind is Kind.CONSTANT
            }
        )
        self.constants = constants
        place = {constant: k for k, constant in enumerate(constants)}

        def moved(operand: Operand) -> Operand:
            match operand.kind:
                case Kind.NODE if operand.index in here:
                    return Operand(Kind.NODE, here[operand.index], operand.output)
                case Kind.CONSTANT:
                    return Operand(Kind.CONSTANT, place[operand.index])
                case Kind.STEP:
                    return operand
            return Operand(Kind.SLOT, self.sources[operand.kind, operand.index, operand.output])

        nodes = [
            Structure(node.op, tuple(map(moved, node.inputs)), node.outputs, node.attributes)
            for node in map(program.nodes.__getitem__, stage.nodes)
        ]
        types = [self._type(source) for source in self.sources]
        slots = [SlotSource(-1, 0)] * len(types)
        for slot, source in updated.items():
            slots[self.own[slot]] = SlotSource(here[source.node], source.output)
        for k, type_ in enumerate(types):
            if slots[k].node < 0:  # NOTE: its value stays, so its memory is written by nobody else
                slots[k] = SlotSource(len(nodes), 0)
                nodes.append(Structure.make("reshape", [Operand(Kind.SLOT, k)], [type_], shape=type_.shape))
        self.updates = {(source.node, source.output): slot for slot, source in updated.items()}
        self.watched = {
            output: SlotSource(here[output[0]], output[1])
            for output in leaving
            if output[0] in here and output not in self.updates
        }
        self.program = Program(
            tuple(nodes),
            tuple(slots),
            tuple(program.constants[k] for k in constants),
            tuple(TensorDescriptor(type_, _UNKNOWN) for type_ in types),
        )

    def _source(self, kind: Kind, index: int, output: int) -> int:
        return self.sources.setdefault((kind, index, output), len(self.sources))

    def _type(self, source: Source) -> TensorType:
        return self._program.type_of(Operand(*source))


class CompiledPart:
    """The stages of a part on a machine. ``kept`` are outputs that are read after a step."""

    def __init__(
        self,
        program: Program,
        constants: Sequence[Array],
        machine: Machine,
        part: Part,
        kept: Iterable[Output] = (),
    ) -> None:
        self._program, self._machine, self._part = program, machine, part
        leaving = _leaving(program, part, kept)
        self._stages = {id(stage): StageProgram(program, part, stage, leaving) for stage in part.stages}
        self._compiled = {
            key: Compiled(
                stage.program,
                [constants[k] for k in stage.constants],
                stage.watched.values(),
                machine,
                # NOTE: a kept cast follows its slot's update, and here new weights come from outside.
                keep_casts=False,
            )
            for key, stage in self._stages.items()
        }
        self._leaving = frozenset(leaving)
        self._values: dict[Output, Array] = {}
        self._step = 0

    def load(self, slots: Mapping[int, Value]) -> None:
        """Take the state before the next step."""
        for key, stage in self._stages.items():
            arrays = []
            for kind, index, output in stage.sources:
                if kind is Kind.SLOT:
                    arrays.append(slots[index].array)
                else:
                    type_ = self._program.nodes[index].outputs[output]
                    arrays.append(np.zeros(type_.shape, NUMPY_DTYPE[type_.dtype]))
            self._compiled[key].load(arrays)

    def begin(self, step: int) -> None:
        self._step, self._values = step, {}

    def take(self, message: Message, arrays: Sequence[Array]) -> None:
        """Take the values of a message that has come."""
        for output, array in zip(message.outputs, arrays, strict=True):
            self._give(output, array)

    def run(self, stage: Stage) -> None:
        """Execute a stage."""
        compiled, own = self._compiled[id(stage)], self._stages[id(stage)]
        compiled.run(self._step)
        for output, source in own.watched.items():
            self._give(output, compiled.seen(source))
        for output, slot in own.updates.items():
            if output in self._leaving:
                self._give(output, self._machine.read(compiled.slots[own.own[slot]]))

    def get(self, output: Output) -> Array:
        """Return a value of the step on the host, which is valid until the next step."""
        return self._values[output]

    def end(self) -> None:
        """Finish the step: give new slots to the stages that read them."""
        for slot in self._part.slots:
            source = self._program.slots[slot]
            output = source.node, source.output
            home = next((s for s in self._stages.values() if slot in s.own), None)
            if home is None and output not in self._values:
                continue  # it is kept as it is (`Plan.is_kept`)
            array = self.slot(slot) if home is not None else self._values[output]
            for key, stage in self._stages.items():
                place = stage.sources.get((Kind.SLOT, slot, 0))
                if place is not None and stage is not home:
                    self._machine.write(self._compiled[key].slots[place], array)
        self._values = {}

    def state(self) -> dict[int, Value]:
        """Return copies of the part's slots after the last step."""
        return {slot: Value(self._machine.copied(self._buffer(slot))) for slot in self._part.slots}

    def slot(self, slot: int) -> Array:
        """Return a slot on the host, valid until the next step."""
        return self._machine.read(self._buffer(slot))

    def slot_hash(self, slot: int) -> bytes:
        return self._machine.hash(self._buffer(slot))

    # ------------------------------------------------------------------ inside

    def _give(self, output: Output, array: Array) -> None:
        """Keep a value of this step, and write it where stages read it."""
        self._values[output] = array
        for key, stage in self._stages.items():
            place = stage.sources.get((Kind.NODE, *output))
            if place is not None:
                self._machine.write(self._compiled[key].slots[place], array)

    def _buffer(self, slot: int) -> Buffer:
        """Return the memory that has a slot: of the stage that updates it, or else of one that reads it."""
        for key, stage in self._stages.items():
            if slot in stage.own:
                return self._compiled[key].slots[stage.own[slot]]
        for key, stage in self._stages.items():
            place = stage.sources.get((Kind.SLOT, slot, 0))
            if place is not None:
                return self._compiled[key].slots[place]
        raise AssertionError(f"slot {slot} is in no stage")


def _leaving(program: Program, part: Part, kept: Iterable[Output]) -> list[Output]:
    """Return the outputs of a part's stages that are read outside their stage, in order."""
    found: dict[Output, None] = dict.fromkeys(kept)
    where = {number: at for at, stage in enumerate(part.stages) for number in stage.nodes}
    for at, stage in enumerate(part.stages):
        for message in stage.sends:
            found |= dict.fromkeys(message.outputs)
        for number in stage.nodes:
            for operand in program.nodes[number].inputs:
                if operand.kind is Kind.NODE and where.get(operand.index, at) != at:
                    found[operand.index, operand.output] = None
    return sorted(found)
