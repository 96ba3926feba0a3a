"""A log as bytes, in either form. A program's mode determines the trainer's form; a reader accepts both."""

from __future__ import annotations

from ..program.modes import Form
from . import dense, sparse
from .entries import Log


def pack(log: Log, form: Form) -> bytes:
    """Return the canonical bytes. Raises InvalidInput if the log is malformed."""
    return sparse.pack(log) if form == Form.SPARSE else dense.pack(log)


def unpack(canonical: bytes, elements: int, form: Form) -> Log:
    """Return the log of a node with this many elements. Raises InvalidEncoding for bytes that are not canonical."""
    if form == Form.SPARSE:
        return sparse.unpack(canonical, elements)
    return dense.unpack(canonical, elements)
