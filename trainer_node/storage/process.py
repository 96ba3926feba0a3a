"""Dealings of a long-running process with the system: a lock on its folder, and the signals that end it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import structlog

from ..errors import AlreadyRunning, ConfigError

_log = structlog.get_logger(__name__)


@contextlib.contextmanager
def exclusive(path: Path, what: str, remedy: str = "or use another") -> Iterator[None]:
    """Lock a file for this process; the system releases it even if we are killed. Raises AlreadyRunning, with what to
    do in place of stopping the other process."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDONLY | os.O_CREAT, 0o600)
    except OSError as error:
        raise ConfigError(
            f"{what} cannot be used: {error.strerror}; name a folder that this user can write"
        ) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AlreadyRunning(
                f"{what} is in use by another process; stop that process, {remedy}"
            ) from None
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def exclusive_name(name: str, what: str) -> Iterator[None]:
    """Hold a name that one process of this machine can have; the system frees it even if we are killed.

    Raises AlreadyRunning. NOTE: it is an abstract socket, which needs no folder that all processes can write to.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as held:
        try:
            held.bind("\0assay/" + name)
        except OSError:
            raise AlreadyRunning(
                f"{what} is in use by another process; stop that process, or use another"
            ) from None
        yield


def _log_signal(number: signal.Signals) -> None:
    _log.info("node.stopping", signal=number.name)


@contextlib.contextmanager
def stop_on_signals(
    stop: threading.Event, tell: Callable[[signal.Signals], None] = _log_signal
) -> Iterator[None]:
    """Let SIGTERM and SIGINT set ``stop``, and report which one came. Another signal acts as without us. Works only in
    the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def handle(number: int, _frame: FrameType | None) -> None:
        stop.set()
        signal.signal(number, before[signal.Signals(number)])
        tell(signal.Signals(number))

    for number in before:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
