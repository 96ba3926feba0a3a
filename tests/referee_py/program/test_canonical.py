"""A canonical form keeps every bit, does not depend on how the program was written, and has nothing to spare."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import repops
from hypothesis import given, settings
from hypothesis import strategies as st
from repops.opset import BOOL, F32, I64, Dtype

from referee_py.commit import tensor_hash
from referee_py.commit.tensor import Array
from referee_py.errors import InvalidProgram
from referee_py.execute import Plan, Run
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
from referee_py.program.simplify import ELEMENTWISE

from . import tiny

REFERENCE = repops.backend("reference")
SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-45, 3.5], np.float32)


# ------------------------------------------------------------------------------------------- programs to work on


@dataclasses.dataclass
class Written:
    """A program with its tensors."""

    program: Program
    constants: list[Array]
    initial: list[Array]

    def state_after(self, steps: int) -> list[bytes]:
        """The hash of each slot, by the definition of the operators."""
        with np.errstate(all="ignore"):
            run = Run(self.program, self.constants, self.initial, steps, (1,), REFERENCE)
            return run.advance(run.initial(), steps).slot_hashes()


def canonical(written: Written) -> Written:
    program, found = canonical_program(written.program)
    validate(program)
    return Written(program, [written.constants[k] for k in found.constants], written.initial)


def random_program(seed: int, size: int = 40) -> Written:
    """Mostly elementwise operators and layout on small tensors; many no-ops, many equal nodes, many dead ones."""
    rng = np.random.default_rng(seed)
    shapes = [(), (3,), (2, 3), (2, 1), (1, 3), (1,)]

    def tensor(dtype: Dtype) -> Array:
        shape = shapes[rng.integers(len(shapes))]
        if dtype == F32:
            return rng.choice(SPECIAL, shape).astype(np.float32)
        return rng.integers(0, 2, shape).astype({I64: np.int64, BOOL: np.bool_}[dtype])

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
                    dtype = Dtype(rng.integers(1, 4))
                    bits = int(rng.choice(SPECIAL).view(np.uint32)) if dtype == F32 else int(rng.integers(2))
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
                    made = write("cast", picked[0], dtype=Dtype(rng.integers(1, 4)))
                case _:
                    made = write(name, *picked[: repops.opset.lookup(name).arity])
        except (repops.OpError, IndexError, ValueError):
            continue
        if math.prod(type_of(made).shape) <= 64 and len(type_of(made).shape) <= 4:
            values.append(made)
        else:
            write.nodes.pop()
    slots = []
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
    """The same program with its nodes and constants written in another order."""
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


# ----------------------------------------------------------------------------------------------------- properties

SEEDS = st.integers(0, 1 << 32)


@settings(deadline=None, max_examples=150)
@given(SEEDS)
def test_the_same_bits_come_out(seed: int) -> None:
    written = random_program(seed)
    assert canonical(written).state_after(3) == written.state_after(3)


@settings(deadline=None, max_examples=100)
@given(SEEDS)
def test_a_canonical_program_is_its_own_form(seed: int) -> None:
    once = canonical(random_program(seed))
    assert canonical(once).program == once.program


@settings(deadline=None, max_examples=100)
@given(SEEDS, SEEDS)
def test_the_order_of_writing_does_not_matter(seed: int, other: int) -> None:
    written = random_program(seed)
    again = shuffled(written, other)
    validate(again.program)
    assert canonical(again).program.to_bytes() == canonical(written).program.to_bytes()


def live(program: Program) -> set[int]:
    found = {slot.node for slot in program.slots}
    for k in range(len(program.nodes) - 1, -1, -1):
        if k in found:
            found |= {o.index for o in program.nodes[k].inputs if o.kind == Kind.NODE}
    return found


@settings(deadline=None, max_examples=100)
@given(SEEDS)
def test_nothing_is_to_spare(seed: int) -> None:
    program = canonical(random_program(seed)).program
    assert len(set(program.nodes)) == len(program.nodes), "no two nodes are equal"
    assert live(program) == set(range(len(program.nodes))), "no node is dead"
    read = {o.index for node in program.nodes for o in node.inputs if o.kind == Kind.CONSTANT}
    assert read == set(range(len(program.constants))), "every constant is read"
    assert len({constant.hash for constant in program.constants}) == len(program.constants)
    for node in program.nodes:
        made = [program.nodes[o.index].name if o.kind == Kind.NODE else "" for o in node.inputs]
        if node.name in ELEMENTWISE:
            assert set(made) != {"full"}, "what is known is computed now"
        if node.name in ("reshape", "permute", "expand"):
            assert node.name not in made, "chains are one node"


def test_a_captured_kind_of_program_keeps_its_meaning() -> None:
    constants, initial = tiny.tensors()
    written = Written(tiny.program(), list(constants), list(initial))
    assert canonical(written).state_after(5) == written.state_after(5)
    assert len(canonical(written).program.nodes) == len(written.program.nodes)


# ---------------------------------------------------------------------------------------------------- rule by rule

X = np.array([[0.0, -0.0, 1.5], [np.inf, -2.5, 1e-45]], np.float32)
C = np.arange(6, dtype=np.float32).reshape(2, 3)


class Sheet:
    """A program of one slot like X, written node by node."""

    def __init__(self) -> None:
        self.write = tiny.Writer([C], [X])
        self.x = Operand(Kind.SLOT, 0)
        self.c = Operand(Kind.CONSTANT, 0)

    def full(self, value: float, shape: tuple[int, ...] = ()) -> Operand:
        return self.write("full", shape=shape, dtype=F32, bits=tiny.f32_bits(value))

    def i64(self, value: int) -> Operand:
        return self.write("full", shape=(), dtype=I64, bits=value)

    def bool(self, value: int) -> Operand:
        return self.write("full", shape=(), dtype=BOOL, bits=value)

    def names(self, result: Operand) -> list[str]:
        """The operators of the canonical program that updates the slot with this value; its bits are the same."""
        if result.kind != Kind.NODE:
            result = self.write("reshape", result, shape=(2, 3))
        source = SlotSource(result.index, result.output)
        described = (TensorDescriptor.of(C),), (TensorDescriptor.of(X),)
        written = Written(Program(tuple(self.write.nodes), (source,), *described), [C], [X])
        form = canonical(written)
        assert form.state_after(1) == written.state_after(1)
        return [node.name for node in form.program.nodes]


def sheets() -> dict[str, tuple[Sheet, Operand]]:
    made: dict[str, tuple[Sheet, Operand]] = {}

    def add(name: str, result: Any) -> None:
        sheet = Sheet()
        made[name] = (sheet, result(sheet, sheet.write))

    add("times one", lambda s, w: w("mul", s.x, s.full(1)))
    add("one times", lambda s, w: w("mul", s.full(1), s.x))
    add("over one", lambda s, w: w("div", s.x, s.full(1, (2, 3))))
    add("minus zero", lambda s, w: w("sub", s.x, s.full(0.0)))
    add("plus minus zero", lambda s, w: w("add", s.full(-0.0), s.x))
    add("negated twice", lambda s, w: w("neg", w("neg", s.x)))
    add("the larger of one", lambda s, w: w("maximum", s.x, s.x))
    add("either way", lambda s, w: w("where", w("gt", s.x, s.full(1)), s.x, s.x))
    add("always", lambda s, w: w("where", s.bool(1), s.x, s.c))
    add("never", lambda s, w: w("where", s.bool(0), s.c, s.x))
    add("reshaped back", lambda s, w: w("reshape", w("reshape", s.x, shape=(6,)), shape=(2, 3)))
    add("turned back", lambda s, w: w("permute", w("permute", s.x, dims=(1, 0)), dims=(1, 0)))
    add("expanded to itself", lambda s, w: w("expand", s.x, shape=(2, 3)))
    add("sliced whole", lambda s, w: w("slice", s.x, dim=1, start=0, stop=3, step=1))
    add("joined alone", lambda s, w: w("cat", s.x, dim=0))
    add("cast to itself", lambda s, w: w("cast", s.x, dtype=F32))
    add("summed over nothing", lambda s, w: w("sum", s.x, dims=(), keepdim=0))
    add(
        "summed over ones",
        lambda s, w: w("sum", w("reshape", s.x, shape=(1, 2, 3)), dims=(0,), keepdim=0),
    )
    add(
        "a known factor of one",
        lambda s, w: w("mul", s.x, w("div", s.full(3), w("add", s.full(1), s.full(2)))),
    )
    return made


SAME = sheets()


@pytest.mark.parametrize("name", SAME)
def test_what_changes_nothing_leaves_a_copy(name: str) -> None:
    sheet, result = SAME[name]
    assert sheet.names(result) == ["reshape"]


def test_a_zero_that_could_change_a_sign_stays() -> None:
    sheet = Sheet()
    assert sheet.names(sheet.write("add", sheet.x, sheet.full(0.0))) == ["full", "add"], "-0 + 0 is +0"
    sheet = Sheet()
    assert sheet.names(sheet.write("sub", sheet.x, sheet.full(-0.0))) == ["full", "sub"]
    sheet = Sheet()
    assert sheet.names(sheet.write("mul", sheet.x, sheet.full(0.0))) == ["full", "mul"], "inf times 0 is no 0"


def test_of_a_neutral_operand_that_broadcasts_the_shape_is_left() -> None:
    sheet = Sheet()
    row = sheet.write("slice", sheet.x, dim=0, start=0, stop=1, step=1)
    assert sheet.names(sheet.write("mul", row, sheet.full(1, (2, 3)))) == ["slice", "expand"]


def test_known_values_are_those_of_the_operators() -> None:
    sheet = Sheet()
    value = sheet.write("exp", sheet.write("div", sheet.full(1), sheet.full(3)))
    sheet.write.nodes.append(sheet.write.nodes[-1])
    result = sheet.write("mul", sheet.x, value)
    described = (TensorDescriptor.of(X),)
    program = Program(tuple(sheet.write.nodes), (SlotSource(result.index, 0),), described, described)
    full, mul = canonical(Written(program, [X], [X])).program.nodes
    (third,) = REFERENCE.execute("div", [np.array(1, np.float32), np.array(3, np.float32)], {})
    (expected,) = REFERENCE.execute("exp", [third], {})
    assert (full.name, full.attrs["bits"], mul.name) == ("full", int(expected.view(np.uint32)), "mul")


def test_operands_are_not_expanded_where_broadcasting_does_it() -> None:
    sheet = Sheet()
    row = sheet.write("slice", sheet.x, dim=0, start=1, stop=2, step=1)
    wide = sheet.write("expand", row, shape=(2, 3))
    two = sheet.write("full", shape=(2, 3), dtype=F32, bits=tiny.f32_bits(2.0))
    assert sheet.names(sheet.write("mul", sheet.write("add", sheet.x, wide), two)) == [
        "slice",
        "add",
        "full",
        "mul",
    ]


def test_a_reduction_drops_its_dimensions_at_once_unless_somebody_needs_them() -> None:
    sheet = Sheet()
    total = sheet.write("sum", sheet.x, dims=(0,), keepdim=1)
    flat = sheet.write("reshape", total, shape=(3,))
    assert sheet.names(sheet.write("add", sheet.x, flat)) == ["sum", "add"]
    sheet = Sheet()
    total = sheet.write("sum", sheet.x, dims=(0,), keepdim=1)
    flat = sheet.write("reshape", total, shape=(3,))
    both = sheet.write("add", sheet.write("mul", sheet.x, total), sheet.write("exp", flat))
    assert sheet.names(both).count("sum") == 1


def test_what_is_to_be_kept_is_kept_and_found_again() -> None:
    program = tiny.program()
    error = SlotSource(6, 0)
    plain, _ = canonical_program(program)
    kept, found = canonical_program(program, [error, SlotSource(14, 0)])
    assert len(plain.nodes) == len(kept.nodes), "both are live anyway"
    assert [kept.nodes[s.node].name for s in found.keep] == [program.nodes[k].name for k in (6, 14)]
    assert found.nodes[found.keep[0].node] == 6
    assert [program.constants[k] for k in found.constants] == list(kept.constants)


def test_gradients_come_before_updates_and_large_updates_first() -> None:
    """Two slots, each updated by a sum over the other and a little arithmetic; the second is larger."""
    wide = np.ones((2, 9), np.float32)
    write = tiny.Writer([], [X, wide])
    small, large = Operand(Kind.SLOT, 0), Operand(Kind.SLOT, 1)
    updates = []
    for slot, other in ((small, large), (large, small)):
        total = write("sum", write("exp", other), dims=(0, 1), keepdim=0)
        updates.append(write("sub", write("tanh", slot), total))
    described = (TensorDescriptor.of(X), TensorDescriptor.of(wide))
    program = Program(tuple(write.nodes), tuple(SlotSource(u.index, 0) for u in updates), (), described)
    found, _ = canonical_program(program)
    assert [node.name for node in found.nodes] == ["exp", "sum", "exp", "sum", "tanh", "sub", "tanh", "sub"]
    assert [slot.node for slot in found.slots] == [7, 5]
    assert Plan(found).peak_bytes <= Plan(program).peak_bytes


def test_a_deep_program_is_no_deep_recursion() -> None:
    write = tiny.Writer([], [X])
    value = Operand(Kind.SLOT, 0)
    for _ in range(5000):
        value = write("exp", value)
    program = Program(tuple(write.nodes), (SlotSource(value.index, 0),), (), (TensorDescriptor.of(X),))
    assert len(canonical_program(program)[0].nodes) == 5000


def test_a_skeleton_has_the_form_of_its_program() -> None:
    program = tiny.program()
    skeleton = program.skeleton if not callable(program.skeleton) else program.skeleton()
    assert canonical_skeleton(skeleton).skeleton.nodes == canonical_program(program)[0].nodes


def test_a_program_that_computes_nothing_is_refused() -> None:
    with pytest.raises(InvalidProgram, match="computes nothing"):
        canonical_program(dataclasses.replace(tiny.program(), slots=(), initial=()))


def test_hashes_of_values_see_every_bit() -> None:
    """What the comparison above relies on."""
    assert len({tensor_hash(np.array(v, np.float32)) for v in (0.0, -0.0, np.nan, np.inf)}) == 4
