"""A canonical form keeps every bit, does not depend on the order of writing, and has no superfluous node."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from repops.fuse.phases import ELEMENTWISE

from referee_py.commit import tensor_hash
from referee_py.errors import InvalidProgram
from referee_py.execute.plan import StepPlan
from referee_py.program import Kind, Operand, Program, SlotSource, TensorDescriptor, validate
from referee_py.program.canonical import canonical_program, canonical_skeleton

from . import tiny
from .canonical_programs import MODES, Written, X, canonical, random_program, shuffled, worked_out

SEEDS = st.integers(0, 1 << 32)


@pytest.mark.parametrize(
    "mode", [pytest.param(m, marks=pytest.mark.slow) if m == "rounded-f64 at 26" else m for m in MODES]
)
@settings(deadline=None, max_examples=100)
@given(SEEDS)
def test_the_same_bits_come_out_in_every_mode(mode: str, seed: int) -> None:
    written = random_program(seed)
    assert canonical(written).state_after(3, mode) == written.state_after(3, mode)


@settings(deadline=None, max_examples=100)
@given(SEEDS)
def test_what_is_worked_out_ahead_has_the_bits_of_repops_f32(seed: int) -> None:
    written = random_program(seed)
    ahead = worked_out(written)
    assert ahead.state_after(3) == written.state_after(3)
    assert canonical(ahead).program == ahead.program, "captured programs are canonical"


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
    validate(again.program.skeleton)
    assert canonical(again).program.to_bytes() == canonical(written).program.to_bytes()


def live(program: Program) -> set[int]:
    found = {slot.node for slot in program.slots}
    for k in range(len(program.nodes) - 1, -1, -1):
        if k in found:
            found |= {o.index for o in program.nodes[k].inputs if o.kind == Kind.NODE}
    return found


@settings(deadline=None, max_examples=100)
@given(SEEDS)
def test_nothing_is_to_spare_of_what_was_worked_out(seed: int) -> None:
    program = worked_out(random_program(seed)).program
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


@settings(deadline=None, max_examples=50)
@given(SEEDS)
def test_nothing_but_what_rounds_is_to_spare(seed: int) -> None:
    program = canonical(random_program(seed)).program
    assert len(set(program.nodes)) == len(program.nodes)
    assert live(program) == set(range(len(program.nodes)))
    for node in program.nodes:
        made = [program.nodes[o.index].name if o.kind == Kind.NODE else "" for o in node.inputs]
        if node.name in ("neg", "maximum", "minimum", "eq", "lt", "logical_and", "logical_not", "where"):
            assert set(made) != {"full"}, "what is known and does not round is computed now"


def test_a_captured_kind_of_program_keeps_its_meaning() -> None:
    constants, initial = tiny.tensors()
    written = Written(tiny.program(), list(constants), list(initial))
    assert canonical(written).state_after(5) == written.state_after(5)
    assert len(canonical(written).program.nodes) == len(written.program.nodes)


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
    assert StepPlan(found).peak_bytes <= StepPlan(program).peak_bytes


def test_a_deep_program_is_no_deep_recursion() -> None:
    write = tiny.Writer([], [X])
    value = Operand(Kind.SLOT, 0)
    for _ in range(5000):
        value = write("exp", value)
    program = Program(tuple(write.nodes), (SlotSource(value.index, 0),), (), (TensorDescriptor.of(X),))
    assert len(canonical_program(program)[0].nodes) == 5000


def test_a_skeleton_has_the_form_of_its_program() -> None:
    program = tiny.program()
    assert canonical_skeleton(program.skeleton).skeleton.nodes == canonical_program(program)[0].nodes


def test_a_program_that_computes_nothing_is_refused() -> None:
    with pytest.raises(InvalidProgram, match="computes nothing"):
        canonical_program(dataclasses.replace(tiny.program(), slots=(), initial=()))


def test_hashes_of_values_see_every_bit() -> None:
    """The comparison above relies on this."""
    assert len({tensor_hash(np.array(v, np.float32)) for v in (0.0, -0.0, np.nan, np.inf)}) == 4
