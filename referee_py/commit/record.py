"""Node records: what one operator did in one step (docs/protocol.md, section 2; Verde's AugmentedCGNode)."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import InvalidEncoding
from .hashing import HASH_BYTES, Tag, digest

MAX_INPUTS = 255
MAX_OUTPUTS = 8

NO_LOG = bytes(HASH_BYTES)
"""Log hash of a node without a rounding log."""


@dataclass(frozen=True, slots=True)
class Record:
    """Hashes of a node's structure, inputs, outputs and rounding log; each 32 bytes."""

    structure: bytes
    inputs: tuple[bytes, ...]
    outputs: tuple[bytes, ...]
    log: bytes = NO_LOG

    def __post_init__(self) -> None:
        if len(self.inputs) > MAX_INPUTS or len(self.outputs) > MAX_OUTPUTS:
            raise InvalidEncoding(
                f"a record with {len(self.inputs)} inputs and {len(self.outputs)} outputs; "
                f"the limits are {MAX_INPUTS} and {MAX_OUTPUTS}"
            )
        if any(len(h) != HASH_BYTES for h in (self.structure, *self.inputs, *self.outputs, self.log)):
            raise InvalidEncoding(f"every hash of a record has {HASH_BYTES} bytes")

    def encode(self) -> bytes:
        """Return ``structure ‖ nin u8 ‖ nout u8 ‖ inputs ‖ outputs ‖ log``, the preimage without its tag."""
        # SAFETY: the encoding holds the counts, so inputs and outputs cannot be shifted into each other.
        counts = bytes([len(self.inputs), len(self.outputs)])
        return b"".join((self.structure, counts, *self.inputs, *self.outputs, self.log))

    def hash(self) -> bytes:
        """Return the RECORD hash, a leaf of the step tree."""
        return digest(Tag.RECORD, self.encode())

    @classmethod
    def decode(cls, data: bytes) -> Record:
        """Decode the result of :meth:`encode`. Raises InvalidEncoding for anything else."""
        head = HASH_BYTES + 2
        if len(data) < head:
            raise InvalidEncoding(f"a record of {len(data)} bytes is shorter than its head of {head}")
        nin, nout = data[HASH_BYTES], data[HASH_BYTES + 1]
        expected = head + (nin + nout + 1) * HASH_BYTES
        if len(data) != expected:
            raise InvalidEncoding(
                f"a record of {nin} inputs and {nout} outputs has {expected} bytes, not {len(data)}"
            )
        hashes = [data[i : i + HASH_BYTES] for i in range(head, expected, HASH_BYTES)]
        return cls(data[:HASH_BYTES], tuple(hashes[:nin]), tuple(hashes[nin : nin + nout]), hashes[-1])
