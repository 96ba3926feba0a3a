"""Workers of a run as threads of this process, over queues in place of a network; everything else is the real part."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from referee_py.commit.tensor import Array

WAIT_S = 60.0


@dataclass
class Network:
    """Queues by sender, receiver and number of the message."""

    size: int
    queues: dict[tuple[int, int, int], queue.Queue] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    sent: int = 0
    """Bytes, by all workers."""

    def of(self, sender: int, receiver: int, number: int) -> queue.Queue:
        with self.lock:
            return self.queues.setdefault((sender, receiver, number), queue.Queue())


@dataclass
class Wait:
    then: Callable[[], None]

    def wait(self) -> None:
        self.then()


@dataclass
class Queues:
    """The channel of one worker."""

    network: Network
    rank: int

    @property
    def size(self) -> int:
        return self.network.size

    def send(self, to: int, data: Array, number: int) -> Wait:
        self.network.sent += data.nbytes
        self.network.of(self.rank, to, number).put(data.tobytes())
        return Wait(lambda: None)

    def receive(self, source: int, into: Array, number: int) -> Wait:
        def wait() -> None:
            came = self.network.of(source, self.rank, number).get(timeout=WAIT_S)
            into[:] = np.frombuffer(came, np.uint8)

        return Wait(wait)


def together(works: Sequence[Callable[[], None]]) -> None:
    """Run one function for each worker at the same time; raise the first error."""
    errors: list[BaseException] = []

    def run(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
