"""A tiny rounded-f64 job in which every sum of every step is near a tie: its log has an entry for each.

node 0  full   1            node 2  take   the step's rows        node 4  sum    [8]: near a tie in every element
node 1  sub    t - 1        node 3  take   [3, 8]                 node 5  add    weight + sum

NOTE: without the third row the sums would be exact ties, in binary64 as well and in every order of their terms; such
sums need no entry.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from repops.opset import I64

from referee_py.commit.tensor import Array
from referee_py.program import Program, SlotSource, TensorDescriptor
from referee_py.program.modes import Rounding
from referee_py.program.terms import Terms
from referee_py.rounding.entries import Log
from referee_py.rounding.step_log import NodeLog, StepLog
from tests.referee_py.program.tiny import STEP, Writer, constant, slot
from trainer_node.run.package import Package
from trainer_node.storage.store import Store

STEPS, STRIDES = 12, (4, 2, 1)
ROUNDING = Rounding(32)
TIES, WIDTH = 4, 8


def tensors() -> tuple[list[Array], list[Array]]:
    """Return constants (order, x) and the initial slot (weight). Rows in threes: near 1, half a unit of that, tiny."""
    rows = np.random.default_rng(3).integers(0, 1 << 23, (4, WIDTH)) * 2.0**-23 + 1
    x = np.empty((12, WIDTH), np.float32)
    x[0::3], x[1::3], x[2::3] = rows, 2.0**-24, 2.0**-60
    order = np.array([[3 * (step % 4) + row for row in range(3)] for step in range(STEPS)], np.int64)
    return [order, x], [np.zeros(WIDTH, np.float32)]


def program() -> Program:
    constants, initial = tensors()
    op = Writer(constants, initial)
    one = op("full", shape=(), dtype=I64, bits=1)
    rows = op("take", constant(1), op("take", constant(0), op("sub", STEP, one)))
    total = op("sum", rows, dims=(0,), keepdim=0)
    assert total.index == TIES
    weight = op("add", slot(0), total)
    return Program(
        tuple(op.nodes),
        (SlotSource(weight.index, 0),),
        tuple(map(TensorDescriptor.of, constants)),
        tuple(map(TensorDescriptor.of, initial)),
    )


PROGRAM = program()
TERMS = Terms.of(PROGRAM, STEPS, STRIDES, ROUNDING.mode)


def package() -> Package:
    constants, initial = tensors()
    return Package(TERMS, PROGRAM, tuple(constants), tuple(initial))


def put_package(store: Store) -> bytes:
    """Put the job into the store; return the program file's hash."""
    for arrays in tensors():
        for array in arrays:
            store.put_tensor(array)
    return store.put_blob(PROGRAM.to_bytes())


def entries(log: StepLog) -> Log:
    """Return the entries of a step's log about the ties."""
    return log.entries(TIES, WIDTH)


def with_entries(log: Log) -> StepLog:
    """Return a step's log with these entries about the ties."""
    return StepLog({TIES: NodeLog.of(log, ROUNDING.form)})


def client(folder: Path) -> Store:
    """Return a client's store with the job."""
    store = Store(folder, sync=False)
    put_package(store)
    return store
