"""Programs that compute: small graphs of real operators over real tensors, for matches that end in trials."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

import numpy as np
from repops import reference
from repops.opset import F32
from repops.tensors import canonical

from referee_py.commit import Record, tensor_hash
from referee_py.commit.tensor import Array
from referee_py.program import Operand, Structure, TensorType
from referee_py.program.structure import Kind
from referee_py.trial.solver import Operator
from tests.referee_py.trial.parties import Liar, one_ulp

from .synthetic import Graph, random_strides

SHAPE = (17, 17)
"""Two leaves of data, so that a trial has a tree to walk; and chains of 17 steps where matrices are multiplied."""
BY_INPUTS = {1: ("neg", "sqrt"), 2: ("add", "mul", "mm", "mm")}


@dataclass(frozen=True)
class RealGraph(Graph):
    """Every tensor that anybody has computed is in the pool, by its hash."""

    pool: dict[bytes, Array] = field(default_factory=dict, compare=False, repr=False)
    _computed: dict[tuple[int, tuple[bytes, ...]], bytes] = field(
        default_factory=dict, compare=False, repr=False
    )

    @property
    def lies(self) -> Sequence[int]:
        return (20, 2, 1, 0, 1, 1, 1, 1, 1)

    def outputs(self, node: int, inputs: Sequence[bytes], log: bytes) -> tuple[bytes, ...]:
        """What the operator gives; of inputs that nobody has computed, nothing that anybody has."""
        key = node, tuple(inputs)
        if key not in self._computed:
            arrays = [self.pool[given] for given in inputs if given in self.pool]
            if len(arrays) != len(self.operands[node]):
                return super().outputs(node, inputs, log)
            with np.errstate(all="ignore"):
                (result,) = reference.execute(Structure.decode(self.structures[node]).name, arrays, {})
            self._computed[key] = self.keep(result)
        return (self._computed[key],)

    def bent(self, output: bytes, seed: int) -> bytes:
        """One element wrong by one ulp; sometimes nothing that anybody has computed."""
        if output not in self.pool or seed % 4 == 0:
            return super().bent(output, seed)
        return self.keep(one_ulp(self.pool[output], seed % self.pool[output].size))

    def keep(self, array: Array) -> bytes:
        array = canonical(np.asarray(array, order="C"))
        found = tensor_hash(array)
        self.pool[found] = array
        return found

    def operator(self, record: Record, *, turn: int | None = None) -> Operator | None:
        """The operator as whoever claims that record has it; None if its tensors have not been computed.

        With ``turn`` its states are false from that step on.
        """
        hashes = (*record.inputs, *record.outputs)
        if len(record.outputs) != 1 or any(h not in self.pool for h in hashes):
            return None
        arrays = [self.pool[h] for h in hashes]
        return (
            Operator(arrays[:-1], arrays[-1:]) if turn is None else Liar(arrays[:-1], arrays[-1:], turn=turn)
        )


def random_real_graph(rng: Random) -> RealGraph:
    nodes, slots, constants = rng.randint(1, 5), rng.randint(1, 2), rng.randint(0, 2)
    steps = rng.randint(1, 4)
    seed = rng.randrange(1 << 30)
    tensors = np.random.default_rng(seed).standard_normal((slots + constants, *SHAPE)).astype(np.float32)
    structures = []
    for node in range(nodes):
        sources = [Operand(Kind.SLOT, k) for k in range(slots)]
        sources += [Operand(Kind.CONSTANT, k) for k in range(constants)]
        sources += [Operand(Kind.NODE, k) for k in range(node)] * 2
        operands = rng.choices(sources, k=rng.choice((1, 2, 2, 2)))
        name = rng.choice(BY_INPUTS[len(operands)])
        structures.append(Structure.make(name, operands, [TensorType(F32, SHAPE)]).encode())
    hashes = [tensor_hash(tensor) for tensor in tensors]
    return RealGraph(
        seed=seed,
        structures=tuple(structures),
        slots=tuple((rng.randrange(nodes), 0) for _ in range(slots)),
        constants=tuple(hashes[slots:]),
        initial=tuple(hashes[:slots]),
        steps=steps,
        strides=random_strides(rng, steps),
        pool=dict(zip(hashes, tensors, strict=True)),
    )
