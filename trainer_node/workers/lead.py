"""Worker 0: an executor of steps that computes them with all workers.

A run over it is the run of one process: the same checkpoints, records and roots. The state is where the workers have
it; only what the caller reads of it comes here.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from referee_py.commit import HASH_BYTES, NO_LOG, Record, tensor_hash
from referee_py.commit.tensor import Array
from referee_py.errors import InvalidInput
from referee_py.execute import Backend, Prepared, State, StepTrace
from referee_py.execute.lease import Lease
from referee_py.program import Kind, Operand, SlotSource
from referee_py.rounding.log_source import LogSource
from referee_py.rounding.step_log import StepLog

from ..errors import WorkerLost
from .channel import Channel
from .commands import (
    COMMAND,
    HASHES,
    LOG,
    STATE,
    TENSOR,
    Command,
    Do,
    OneStep,
    empty,
    receive_log,
    receive_seconds,
    receive_tensors,
    received,
    send_tensors,
    to_all,
)
from .partition import partition_of
from .plan import Plan
from .serve import gathered_from, owned_slots
from .worker import Worker

BackendOf = Callable[[LogSource | None], Backend]
"""Makes a worker's backend over the logs of one step; None in a mode without them."""


def worker_of(
    job: Prepared, metrics: Mapping[str, SlotSource], channel: Channel, backend_of: BackendOf
) -> tuple[Worker, OneStep | None]:
    """Return this process's worker of a job, and the logs of its steps in a mode that has some.

    Every worker of a run must be made from the same job and metrics. Raises InvalidInput for another job than worker
    0 has, and for more workers than the program has micro-batches.
    """
    _meet(job, metrics, channel)
    logs = OneStep() if job.terms.arithmetic.follows_logs else None
    # NOTE: with logs, what is computed twice would have two, so every node is computed once; and a log names a node of
    # the program, which is another one of a stage's.
    partition = partition_of(job.program, channel.size, replicate=logs is None)
    plan = Plan(job.program, partition, metrics.values())
    return Worker(plan, job.constants, backend_of(logs), channel, logs is None), logs


def _meet(job: Prepared, metrics: Mapping[str, SlotSource], channel: Channel) -> None:
    """Compare the job with that of worker 0. NOTE: workers with different ones would wait for each other's messages
    until the time ends, and blame each other."""
    sources = ";".join(sorted(f"{name}:{source.node}.{source.output}" for name, source in metrics.items()))
    digest = hashlib.sha256(job.terms.hash() + sources.encode()).digest()
    if channel.rank == 0:
        to_all(channel, np.frombuffer(digest, np.uint8).copy(), COMMAND)
    elif received(channel, 0, len(digest), COMMAND).tobytes() != digest:
        raise InvalidInput(
            f"worker {channel.rank} has another job than worker 0: give all workers the same bundle and mode"
        )


class Lead:
    """An executor (`referee_py.execute.Executor`) over the workers of a channel, of which this process is number 0.

    ``checks`` nodes of each committed step, drawn among those of the others after they have sent their hashes, are
    computed here once more, so that a machine that computes wrongly is noticed. ``logs`` are those of the run.
    ``latest`` has the metrics of the last step. Raises WorkerLost, and then only a new one computes further. Two
    threads must not use one object at the same time.
    """

    def __init__(
        self,
        job: Prepared,
        metrics: Mapping[str, SlotSource],
        channel: Channel,
        backend_of: BackendOf,
        logs: LogSource | None = None,
        checks: int = 1,
    ) -> None:
        self._worker, self._step_logs = worker_of(job, metrics, channel, backend_of)
        self._channel, self._logs, self._program = channel, logs, job.program
        self._sources, self._checks = dict(metrics), checks
        owners = self._worker.plan.partition.homes
        self._others = [node for node, homes in enumerate(owners) if homes[0] != 0]
        self.latest: dict[str, Array] = {}
        self.beside_s = 0.0
        """Seconds for which the other workers have computed in the last step, all together."""
        self._lease: Lease | None = None
        self._memory: _Memory | None = None
        self.failed: WorkerLost | None = None
        """The error after which this computes nothing more."""
        self.between_steps = True
        """False within a step, and for ever if one was ended in its midst."""

    def step(self, state: State, commit: bool) -> tuple[State, StepTrace | None]:
        """Return the state after step `state.step + 1`, and its trace if ``commit``."""
        if self.failed is not None:
            raise self.failed
        self.between_steps = False
        try:
            found = self._step(state, commit)
            self.between_steps = True
            return found
        except WorkerLost as error:
            self.failed = error
            raise

    def close(self) -> None:
        """Fetch the last state, and tell the other workers to stop."""
        if self.failed is None:
            if self._memory is not None:
                self._memory.keep()
            to_all(self._channel, Command(Do.STOP).encode(), COMMAND)

    def gather(self) -> list[Array]:
        """Return all slots of the state that the workers have, in memory of their own."""
        worker, channel = self._worker, self._channel
        to_all(channel, Command(Do.GATHER).encode(), COMMAND)
        found = {slot: np.array(worker.slot(slot)) for slot in worker.part.slots}
        for other in range(1, channel.size):
            slots = gathered_from(worker, other)
            like = (empty(self._program.initial[slot].type) for slot in slots)
            found |= zip(slots, receive_tensors(channel, other, like, TENSOR), strict=True)
        return [found[slot] for slot in range(len(self._program.slots))]

    # ------------------------------------------------------------------ inside

    def _step(self, state: State, commit: bool) -> tuple[State, StepTrace | None]:
        before = self._enter(state, commit)
        number = state.step + 1
        given = self._logs.get(number) if self._logs is not None else None
        self._tell(
            Command(Do.COMMIT if commit else Do.STEP, number, hash_slots=commit and before is None), given
        )
        trace = None
        if commit:
            trace = self._committed(number, before)
        else:
            self._worker.step(number)
        self._finish_logs(number, given)
        # NOTE: so nobody computes any more once a step is done, and others may have the processors.
        self.beside_s = sum(receive_seconds(self._channel, other) for other in range(1, self._channel.size))
        if trace is not None and self._others:
            for _ in range(self._checks):
                self._check(number, secrets.choice(self._others), trace)
        found = self._worker.metrics
        self.latest |= {name: found[s.node, s.output] for name, s in self._sources.items()}
        hashes = (
            None if trace is None else [trace.records[s.node].outputs[s.output] for s in self._program.slots]
        )
        self._memory = _Memory(self, hashes)
        self._lease = Lease(self._memory, number, range(len(self._program.slots)))
        return State.leased(number, self._lease), trace

    def _enter(self, state: State, commit: bool) -> list[bytes] | None:
        """Have the workers hold a state. To ``commit``, return the hashes of its slots; None if nobody has them yet."""
        memory, lease, self._memory, self._lease = self._memory, self._lease, None, None
        here = lease is not None and state.lease is lease
        if lease is not None and memory is not None:
            if here and state.offered:
                lease.take()
            else:
                memory.keep()
                lease.give()
        if here and memory is not None:
            return memory.hashes
        hashes = state.slot_hashes() if commit else None
        values = state.values
        to_all(self._channel, Command(Do.LOAD).encode(), COMMAND)
        for other in range(1, self._channel.size):
            slots = self._worker.plan.parts[other].slots
            send_tensors(self._channel, other, (values[slot].array for slot in slots), STATE)
        self._worker.load({slot: values[slot] for slot in self._worker.part.slots})
        return hashes

    def _tell(self, command: Command, given: StepLog | None) -> None:
        data = b"" if given is None else given.encode()
        length = -1 if given is None else len(data)
        told = Command(command.do, command.number, length, command.hash_slots)
        to_all(self._channel, told.encode(), COMMAND)
        if data:
            to_all(self._channel, np.frombuffer(data, np.uint8).copy(), LOG)
        if self._step_logs is not None:
            self._step_logs.given = given

    def _finish_logs(self, number: int, given: StepLog | None) -> None:
        if self._step_logs is None or self._logs is None or given is not None:
            return
        nodes = dict(self._step_logs.written.nodes)
        for other in range(1, self._channel.size):
            nodes |= receive_log(self._channel, other, len(self._program.nodes)).nodes
        self._step_logs.given = StepLog(dict(sorted(nodes.items())))
        self._logs.put(number, self._step_logs.given)

    def _check(self, step: int, node: int, trace: StepTrace) -> None:
        """Compute a node of another worker from the operands that it says it has had. Raises WorkerLost."""
        worker, channel = self._worker, self._channel
        owner, record, structure = (
            worker.plan.partition.owner(node),
            trace.records[node],
            self._program.nodes[node],
        )
        channel.send(owner, Command(Do.CHECK, node).encode(), COMMAND).wait()
        places = [k for k, o in enumerate(structure.inputs) if o.kind in (Kind.NODE, Kind.SLOT)]
        types = [self._program.type_of(structure.inputs[k]) for k in places]
        operands = list(receive_tensors(channel, owner, map(empty, types), TENSOR))
        for k, operand in zip(places, operands, strict=True):
            if tensor_hash(operand) != record.inputs[k]:
                raise WorkerLost(
                    owner,
                    f"has computed node {node} ({structure.name}) of step {step} from another operand {k} than "
                    "the step has: it, the worker that sent the operand, or the memory of one of them is at fault",
                )
        if worker.outputs(node, step, operands) != record.outputs:
            raise WorkerLost(
                owner,
                f"has a result of node {node} ({structure.name}) in step {step} that its operands do not give "
                "here: one of the two machines computes wrongly",
            )

    def _committed(self, number: int, before: list[bytes] | None) -> StepTrace:
        """Compute a step with its hashes, and put the records together."""
        worker = self._worker
        known: dict[int, bytes] = {}
        if before is None:
            known = {slot: worker.slot_hash(slot) for slot in owned_slots(worker)}
        hashes = worker.commit(number)
        for other in range(1, self._channel.size):
            owned = [n for n, homes in enumerate(worker.plan.partition.homes) if homes[0] == other]
            slots = owned_slots(worker, other) if before is None else []
            logged = self._step_logs is not None
            count = sum(len(self._program.nodes[n].outputs) + logged for n in owned) + len(slots)
            block = iter(_hashes(received(self._channel, other, count * HASH_BYTES, HASHES).tobytes()))
            for node in owned:
                outputs = [next(block) for _ in self._program.nodes[node].outputs]
                hashes[node] = (*outputs, next(block) if logged else NO_LOG)
            known |= {slot: next(block) for slot in slots}
        slot_hashes = [known[slot] for slot in range(len(self._program.slots))] if before is None else before
        step_hash = tensor_hash(np.array(number, dtype=np.int64))

        def hash_of(operand: Operand) -> bytes:
            match operand.kind:
                case Kind.NODE:
                    return hashes[operand.index][operand.output]
                case Kind.SLOT:
                    return slot_hashes[operand.index]
                case Kind.CONSTANT:
                    return self._program.constants[operand.index].hash
            return step_hash

        return StepTrace(
            number,
            tuple(
                Record(leaf, tuple(map(hash_of, node.inputs)), hashes[n][:-1], hashes[n][-1])
                for n, (node, leaf) in enumerate(
                    zip(self._program.nodes, self._program.structures.leaves, strict=True)
                )
            ),
        )


def _hashes(block: bytes) -> Iterator[bytes]:
    return (block[at : at + HASH_BYTES] for at in range(0, len(block), HASH_BYTES))


class _Memory:
    """The slots of a state that the workers have (`lease.Memory`); a slot's buffer is its number.

    ``hashes`` are those of the slots, if the state was committed to.
    """

    def __init__(self, lead: Lead, hashes: list[bytes] | None) -> None:
        self._lead, self.hashes = lead, hashes
        self._arrays: list[Array] | None = None

    def keep(self) -> list[Array]:
        """Return the slots, which come here once."""
        if self._arrays is None:
            self._arrays = self._lead.gather()
        return self._arrays

    def read(self, slot: int) -> Array:
        return self.keep()[slot]

    copied = read

    def hash(self, slot: int) -> bytes:
        return self.hashes[slot] if self.hashes is not None else tensor_hash(self.read(slot))
