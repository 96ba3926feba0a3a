"""A log as bytes, in either form. A program's mode says which one its trainer writes; a reader takes both."""

from __future__ import annotations

from . import dense, sparse
from .entries import Log
from .mode import Form


def pack(log: Log, form: Form) -> bytes:
    """The canonical bytes. Raises InvalidInput for what is no log."""
    return sparse.pack(log) if form == Form.SPARSE else dense.pack(log)


def unpack(canonical: bytes, elements: int, form: Form) -> Log:
    """The log of a node with that many elements. Raises InvalidEncoding for bytes that are no canonical form."""
    if form == Form.SPARSE:
        return sparse.unpack(canonical, elements)
    return dense.unpack(canonical, elements)
