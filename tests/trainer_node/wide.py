"""Jobs whose tensors take much more memory than anything else about them, each with a program of its own."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from repops.opset import F32

from referee_py.execute import Run
from referee_py.program import Kind, Operand, Program, SlotSource, Structure, TensorDescriptor, TensorType
from referee_py.program.terms import Terms
from trainer_node.chain import JobView
from trainer_node.storage.store import Store

from .desk import job

WIDTH = 1 << 17
STEPS, STRIDES = 8, (4, 2, 1)
_VECTOR = TensorType(F32, (WIDTH,))


def tensors(number: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the constant and the slot of a program."""
    return np.full(WIDTH, 1 + number / 64, np.float32), np.ones(WIDTH, np.float32)


def program(number: int) -> Program:
    """Return a program that multiplies its slot by its constant."""
    constant, slot = tensors(number)
    nodes = (Structure.make("mul", [Operand(Kind.SLOT, 0), Operand(Kind.CONSTANT, 0)], [_VECTOR]),)
    described = (TensorDescriptor.of(constant),), (TensorDescriptor.of(slot),)
    return Program(nodes, (SlotSource(0, 0),), *described)


def put(store: Store, number: int) -> None:
    """Put a package into a client's store."""
    for array in tensors(number):
        store.put_tensor(array)
    store.put_blob(program(number).to_bytes())


def terms(number: int) -> Terms:
    return Terms.of(program(number), STEPS, STRIDES)


def wide(number: int, of: int, **changes: Any) -> JobView:
    """Return job ``number``, about program ``of``."""
    values = {"program": terms(of), "program_file": program(of).file_hash(), **changes}
    return replace(job(number), **values)


def run(number: int, backend: Any) -> Run:
    constant, slot = tensors(number)
    return Run(program(number), [constant], [slot], STEPS, STRIDES, backend)


class Arrays:
    """Counts the bytes of all arrays that are in memory; begins with its creation."""

    def __init__(self) -> None:
        tracemalloc.start()

    @property
    def bytes(self) -> int:
        domain = tracemalloc.DomainFilter(True, np.lib.tracemalloc_domain)
        found = tracemalloc.take_snapshot().filter_traces([domain])
        return sum(trace.size for trace in found.traces)

    def close(self) -> None:
        tracemalloc.stop()


def served(folder: Path, *numbers: int) -> Store:
    """Return a client's store with these packages."""
    store = Store(folder, sync=False)
    for number in numbers:
        put(store, number)
    return store
