"""A log as bytes, in the form that a program's mode names."""

from __future__ import annotations

from ..errors import InvalidEncoding
from . import dense, packing, sparse
from .entries import Log
from .mode import Form

FORMAT = {Form.SPARSE: packing.SPARSE, Form.DENSE: packing.DENSE}
"""The number of each form in a log's digest."""


def pack(log: Log, form: Form) -> bytes | None:
    """The canonical bytes; None for a log without entries, which is left out. Raises InvalidInput for no log at all."""
    if not log.count:
        return None
    return sparse.pack(log) if form == Form.SPARSE else dense.pack(log)


def unpack(canonical: bytes, elements: int, form: Form) -> Log:
    """The log of a node with that many elements. Raises InvalidEncoding for bytes that are no canonical form."""
    if form == Form.SPARSE:
        return sparse.unpack(canonical, elements)
    return dense.unpack(canonical, elements)


def read(canonical: bytes | None, elements: int, form: Form) -> Log:
    """What counts of a log that may be anything: bytes that are no log of so many elements have no entries.

    INVARIANT: this is part of the truth (docs/rounding-logs.md, section 3): every party ignores the same logs.
    """
    if canonical is None:
        return Log.empty(elements)
    try:
        return unpack(canonical, elements, form)
    except InvalidEncoding:
        return Log.empty(elements)
