"""Processes that we start, and the signals that end us together with them.

    with ended_by_signals():             SIGTERM, SIGINT and SIGHUP leave the block, as an exception
        with undisturbed(): ...          they wait until this block is over
        with until_interrupted(): ...    SIGINT ends this block, and nothing else
        heed()                           raises what has come and was lost

A signal that is ignored, as by nohup, stays ignored.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import threading
from collections.abc import Iterable, Iterator
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
STOP_TIMEOUT_S = 10.0


class _Signalled:
    """The signals that this process has received. NOTE: the main thread alone handles them, so there is no lock."""

    came: int | None = None
    held = 0


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """Let each of `SIGNALS` raise KeyboardInterrupt (SIGINT) or SystemExit in the block; works in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}

    def handle(number: int, _frame: FrameType | None) -> None:
        _Signalled.came = number
        if not _Signalled.held:
            heed()

    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        _Signalled.came = None


def heed() -> None:
    """Raise KeyboardInterrupt or SystemExit if a signal has come.

    NOTE: an exception that a handler raises while an object is finalized is lost; so loops that wait call this.
    """
    if _Signalled.came == signal.SIGINT:
        raise KeyboardInterrupt
    if _Signalled.came is not None:
        raise SystemExit(128 + _Signalled.came)


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Let signals wait for the end of the block. SAFETY: a process that has begun and is noted nowhere would stay."""
    _Signalled.held += 1
    try:
        yield
    finally:
        _Signalled.held -= 1
    if not _Signalled.held:
        heed()


@contextlib.contextmanager
def until_interrupted() -> Iterator[None]:
    """Let SIGINT leave the block, as what the user was asked for: nothing raises it again."""
    try:
        yield
    except KeyboardInterrupt:
        _Signalled.came = None


def end(processes: Iterable[subprocess.Popen[bytes]]) -> None:
    """End processes of ours, politely at first. Signals wait meanwhile."""
    with undisturbed():
        started = list(processes)
        for process in started:
            process.terminate()
        for process in started:
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def output_of(command: list[str]) -> tuple[int, str]:
    """Run a command to its end. Returns its status and what it has written to stderr; a signal ends it, too."""
    process: subprocess.Popen[bytes] | None = None
    try:
        with undisturbed():
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        _, told = process.communicate()
        return process.returncode, told.decode(errors="replace")
    finally:
        end([process] if process is not None else [])
