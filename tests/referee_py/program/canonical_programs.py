"""Programs for the canonical form: random programs with superfluous nodes, and reorderings of a program."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np
import repops
from repops.fuse.phases import ELEMENTWISE
from repops.opset import BOOL, F32, I64, Dtype

from referee_py.commit.tensor import Array
from referee_py.execute import Backend, Interpreter, State
from referee_py.program import (
    Kind,
    Operand,
    Program,
    SlotSource,
    Structure,
    TensorDescriptor,
    TensorType,
    validate,
)
from referee_py.program.canonical import canonical_program, canonical_skeleton
from referee_py.program.modes import Rounding
from referee_py.rounding.backend import Rounded
from referee_py.rounding.step_log import StepLog
from trainer_node.rounded.evaluators import NumpyEvaluator

from . import tiny

REFERENCE = repops.backend("reference")
SPECIAL = np.array(
    [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-45, -1e-40, 3.5, 0.1, 1 + 2**-23], np.float32
)
"""Signed zeros, infinities, subnormals, and values that are on no grid of rounded-f64 below 32 bits."""
INTEGERS = np.array([0, 1, 3, 2**53 + 1, -(2**62) - 1], np.int64)
"""The last two are rounded twice by a cast in rounded-f64."""
X = np.array([[0.0, -0.0, 1.5], [np.inf, -2.5, 1e-45]], np.float32)
OFF_GRID = np.array([[0.1, -0.0, 1 + 2**-23], [np.nan, -1e-40, -np.inf]], np.float32)


class Unsaid:
    """A source of logs without entries, under which every element has one value."""

    def get(self, step: int) -> StepLog:  # noqa: ARG002
        return StepLog({})

    def put(self, step: int, log: StepLog) -> None:
        raise AssertionError(f"step {step}: a follower has written a log of {len(log.nodes)} nodes")


BITS = (26, 29, 32)
MODES: dict[str, Callable[[], Backend]] = {
    "repops-f32": lambda: REFERENCE,
    **{
        f"rounded-f64 at {bits}": lambda bits=bits: Rounded(Rounding(bits), Unsaid(), NumpyEvaluator())  # type: ignore[misc]
        for bits in BITS
    },
}


@dataclasses.dataclass
class Written:
    """A program with its tensors."""

    program: Program
    constants: list[Array]
    initial: list[Array]

    def state_after(self, steps: int, mode: str = "repops-f32") -> list[bytes]:
        """Return the hash of each slot, executed node by node."""
        with np.errstate(all="ignore"):
            interpreter, state = (
                Interpreter(self.program, self.constants, MODES[mode]()),
                State.of(0, self.initial),
            )
            for _ in range(steps):
                state, _ = interpreter.step(state, False)
            return state.slot_hashes()


def canonical(written: Written) -> Written:
    program, found = canonical_program(written.program)
    validate(program.skeleton)
    return Written(program, [written.constants[k] for k in found.constants], written.initial)


def worked_out(written: Written) -> Written:
    """Simplify a program like capture does: remove or precompute operators that round, as repops-f32 would."""
    program = written.program
    hashes = [constant.hash for constant in program.constants]
    found = canonical_skeleton(program.skeleton, same=hashes, ahead=True)
    constants = tuple(program.constants[k] for k in found.constants)
    made = Program(found.skeleton.nodes, found.skeleton.slots, constants, program.initial)
    validate(made.skeleton)
    return Written(made, [written.constants[k] for k in found.constants], written.initial)


def random_program(seed: int, size: int = 40) -> Written:
    """Return a program of mostly elementwise and layout operators on small tensors; many no-op, equal or dead nodes."""
    rng = np.random.default_rng(seed)
    shapes = [(), (3,), (2, 3), (2, 1), (1, 3), (1,)]

    def tensor(dtype: Dtype) -> Array:
        shape = shapes[rng.integers(len(shapes))]
        if dtype == F32:
            return rng.choice(SPECIAL, shape).astype(np.float32)
        if dtype == I64:
            return np.asarray(rng.choice(INTEGERS, shape))
        return np.asarray(rng.integers(0, 2, shape)).astype(np.bool_)

    constants = [tensor(F32), tensor(I64), tensor(BOOL)]
    constants.append(constants[0].copy())
    initial = [tensor(F32), tensor(F32), tensor(I64)]
    write = tiny.Writer(constants, initial)
    values = [Operand(Kind.CONSTANT, k) for k in range(4)] + [Operand(Kind.SLOT, k) for k in range(3)]
    values.append(Operand(Kind.STEP))

    def type_of(operand: Operand) -> TensorType:
        if operand.kind == Kind.NODE:
            return write.nodes[operand.index].outputs[operand.output]
        return write.types[operand.kind][operand.index]

    while len(write.nodes) < size:
        name = str(rng.choice(["full", "layout", *sorted(ELEMENTWISE), "sum", "amax"]))
        picked = [values[rng.integers(max(0, len(values) - 15), len(values))] for _ in range(3)]
        type_ = type_of(picked[0])
        shape, rank = type_.shape, len(type_.shape)
        try:
            match name:
                case "full":
                    dtype = Dtype(int(rng.integers(1, 4)))
                    bits = int(rng.choice(SPECIAL).view(np.uint32)) if dtype == F32 else int(rng.integers(2))
                    if dtype == I64:
                        bits = int(rng.choice(INTEGERS)) % (1 << 64)
                    made = write("full", shape=shapes[rng.integers(len(shapes))], dtype=dtype, bits=bits)
                case "layout":
                    match rng.integers(5):
                        case 0:
                            made = write("reshape", picked[0], shape=(1,) * rng.integers(3) + shape)
                        case 1:
                            made = write("permute", picked[0], dims=tuple(map(int, rng.permutation(rank))))
                        case 2:
                            made = write("expand", picked[0], shape=(2,) * rng.integers(2) + shape)
                        case 3:
                            start = int(rng.integers(0, 2))
                            made = write("slice", picked[0], dim=0, start=start, stop=shape[0], step=1)
                        case _:
                            made = write("cat", *[picked[0]] * rng.integers(1, 3), dim=0)
                case "sum" | "amax":
                    dims = tuple(d for d in range(rank) if rng.integers(2))
                    made = write(name, picked[0], dims=dims, keepdim=int(rng.integers(2)))
                case "cast":
                    made = write("cast", picked[0], dtype=Dtype(int(rng.integers(1, 4))))
                case _:
                    made = write(name, *picked[: repops.opset.lookup(name).arity])
        except (repops.OpError, IndexError, ValueError):
            continue
        if math.prod(type_of(made).shape) <= 64 and len(type_of(made).shape) <= 4:
            values.append(made)
        else:
            write.nodes.pop()
    slots: list[SlotSource] = []
    for array in initial:
        fitting = [v for v in values if v.kind == Kind.NODE and type_of(v) == TensorType.of(array)]
        if not fitting:
            slot = Operand(Kind.SLOT, len(slots))
            fitting = [write("reshape", slot, shape=array.shape)]
        slots.append(SlotSource(fitting[-1].index, fitting[-1].output))
    program = Program(
        tuple(write.nodes),
        tuple(slots),
        tuple(map(TensorDescriptor.of, constants)),
        tuple(map(TensorDescriptor.of, initial)),
    )
    return Written(program, constants, initial)


def shuffled(written: Written, seed: int) -> Written:
    """Return the program with its nodes and constants in another order."""
    rng = np.random.default_rng(seed)
    program = written.program
    order: list[int] = []
    place: dict[int, int] = {}
    while len(order) < len(program.nodes):
        ready = [
            k
            for k, node in enumerate(program.nodes)
            if k not in place and all(o.kind != Kind.NODE or o.index in place for o in node.inputs)
        ]
        place[ready[rng.integers(len(ready))]] = len(order)
        order.append(list(place)[-1])
    constants = rng.permutation(len(program.constants)).tolist()
    moved = {Kind.NODE: place, Kind.CONSTANT: {old: new for new, old in enumerate(constants)}}

    def operand(o: Operand) -> Operand:
        return dataclasses.replace(o, index=moved[o.kind][o.index]) if o.kind in moved else o

    nodes = [program.nodes[k] for k in order]
    return Written(
        Program(
            tuple(Structure(n.op, tuple(map(operand, n.inputs)), n.outputs, n.attributes) for n in nodes),
            tuple(SlotSource(place[s.node], s.output) for s in program.slots),
            tuple(program.constants[k] for k in constants),
            program.initial,
        ),
        [written.constants[k] for k in constants],
        written.initial,
    )
