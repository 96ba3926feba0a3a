"""The channel over torch.distributed: gloo, which moves bytes between processes on one machine or on several.

SAFETY: gloo neither encrypts nor authenticates. Workers that this package starts find each other through a file in a
folder that only this user can read, and listen on the loopback interface. Other users of the machine can connect there,
so both ends of a connection first show that they know a key from that file. How others meet is for `torchrun` and the
operator's network (docs/programs.md, section 12).

Who is to blame, when a wait fails, is asked and not guessed: every worker has a thread that says for whom it
waits (`Roll`). So a chain of waits leads to the one that is dead, or hangs and waits for nobody.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import numpy as np
import torch
import torch.distributed

from referee_py.commit.tensor import Array

from ..errors import WorkerLost
from .channel import MEET_S
from .commands import COMMAND, HELLO

dist: Any = torch.distributed  # its process groups are not in its list of exports

IDLE = timedelta(days=30)
"""Time for which a worker waits for a command: worker 0 may be busy with other things."""
ANSWER_S = 5.0
"""Seconds in which a worker that lives says for whom it waits."""
LOOK_S = 0.5
"""Seconds between two looks whether somebody asks."""
LOOPBACK = "127.0.0.1"
_THREADS = 2
"""Threads of gloo that move messages."""

Explain = Callable[[int], str | None]
"""Returns how a worker's process has ended; None if that is unknown."""


class Roll:
    """Answers of workers, in a store that all of them have: for whom each one waits, once asked."""

    def __init__(self, store: Any, rank: int) -> None:
        self._store, self._rank = store, rank
        self.waiting: int | None = None
        """The worker that this one waits for now."""
        self._done = threading.Event()
        threading.Thread(target=self._answer, name="workers-roll", daemon=True).start()

    def say(self, text: str) -> None:
        """Say for whom this worker waits, or that it is done."""
        self._store.set(f"says/{self._rank}", text)

    def close(self) -> None:
        self._done.set()

    def culprit(self, first: int) -> tuple[int, bool]:
        """Return the worker at the end of the chain of waits that begins with ``first``, and whether it lives."""
        self._store.set("asked", "1")
        seen = {self._rank}
        worker = first
        while True:
            says = self._heard(worker)
            if says is None:
                return worker, False
            if (
                not says.isdigit() or int(says) in seen
            ):  # NOTE: who waits for us waits because of somebody else
                return worker, True
            seen.add(worker)
            worker = int(says)

    def _heard(self, worker: int) -> str | None:
        until = time.monotonic() + ANSWER_S
        while time.monotonic() < until:
            if self._store.check([f"says/{worker}"]):
                return str(self._store.get(f"says/{worker}").decode())
            time.sleep(LOOK_S / 5)
        return None

    def _answer(self) -> None:
        while not self._done.wait(LOOK_S):
            try:
                if self._store.check(["asked"]):
                    self.say("busy" if self.waiting is None else str(self.waiting))
                    return
            except RuntimeError:  # the store went with the worker that kept it
                return


class Gloo:
    """A channel (`channel.Channel`) of ``size`` processes that share ``store``. Raises WorkerLost if they do not meet.

    ``timeout_s`` bounds each wait for another worker within a step, and ``meet_s`` that for all to come. ``explain``
    says how a process has ended. ``loopback``: all are processes of this machine, and nobody outside can connect. A
    process may have several channels.
    """

    def __init__(
        self,
        store: Any,
        rank: int,
        size: int,
        timeout_s: float,
        explain: Explain = lambda _: None,
        *,
        loopback: bool = False,
        meet_s: float = MEET_S,
    ) -> None:
        self.rank, self.size = rank, size
        self._explain, self._timeout_s = explain, timeout_s
        if rank == 0:
            store.set("key", secrets.token_hex(32))
        store.set(f"here/{rank}", "1")
        if rank == 0:
            self._await_all(store, meet_s)
        group = dist.ProcessGroupGloo
        try:
            options = group._Options()
            options._timeout, options._threads = timedelta(seconds=timeout_s), _THREADS
            device = group.create_device(hostname=LOOPBACK) if loopback else group.create_default_device()
            options._devices = [device]
            self._group = group(dist.PrefixStore("gloo", store), rank, size, options)
        except (RuntimeError, ValueError) as error:
            raise self._lost(0 if rank else 1, f"cannot be reached: {_first_line(error)}") from error
        self._roll = Roll(store, rank)
        self._authenticate(bytes.fromhex(store.get("key").decode()))

    def send(self, to: int, data: Array, number: int) -> _Work:
        with _told(self, to):
            return _Work(self, self._group.send([torch.from_numpy(data)], to, number), to, None)

    def receive(self, source: int, into: Array, number: int) -> _Work:
        patience = IDLE if number == COMMAND else None
        with _told(self, source):
            work = self._group.recv([torch.from_numpy(into)], source, number)
            return _Work(self, work, source, patience)

    def wait(self, work: Any, peer: int, patience: timedelta | None) -> None:
        """Wait for a message to or from ``peer``. Raises WorkerLost."""
        self._roll.waiting = peer
        with _told(self, peer):
            work.wait() if patience is None else work.wait(patience)
        self._roll.waiting = None

    def blame(self, peer: int, error: Exception) -> WorkerLost:
        """Return the error that names who is to blame for a wait for ``peer`` that has failed."""
        self._roll.say(str(peer))
        if self.rank:
            return WorkerLost(peer, f"does not answer ({_first_line(error)})")
        worker, lives = self._roll.culprit(peer)
        why = "lets the others wait, and waits for nobody itself" if lives else "gives no sign of life"
        return self._lost(worker, why)

    def close(self) -> None:
        """Leave the others."""
        self._roll.close()
        self._group = None

    def _lost(self, worker: int, why: str) -> WorkerLost:
        ended = self._explain(worker)
        return WorkerLost(worker, why if ended is None else ended)

    def _authenticate(self, key: bytes) -> None:
        """Exchange proofs of the key with every other worker, which depend on the two and their direction. Raises
        WorkerLost for a peer without it."""
        others = [other for other in range(self.size) if other != self.rank]
        came = {other: np.empty(hashlib.sha256().digest_size, np.uint8) for other in others}
        coming = {other: self.receive(other, came[other], HELLO) for other in others}
        leaving = [
            self.send(other, np.frombuffer(_proof(key, self.rank, other), np.uint8).copy(), HELLO)
            for other in others
        ]
        for other in others:
            coming[other].wait()
            if not hmac.compare_digest(came[other].tobytes(), _proof(key, other, self.rank)):
                raise WorkerLost(other, "does not know the key of this run: somebody else has connected")
        for pending in leaving:
            pending.wait()

    def _await_all(self, store: Any, meet_s: float) -> None:
        """Wait until all processes have begun, or one has ended."""
        until = time.monotonic() + meet_s
        for worker in range(1, self.size):
            while not store.check([f"here/{worker}"]):
                if self._explain(worker) is not None or time.monotonic() > until:
                    raise self._lost(worker, f"has not come within {meet_s:g} s")
                time.sleep(LOOK_S / 5)


class _Work:
    """A message of a channel on its way (`channel.Pending`)."""

    def __init__(self, channel: Gloo, work: Any, peer: int, patience: timedelta | None) -> None:
        self._channel, self._work, self._peer, self._patience = channel, work, peer, patience

    def wait(self) -> None:
        self._channel.wait(self._work, self._peer, self._patience)


class _told:  # noqa: N801
    """A block whose errors of torch.distributed name a worker."""

    def __init__(self, channel: Gloo, peer: int) -> None:
        self._channel, self._peer = channel, peer

    def __enter__(self) -> None: ...

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, RuntimeError):
            raise self._channel.blame(self._peer, error) from error


def _proof(key: bytes, sender: int, receiver: int) -> bytes:
    return hmac.digest(key, f"assay worker {sender} to {receiver}".encode(), "sha256")


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0][:200]
