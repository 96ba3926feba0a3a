"""One step: the right numbers, the right records, and nothing kept longer than needed."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import pytest
import repops
from repops.sums import SumMode

from referee_py.commit import Record, Tag, fold_path, tensor_hash
from referee_py.errors import InvalidInput
from referee_py.execute import Capture, Chain, Interpreter, Metrics, NodeHook, Site, State, StepPlan, Value
from referee_py.program import Kind, SlotSource

from ..program import tiny

PROGRAM = tiny.program()
CONSTANTS, INITIAL = tiny.tensors()
CPU = repops.backend("cpu")


def interpreter(hook: NodeHook | None = None, backend: Any = CPU) -> Interpreter:
    return Interpreter(PROGRAM, CONSTANTS, backend, hook)


def start() -> State:
    return State.of(0, INITIAL)


def test_the_steps_are_gradient_descent() -> None:
    order, x, y = CONSTANTS
    weight, velocity = (array.astype(np.float64) for array in INITIAL)
    state, engine = start(), interpreter()
    for t in range(tiny.STEPS):
        state, _ = engine.step(state, False)
        batch, target = x[order[t]], y[order[t]]
        velocity = 0.5 * velocity + batch.T @ (batch @ weight - target)
        weight = weight - 0.05 * velocity
    assert state.step == tiny.STEPS
    np.testing.assert_allclose(state.arrays[tiny.WEIGHT], weight, rtol=1e-5)
    np.testing.assert_allclose(state.arrays[tiny.VELOCITY], velocity, rtol=1e-4)


def test_records_chain_the_values_of_a_step_together() -> None:
    before = interpreter().step(start(), False)[0]
    after, trace = interpreter().step(before, True)
    assert trace is not None
    assert (trace.step, len(trace.records)) == (2, len(PROGRAM.nodes))
    sources = {
        Kind.SLOT: before.slot_hashes(),
        Kind.CONSTANT: [c.hash for c in PROGRAM.constants],
        Kind.STEP: [tensor_hash(np.array(2, dtype=np.int64))],
    }
    for structure, record in zip(PROGRAM.nodes, trace.records, strict=True):
        assert record.structure == structure.hash()
        for operand, given in zip(structure.inputs, record.inputs, strict=True):
            if operand.kind == Kind.NODE:
                assert given == trace.records[operand.index].outputs[operand.output]
            else:
                assert given == sources[operand.kind][operand.index]
    for source, value in zip(PROGRAM.slots, after.slot_hashes(), strict=True):
        assert trace.records[source.node].outputs[source.output] == value
    for node, record in enumerate(trace.records):
        assert fold_path(Tag.STEP_TREE, record.hash(), node, trace.tree.path(node)) == trace.root


def test_committing_changes_no_value() -> None:
    plain, committed = interpreter().step(start(), False), interpreter().step(start(), True)
    assert plain[1] is None
    assert plain[0].slot_hashes() == committed[0].slot_hashes()


def test_cpu_and_reference_commit_to_the_same_root() -> None:
    roots = []
    for name in ("cpu", "reference"):
        state, engine = start(), interpreter(backend=repops.backend(name))
        for _ in range(3):
            state, trace = engine.step(state, True)
            assert trace is not None
            roots.append(trace.root)
    assert roots[:3] == roots[3:]


def test_a_step_cannot_change_the_state_it_started_from() -> None:
    state = start()
    hashes = [tensor_hash(array) for array in state.arrays]
    interpreter().step(state, True)
    assert [tensor_hash(array) for array in state.arrays] == hashes


def test_a_state_of_another_program_is_refused() -> None:
    with pytest.raises(InvalidInput, match="1 slots; the program has 2"):
        interpreter().step(State.of(0, INITIAL[:1]), False)


# ------------------------------------------------------------------------------------------------------ liveness


class Tracking:
    """A backend that counts the bytes of its outputs that are alive."""

    name, sums = "tracking", SumMode.REPOPS_F32

    def __init__(self) -> None:
        self.live = self.peak = 0

    def execute(self, name: str, inputs: Any, attrs: Any) -> list[Any]:
        outputs = [np.array(array) for array in CPU.execute(name, inputs, attrs)]  # no views: each counts
        for array in outputs:
            self.live += array.nbytes
            weakref.finalize(array, self._released, array.nbytes)
        self.peak = max(self.peak, self.live)
        return outputs

    def _released(self, size: int) -> None:
        self.live -= size


def test_values_are_released_after_their_last_use() -> None:
    tracking = Tracking()
    state, _ = interpreter(backend=tracking).step(start(), False)
    assert tracking.peak == StepPlan(PROGRAM).peak_bytes
    assert tracking.peak < sum(np.prod(t.shape) * 4 for node in PROGRAM.nodes for t in node.outputs), (
        "something is released before the end"
    )
    assert tracking.live == sum(array.nbytes for array in state.arrays)


def test_slots_and_unused_outputs_are_planned_for() -> None:
    released = [node for i in StepPlan(PROGRAM).instructions for node in i.release]
    assert sorted(released) == sorted(set(range(len(PROGRAM.nodes))) - {s.node for s in PROGRAM.slots})


# --------------------------------------------------------------------------------------------------------- hooks


def test_metrics_are_read_while_the_step_runs() -> None:
    metrics = Metrics({"error": SlotSource(tiny.CENTRED, 0)})
    interpreter(metrics).step(start(), False)
    order, _, y = CONSTANTS
    np.testing.assert_array_equal(metrics.latest["error"], -y[order[0]])


def test_capture_keeps_what_a_verifier_needs() -> None:
    capture = Capture(tiny.GRADIENT)
    _, trace = interpreter(capture).step(start(), True)
    assert trace is not None
    found, record = capture.found[tiny.GRADIENT], trace.records[tiny.GRADIENT]
    assert tuple(map(tensor_hash, found.inputs)) == record.inputs
    assert tuple(map(tensor_hash, found.outputs)) == record.outputs
    structure = PROGRAM.nodes[tiny.GRADIENT]
    again = CPU.execute(structure.name, found.inputs, structure.attrs)
    assert tuple(map(tensor_hash, again)) == record.outputs


def test_hooks_are_chained_in_order() -> None:
    class Log(NodeHook):
        def __init__(self, name: str) -> None:
            self.name = name

        def inputs(self, at: Site, inputs: list[Value]) -> list[Value]:
            calls.append((self.name, "inputs", at.node))
            return inputs

        def record(self, at: Site, record: Record) -> Record:
            calls.append((self.name, "record", at.node))
            return record

    calls: list[Any] = []
    interpreter(Chain(Log("a"), Log("b"))).step(start(), True)
    assert calls[:5] == [
        ("a", "inputs", 0),
        ("b", "inputs", 0),
        ("a", "record", 0),
        ("b", "record", 0),
        ("a", "inputs", 1),
    ]
