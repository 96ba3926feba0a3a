"""Jobs of a few nodes around one operator: its inputs are constants, slots and copies by earlier nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
from repops.host import cpu, exact, tensor_core
from repops.opset import F32
from repops.tensors import Array, canonical

from referee_py.commit import NO_LOG, Record, tensor_hash
from referee_py.commit.tensor import typed_hash
from referee_py.program import Kind, Operand, SlotSource, Structure, TensorType, validate
from referee_py.program.modes import EXACT, REPOPS_F32, TC16, mode_or_unknown
from referee_py.program.skeleton import Skeleton
from referee_py.rounding import Log, Rounding
from referee_py.rounding.blocks import log_digest
from referee_py.rounding.truth import truth
from referee_py.trial.solver import Operator
from tests.referee_py.game.real import RealGraph
from tests.referee_py.game.synthetic import Graph, value
from tests.referee_py.rounding.logs import log_of
from tests.referee_py.trial.parties import Liar, one_ulp, structure_of

MAX_LOG_ENTRIES = 600


@dataclass(frozen=True)
class CaseGraph(RealGraph):
    """A program about one operator, which is its last node."""

    opaque: dict[bytes, bytes] = field(default_factory=dict, compare=False, repr=False)
    """Data roots without data, by the tensor hash that somebody claims."""
    _outputs: dict[Any, tuple[bytes, ...]] = field(default_factory=dict, compare=False, repr=False)
    _node_logs: dict[tuple[int, int], Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def node(self) -> int:
        """Number of the operator's node."""
        return len(self.structures) - 1

    def structure_at(self, node: int) -> Structure:
        return Structure.decode(self.structures[node])

    def outputs(self, node: int, inputs: Sequence[bytes], log: bytes) -> tuple[bytes, ...]:
        key = node, tuple(inputs), log
        if key not in self._outputs:
            arrays = [self.pool[given] for given in inputs if given in self.pool]
            if len(arrays) != len(self.operands[node]) or log not in self._logs:
                return Graph.outputs(self, node, inputs, log)
            structure = self.structure_at(node)
            # NOTE: by kernels, since the readable reference visits all taps of a window, even outside the plane.
            if self.mode == REPOPS_F32.byte:
                results = cpu.execute(structure.name, arrays, structure.attrs)
            elif self.mode == TC16.byte:
                results = tensor_core.execute(structure.name, arrays, structure.attrs)
            elif self.mode == EXACT.byte:
                results = exact.execute(structure.name, arrays, structure.attrs)
            else:
                results = truth(
                    structure.name, arrays, structure.attrs, self._logs[log], Rounding.of(self.mode)
                )
            self._outputs[key] = tuple(self.keep(result) for result in results)
        return self._outputs[key]

    def bent(self, output: bytes, seed: int) -> bytes:
        """Change one element by one ulp; for an empty tensor, or sometimes, return a hash over data that nobody has."""
        if output not in self.pool:
            return value("bent", output, seed)
        array = self.pool[output]
        if array.size and seed % 5:
            return self.keep(one_ulp(array, seed % array.size))
        kind, root = TensorType.of(array), value("opaque", seed)
        found = typed_hash(kind.dtype, kind.shape, root)
        self.opaque[found] = root
        return found

    def operator(self, record: Record, *, turn: int | None = None) -> Operator | None:
        if record.log not in self._logs or any(h not in self.pool for h in (*record.inputs, *record.outputs)):
            return None
        inputs, outputs = ([self.pool[h] for h in hashes] for hashes in (record.inputs, record.outputs))
        log = self._logs[record.log]
        return Operator(inputs, outputs, log) if turn is None else Liar(inputs, outputs, log, turn=turn)

    def _node_log(self, step: int, node: int) -> tuple[bytes, Log | None]:
        """Return the log of the operator, if it has one output of f32; directions and values anywhere in it."""
        key = step, node
        if key not in self._node_logs:
            self._node_logs[key] = self._made_log(step, node)
        return self._node_logs[key]

    def _made_log(self, step: int, node: int) -> tuple[bytes, Log | None]:
        kinds = self.structure_at(node).outputs
        logged = node == self.node and len(kinds) == 1 and kinds[0].dtype == F32
        if not logged or not kinds[0].count or self.seed % 2:
            return NO_LOG, None
        rng = Random(repr((self.seed, step)))
        chosen = rng.sample(range(kinds[0].count), min(kinds[0].count, MAX_LOG_ENTRIES))
        half = len(chosen) // 2
        written = {k: float(np.float32(rng.random())) for k in chosen[:half]}
        log = log_of(kinds[0].count, {k: rng.random() < 0.5 for k in chosen[half:]}, written)
        return log_digest(log), log


def graph_of(
    name: str, inputs: Sequence[Array], attrs: dict[str, Any], mode: int, random: Random
) -> CaseGraph:
    """Make a job of one to three steps. Raises InvalidProgram or Unplayable if `validate` refuses the program."""
    arrays = [canonical(np.asarray(array, order="C")) for array in inputs]
    steps = random.choice((1, 1, 2, 3))
    constants, initial, nodes = list[Array](), list[Array](), list[Structure]()
    slots, operands = list[SlotSource](), list[Operand]()
    copies: dict[bytes, Operand] = {}
    for array in arrays:
        key = tensor_hash(array)
        if key not in copies:
            copies[key] = _source(array, constants, initial, nodes, slots, random.random())
        operands.append(copies[key])
    bare = structure_of(name, arrays, attrs)
    nodes.append(Structure(bare.op, tuple(operands), bare.outputs, bare.attributes))
    fixed, first = (tuple(map(TensorType.of, tensors)) for tensors in (constants, initial))
    validate(Skeleton(tuple(nodes), tuple(slots), fixed, first))
    tensors = {tensor_hash(array): array for array in (*constants, *initial)}
    return CaseGraph(
        seed=random.randrange(1 << 30),
        structures=tuple(node.encode() for node in nodes),
        slots=tuple((slot.node, slot.output) for slot in slots),
        constants=tuple(map(tensor_hash, constants)),
        initial=tuple(map(tensor_hash, initial)),
        steps=steps,
        strides=random.choice(((1,), (2, 1))),
        mode=mode,
        pool=tensors,
    )


def _source(
    array: Array,
    constants: list[Array],
    initial: list[Array],
    nodes: list[Structure],
    slots: list[SlotSource],
    kind: float,
) -> Operand:
    """Return a constant, a node's copy of a constant, or a slot that copies itself."""
    if kind < 0.25 and len(nodes) < 4:
        initial.append(array)
        slot = Operand(Kind.SLOT, len(initial) - 1)
        nodes.append(_copy(array, slot))
        slots.append(SlotSource(len(nodes) - 1, 0))
        return slot
    constants.append(array)
    constant = Operand(Kind.CONSTANT, len(constants) - 1)
    if kind > 0.7 and len(nodes) < 4:
        nodes.append(_copy(array, constant))
        return Operand(Kind.NODE, len(nodes) - 1)
    return constant


def _copy(array: Array, source: Operand) -> Structure:
    return Structure.make("reshape", [source], [TensorType.of(array)], shape=array.shape)


def rounded(graph: Graph) -> bool:
    """Return whether the runs of this graph have logs."""
    return mode_or_unknown(graph.mode).follows_logs
