"""Any partition of any program gives the bits of the interpreter: in plain steps, in records and in the state."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import repops

from referee_py.commit import tensor_hash
from referee_py.errors import InvalidInput
from referee_py.execute import Interpreter, State, Value
from referee_py.program import SlotSource
from trainer_node.workers.partition import Partition, partition_of
from trainer_node.workers.plan import Plan
from trainer_node.workers.worker import Worker

from ...referee_py.compiled.random_program import RandomProgram
from ..cli.growing import growing
from .simulated import Network, Queues, together

STEPS = 3


def scattered(nodes: int, workers: int, seed: int) -> Partition:
    """Return a partition without any sense: nodes anywhere, some of them at several workers."""
    draw = np.random.default_rng(seed)
    homes = []
    for _ in range(nodes):
        count = 1 + int(draw.random() < 0.2) * int(draw.integers(0, workers))
        homes.append(tuple(int(w) for w in draw.permutation(workers)[:count]))
    return Partition(workers, tuple(homes), (0,) * nodes)


@pytest.mark.parametrize("first", range(0, 300, 20))
def test_random_programs_on_random_workers(first: int) -> None:
    for seed in range(first, first + 20):
        check(seed)


def compute(worker: Worker, step: int, by_node: bool, hashes: dict[int, tuple[bytes, ...]]) -> None:
    if by_node:
        hashes.update(worker.commit(step))
    else:
        worker.step(step)


def check(seed: int) -> None:
    made = RandomProgram(seed, 40)
    program, workers = made.program, 1 + seed % 4
    draw = np.random.default_rng(seed)
    metrics = [SlotSource(int(n), 0) for n in draw.integers(0, len(program.nodes), 2)]
    plan = Plan(program, scattered(len(program.nodes), workers, seed), metrics)
    network = Network(workers)
    members = [
        Worker(plan, made.constants, repops.backend("cpu"), Queues(network, rank)) for rank in range(workers)
    ]
    interpreter = Interpreter(program, made.constants, repops.backend("cpu"))
    state = State.of(0, made.initial)
    for worker in members:
        worker.load({slot: Value(made.initial[slot]) for slot in worker.part.slots})
    for step in range(1, 2 * STEPS + 1):
        by_node = bool(draw.integers(2))
        state, trace = interpreter.step(state, True)
        assert trace is not None
        hashes: dict[int, tuple[bytes, ...]] = {}
        together([partial(compute, worker, step, by_node, hashes) for worker in members])
        if by_node:
            records = [(*record.outputs, record.log) for record in trace.records]
            assert [hashes[node] for node in range(len(program.nodes))] == records, f"seed {seed}"
        for slot, expected in enumerate(state.slot_hashes()):
            for worker in members:
                if slot in worker.part.slots:
                    found = tensor_hash(worker.slot(slot))
                    assert found == expected == worker.slot_hash(slot), (
                        f"seed {seed}, step {step}, slot {slot}"
                    )
        for source in metrics:
            found = tensor_hash(members[0].metrics[source.node, source.output])
            assert found == trace.records[source.node].outputs[0], f"seed {seed}"


def test_a_program_without_micro_batches_takes_one_worker() -> None:
    program = growing(4, (2, 1)).program
    assert partition_of(program, 1).workers == 1
    with pytest.raises(
        InvalidInput, match=r"3 workers for .* without micro-batches.*use 1, or .*micro_batches=3"
    ):
        partition_of(program, 3)
