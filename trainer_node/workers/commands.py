"""Commands of worker 0 to the others, and the numbers of the messages between them besides those of a plan.

hello    a digest of the job, which must be theirs: the first message to each
load     the state before a step: a message for each slot of the worker's part
step     a plain step
commit   a step of which the worker returns its hashes
gather   a message for each slot that it owns and worker 0 has not
check    the operands of a node that it has just computed
stop

After each step a worker says how many seconds it has computed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from repops.tensors import NUMPY_DTYPE

from referee_py.commit.tensor import Array
from referee_py.program import TensorType
from referee_py.rounding.step_log import StepLog

from ..errors import WorkerLost
from .channel import Channel

COMMAND, STATE, HASHES, LOG_SIZE, LOG, TENSOR, SECONDS, HELLO = range(8)
"""Numbers of messages."""
MAX_LOG_BYTES = 1 << 32


class Do(IntEnum):
    LOAD = 1
    STEP = 2
    COMMIT = 3
    GATHER = 4
    CHECK = 5
    STOP = 6


@dataclass(frozen=True, slots=True)
class Command:
    """``number`` is a step, or the node of a check. ``log_bytes``: a log to follow comes next; -1: it is written.
    ``hash_slots``: the hashes of the slots before the step are asked for, too."""

    do: Do
    number: int = 0
    log_bytes: int = -1
    hash_slots: bool = False

    def encode(self) -> Array:
        """Return the command as u8 [32]."""
        return np.array([self.do, self.number, self.log_bytes, self.hash_slots], np.int64).view(np.uint8)

    @classmethod
    def decode(cls, data: Array) -> Command:
        do, number, log_bytes, hash_slots = (int(word) for word in data.view(np.int64))
        return cls(Do(do), number, log_bytes, bool(hash_slots))


COMMAND_BYTES = 32


def to_all(channel: Channel, data: Array, number: int) -> None:
    """Send bytes to every other worker."""
    for pending in [channel.send(to, data, number) for to in range(channel.size) if to != channel.rank]:
        pending.wait()


def received(channel: Channel, source: int, size: int, number: int) -> Array:
    """Return the next message of that number from a worker, u8 [size]."""
    data = np.empty(size, np.uint8)
    if size:
        channel.receive(source, data, number).wait()
    return data


def empty(type_: TensorType) -> Array:
    """Return new memory for a tensor of a type."""
    return np.empty(type_.shape, NUMPY_DTYPE[type_.dtype])


def raw(array: Array) -> Array:
    """Return the bytes of a tensor, u8 [n]; they may be its own memory."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def send_tensors(channel: Channel, to: int, arrays: Iterable[Array], number: int) -> None:
    """Send tensors to a worker, one message for each that has elements."""
    held = [raw(array) for array in arrays if array.size]
    for pending in [channel.send(to, data, number) for data in held]:
        pending.wait()


def receive_tensors(channel: Channel, source: int, like: Iterable[Array], number: int) -> Iterator[Array]:
    """Yield the tensors that a worker sends, in new memory like ``like``, which is overwritten."""
    for array in like:
        if array.size:
            channel.receive(source, array.reshape(-1).view(np.uint8), number).wait()
        yield array


def send_seconds(channel: Channel, to: int, seconds: float) -> None:
    """Send how long this worker has computed."""
    channel.send(to, np.array([seconds]).view(np.uint8), SECONDS).wait()


def receive_seconds(channel: Channel, source: int) -> float:
    """Return how long a worker says that it has computed."""
    return float(received(channel, source, 8, SECONDS).view(np.float64)[0])


def send_log(channel: Channel, to: int, log: StepLog) -> None:
    """Send the rounding logs of a step, as a file of unknown length."""
    data = np.frombuffer(log.encode(), np.uint8)
    for pending in (
        channel.send(to, np.array([data.size], np.int64).view(np.uint8), LOG_SIZE),
        channel.send(to, data.copy(), LOG),
    ):
        pending.wait()


def receive_log(channel: Channel, source: int, node_count: int) -> StepLog:
    """Return the rounding logs that a worker sends. Raises WorkerLost for a size that they cannot have."""
    size = int(received(channel, source, 8, LOG_SIZE).view(np.int64)[0])
    if not 0 <= size <= MAX_LOG_BYTES:
        raise WorkerLost(source, f"says that its logs have {size} bytes; there may be {MAX_LOG_BYTES}")
    return StepLog.decode(received(channel, source, size, LOG).tobytes(), node_count, MAX_LOG_BYTES)


class OneStep:
    """The rounding logs of the step that a worker computes: those to follow, or those that it writes."""

    def __init__(self) -> None:
        self.given: StepLog | None = None
        self.written = StepLog.empty()

    def get(self, step: int) -> StepLog | None:  # noqa: ARG002
        return self.given

    def put(self, step: int, log: StepLog) -> None:  # noqa: ARG002
        self.written = log
