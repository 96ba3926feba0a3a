"""Connections between the workers of a run: messages of known length from one to another."""

from __future__ import annotations

from typing import Protocol

from referee_py.commit.tensor import Array

MEET_S = 300.0
"""Seconds in which all processes must begin, by default: reading a bundle may take long."""


class Pending(Protocol):
    """A message on its way."""

    def wait(self) -> None:
        """Return when the message has come, or may be overwritten. Raises WorkerLost, with the worker that is waited
        for, if it is gone or does not answer in time."""
        ...


class Channel(Protocol):
    """The workers of a run, numbered from 0. Both ends of a message know its length; messages of one number between two
    workers come in the order in which they were sent.

    SAFETY: what comes is trusted as one's own memory: a channel connects processes of one operator alone.
    """

    @property
    def rank(self) -> int:
        """This worker's number."""
        ...

    @property
    def size(self) -> int:
        """How many workers there are."""
        ...

    def send(self, to: int, data: Array, number: int) -> Pending:
        """Begin to send bytes, u8 [n]; they must not change before ``wait`` of the result has returned."""
        ...

    def receive(self, source: int, into: Array, number: int) -> Pending:
        """Begin to receive bytes into u8 [n]."""
        ...
