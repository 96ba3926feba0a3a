"""Lies about rounding logs: an entry that no rounding gives, and a log that is not the one committed to."""

from __future__ import annotations

import numpy as np

from referee_py.commit import Record, Tag, digest
from referee_py.commit.tensor import Array
from referee_py.errors import InvalidInput
from referee_py.execute import Capture, Interpreter, NodeHook, Site, State, Value
from referee_py.program import Program
from referee_py.rounding.backend import Rounded
from referee_py.rounding.entries import Log
from referee_py.rounding.log_source import MemoryLogs
from referee_py.rounding.primitives import quantum
from referee_py.rounding.step_log import NodeLog, StepLog

from .kinds import Target, find


class WrongLog(NodeHook):
    """From its step on, one node's record has the hash of a log that is not the one committed to."""

    def __init__(self, target: Target) -> None:
        rounded(target)
        self._step = target.step
        self._node = free(target.program)

    def record(self, at: Site, record: Record) -> Record:
        if at.step < self._step or at.node != self._node:
            return record
        return Record(record.structure, record.inputs, record.outputs, digest(Tag.ROUNDING_LOG, record.log))


class AppliesForged(NodeHook):
    """The output that the forged entry asks for."""

    def __init__(self, target: Target) -> None:
        self._step = target.step
        self._node = free(target.program)
        self._bits = rounded(target).rounding.bits

    def outputs(self, at: Site, outputs: list[Value]) -> list[Value]:
        if (at.step, at.node) != (self._step, self._node):
            return outputs
        array = outputs[0].array.copy()
        element, value = beyond(array, self._bits)
        array.reshape(-1)[element] = value
        return [Value(array)]


def rounded(target: Target) -> Rounded:
    """Raises InvalidInput for a fault of logs in a mode without them."""
    if not isinstance(target.backend, Rounded):
        raise InvalidInput(
            "repops-f32 has no rounding logs to lie about; choose another fault, or rounded-f64"
        )
    return target.backend


def free(program: Program) -> int:
    """The first contraction: a node whose order of additions is free."""
    return find(program, "mm")


def beyond(result: Array, bits: int) -> tuple[int, float]:
    """An element, and a value for it that is not a rounding of anything near: the largest, two quanta further on."""
    flat = result.reshape(-1).astype(np.float64)
    element = int(np.argmax(np.abs(flat)))
    return element, float(flat[element] + 2 * quantum(flat[element : element + 1], bits)[0])


def forged_log(target: Target, state: State, honest: Rounded) -> StepLog:
    """The honest log of the step after ``state``, with one entry that no rounding of the exact result gives."""
    log_source = MemoryLogs()
    node, form = free(target.program), honest.rounding.form
    capture = Capture(node)
    backend = Rounded(honest.rounding, log_source, honest.evaluator)
    Interpreter(target.program, target.constants, backend, capture).step(state, False)
    written = log_source.get(target.step)
    assert written is not None
    (result,) = capture.found[node].outputs
    element, value = beyond(result, honest.rounding.bits)
    log = written.entries(node, result.size)
    kept, wide = log.narrow != element, log.wide < element
    forged = Log(
        result.size,
        log.narrow[kept],
        log.up[kept],
        np.concatenate([log.wide[wide], [element], log.wide[log.wide > element]]),
        np.concatenate([log.values[wide], [value], log.values[log.wide > element]]),
    )
    return StepLog({**written.nodes, node: NodeLog.of(forged, form)})
