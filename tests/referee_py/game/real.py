"""Programs that compute: small graphs of real operators over real tensors, for matches that end in trials."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from random import Random

import numpy as np
from repops.opset import F32
from repops.tensors import canonical

from referee_py.commit import NO_LOG, Record, Tag, Tree, tensor_hash
from referee_py.commit.tensor import Array
from referee_py.program import Operand, Structure, TensorType
from referee_py.program.modes import REPOPS_F32, mode_or_unknown
from referee_py.program.structure import Kind
from referee_py.rounding import Log
from referee_py.rounding.blocks import log_digest
from referee_py.trial.solver import Operator
from tests.referee_py.rounding.logs import log_of
from tests.referee_py.trial.parties import Liar, one_ulp, outputs_of

from .synthetic import Graph, random_rounding, random_strides

SHAPE = (17, 17)
"""Two leaves of data, so that a trial walks a tree; and products of matrices with chains of 17 steps."""
ELEMENTS = SHAPE[0] * SHAPE[1]
BY_INPUTS = {1: ("neg", "sqrt"), 2: ("add", "mul", "mm", "mm")}


@dataclass(frozen=True)
class RealGraph(Graph):
    """A graph of real operators. ``pool`` has each computed tensor by hash. In rounded-f64 most nodes have logs."""

    pool: dict[bytes, Array] = field(default_factory=dict, compare=False, repr=False)
    _computed: dict[tuple[int, tuple[bytes, ...], bytes], bytes] = field(
        default_factory=dict, compare=False, repr=False
    )

    @property
    def lies(self) -> Sequence[int]:
        return (
            (20, 2, 1, 2, 1, 1, 1, 1, 1)
            if mode_or_unknown(self.mode).follows_logs
            else (20, 2, 1, 0, 1, 1, 1, 1, 1)
        )

    @cached_property
    def log_trees(self) -> list[Tree]:
        """NOTE: a trainer can commit to a log of a node that may not have one; nobody checks that."""
        nodes = range(len(self.structures))
        steps = range(1, self.steps + 1)
        return [Tree(Tag.LOG_TREE, [self._node_log(s, n)[0] for n in nodes]) for s in steps]

    @cached_property
    def _logs(self) -> dict[bytes, Log | None]:
        places = [(s, n) for s in range(1, self.steps + 1) for n in range(len(self.structures))]
        return {NO_LOG: None, **dict(self._node_log(*place) for place in places)}

    def log_of(self, digest: bytes) -> Log | None:
        """Return the log of a digest."""
        return self._logs[digest]

    def _node_log(self, step: int, node: int) -> tuple[bytes, Log | None]:
        """Return digest and log: directions and values at random elements, most of them not admissible."""
        rng = Random(repr((self.seed, step, node)))
        if rng.random() < 0.3:
            return NO_LOG, None
        chosen = rng.sample(range(ELEMENTS), 40)
        narrow = {k: rng.random() < 0.5 for k in chosen[:30]}
        log = log_of(ELEMENTS, narrow, {k: float(np.float32(rng.random())) for k in chosen[30:]})
        return log_digest(log), log

    def outputs(self, node: int, inputs: Sequence[bytes], log: bytes) -> tuple[bytes, ...]:
        """Return the operator's outputs, computed if inputs and log are known, else synthetic hashes."""
        key = node, tuple(inputs), log
        if key not in self._computed:
            arrays = [self.pool[given] for given in inputs if given in self.pool]
            if len(arrays) != len(self.operands[node]) or log not in self._logs:
                return super().outputs(node, inputs, log)
            name = Structure.decode(self.structures[node]).name
            with np.errstate(all="ignore"):
                (result,) = outputs_of(name, arrays, {}, self.mode, self._logs[log])
            self._computed[key] = self.keep(result)
        return (self._computed[key],)

    def bent(self, output: bytes, seed: int) -> bytes:
        """Return the output with one element wrong by one ulp; sometimes a hash of nothing."""
        if output not in self.pool or seed % 4 == 0:
            return super().bent(output, seed)
        return self.keep(one_ulp(self.pool[output], seed % self.pool[output].size))

    def keep(self, array: Array) -> bytes:
        array = canonical(np.asarray(array, order="C"))
        found = tensor_hash(array)
        self.pool[found] = array
        return found

    def operator(self, record: Record, *, turn: int | None = None) -> Operator | None:
        """Return the operator's data of a party that claims the record; None if its tensors or its log do not exist.

        With ``turn`` its states are false from that step on.
        """
        hashes = (*record.inputs, *record.outputs)
        if (
            len(record.outputs) != 1
            or record.log not in self._logs
            or any(h not in self.pool for h in hashes)
        ):
            return None
        arrays, log = [self.pool[h] for h in hashes], self._logs[record.log]
        if turn is None:
            return Operator(arrays[:-1], arrays[-1:], log)
        return Liar(arrays[:-1], arrays[-1:], log, turn=turn)


def random_real_graph(rng: Random, *, rounded: bool = False) -> RealGraph:
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
        mode=random_rounding(rng).mode if rounded else REPOPS_F32.byte,
        pool=dict(zip(hashes, tensors, strict=True)),
    )
