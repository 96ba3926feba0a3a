"""The workers beside worker 0: they do what it says until it says stop."""

from __future__ import annotations

import numpy as np
from repops.host.library import thread_time

from referee_py.execute import Value
from referee_py.rounding.step_log import StepLog

from .by_node import Hashes
from .commands import (
    COMMAND,
    COMMAND_BYTES,
    HASHES,
    LOG,
    MAX_LOG_BYTES,
    STATE,
    TENSOR,
    Command,
    Do,
    OneStep,
    empty,
    receive_tensors,
    received,
    send_log,
    send_seconds,
    send_tensors,
)
from .worker import Worker


def serve(worker: Worker, logs: OneStep | None) -> None:
    """Do what worker 0 says. ``logs`` are those of the worker's backend, if its mode has some. Raises WorkerLost."""
    channel, part = worker.channel, worker.part
    while True:
        command = Command.decode(received(channel, 0, COMMAND_BYTES, COMMAND))
        match command.do:
            case Do.LOAD:
                like = (empty(worker.program.initial[slot].type) for slot in part.slots)
                arrays = list(receive_tensors(channel, 0, like, STATE))
                worker.load({slot: Value(array) for slot, array in zip(part.slots, arrays, strict=True)})
            case Do.STEP | Do.COMMIT:
                _compute(worker, command, logs)
            case Do.GATHER:
                slots = gathered_from(worker, channel.rank)
                send_tensors(channel, 0, (worker.slot(slot) for slot in slots), TENSOR)
            case Do.CHECK:
                send_tensors(channel, 0, worker.operands(command.number), TENSOR)
            case Do.STOP:
                return


def gathered_from(worker: Worker, other: int) -> list[int]:
    """Return the slots that worker 0 gets from another to have the whole state."""
    plan = worker.plan
    held = set(plan.parts[0].slots)
    return [slot for slot in plan.parts[other].slots if slot not in held and plan.slot_owner(slot) == other]


def _compute(worker: Worker, command: Command, logs: OneStep | None) -> None:
    channel, given = worker.channel, command.log_bytes >= 0
    if logs is not None:
        data = received(channel, 0, max(command.log_bytes, 0), LOG).tobytes()
        logs.given = StepLog.decode(data, len(worker.program.nodes), MAX_LOG_BYTES) if given else None
    if command.do is Do.STEP:
        _ = worker.compiled  # NOTE: that is made once, and belongs to no step
    began = thread_time()
    if command.do is Do.STEP:
        worker.step(command.number)
    else:
        before = [worker.slot_hash(slot) for slot in owned_slots(worker)] if command.hash_slots else []
        block = hash_block(worker, worker.commit(command.number), logs is not None) + b"".join(before)
        channel.send(0, np.frombuffer(block, np.uint8).copy(), HASHES).wait()
    if logs is not None and not given:
        send_log(channel, 0, logs.written)
    send_seconds(channel, 0, thread_time() - began)


def owned_slots(worker: Worker, other: int | None = None) -> list[int]:
    """Return the slots that a worker owns, this one or another."""
    number = worker.channel.rank if other is None else other
    return [slot for slot in worker.plan.parts[number].slots if worker.plan.slot_owner(slot) == number]


def hash_block(worker: Worker, hashes: Hashes, with_logs: bool) -> bytes:
    """Return the hashes of a worker's nodes in the order of the nodes: of each output, then of the log if there are
    logs."""
    return b"".join(
        b"".join(hashes[number] if with_logs else hashes[number][:-1]) for number in sorted(worker.owned)
    )
