"""Case 3: what the one disputed operator really gives (docs/protocol.md, section 7; Verde, section 2.3, case 3)."""

from __future__ import annotations

from collections.abc import Sequence

from repops.opset import OpError

from .commit import Record, tensor_hash
from .commit.tensor import Array
from .errors import HashMismatch, InvalidInput
from .execute import Backend
from .program import Structure, TensorType


def adjudicate(structure: Structure, record: Record, inputs: Sequence[Array], backend: Backend) -> Record:
    """The right record of a node whose structure and input hashes both sides agree on.

    ``record`` is either side's: its outputs are not looked at. ``inputs`` come from a party and are checked against the
    record's hashes before anything runs.

    Raises HashMismatch if a tensor is not the one that the record names, InvalidInput if the record is not one of this
    structure, or if the structure cannot be executed on these tensors.
    """
    if record.structure != structure.hash() or len(record.inputs) != len(structure.inputs):
        raise InvalidInput(
            f"a record of structure {record.structure.hex()} with {len(record.inputs)} inputs is not one of "
            f"{structure.name} ({structure.hash().hex()}) with {len(structure.inputs)}"
        )
    if len(inputs) != len(record.inputs):
        raise InvalidInput(f"{len(inputs)} tensors for a node of {len(record.inputs)} inputs")
    for position, (array, named) in enumerate(zip(inputs, record.inputs, strict=True)):
        actual = tensor_hash(array)
        if actual != named:
            raise HashMismatch(f"input {position} has hash {actual.hex()}, the record names {named.hex()}")
    try:
        outputs = backend.execute(structure.name, list(inputs), structure.attrs)
    except OpError as error:
        raise InvalidInput(f"the disputed operator cannot be executed: {error}") from error
    types = tuple(TensorType.of(array) for array in outputs)
    if types != structure.outputs:
        raise InvalidInput(
            f"{structure.name} gives {', '.join(map(str, types))}, its structure says "
            f"{', '.join(map(str, structure.outputs))}; the program is not sound"
        )
    return Record(record.structure, record.inputs, tuple(tensor_hash(array) for array in outputs))
