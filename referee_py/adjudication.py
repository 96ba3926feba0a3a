"""Case 4: the right result of the one disputed operator (docs/protocol.md, section 7; Verde, section 2.3, case 3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from repops.host import exact
from repops.opset import OpError

from .commit import NO_LOG, Record, tensor_hash
from .commit.tensor import Array
from .errors import HashMismatch, InvalidInput
from .execute import Operators
from .program import Structure, TensorType
from .program.modes import USUAL, Exact, Parts, RepopsF32, RoundedF64, Rounding, Tc16
from .rounding.step_log import NodeLog
from .rounding.truth import truth


def adjudicate(
    structure: Structure,
    record: Record,
    inputs: Sequence[Array],
    backend: Operators,
    mode: int = USUAL.byte,
    log: NodeLog | None = None,
) -> Record:
    """Return the right record of a node whose structure and input hashes both sides agree on.

    ``record`` is the record of either side; its outputs are not read. ``inputs`` come from a party, so they are
    checked against the record's hashes before anything runs. ``log`` is the node's log in the run's logs, or None if
    it has none; in a ``mode`` with logs the log is an input too, and the right record names it.

    Raises HashMismatch if a tensor is not the one that the record names, InvalidInput if the record does not belong to
    this structure or if the structure cannot be executed on these tensors.
    """
    outputs = execute_again(structure, record, inputs, backend, mode, log)
    hashes = tuple(tensor_hash(array) for array in outputs)
    return Record(record.structure, record.inputs, hashes, NO_LOG if log is None else log.digest)


def execute_again(
    structure: Structure,
    record: Record,
    inputs: Sequence[Array],
    backend: Operators,
    mode: int = USUAL.byte,
    log: NodeLog | None = None,
) -> list[Array]:
    """Return the right outputs of such a node. Arguments and errors are those of :func:`adjudicate`."""
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
        specs = [(kind.dtype, kind.shape) for kind in map(TensorType.of, inputs)]
        types = tuple(
            TensorType(dtype, shape) for dtype, shape in structure.row.infer(specs, structure.attrs)
        )
        if types == structure.outputs:
            outputs = execute_right(structure, inputs, backend, mode, log)
    except OpError as error:
        raise InvalidInput(f"the disputed operator cannot be executed: {error}") from error
    if types != structure.outputs:
        raise InvalidInput(
            f"{structure.name} gives {', '.join(map(str, types))}, its structure says "
            f"{', '.join(map(str, structure.outputs))}; the program is not sound"
        )
    return outputs


def execute_right(
    structure: Structure, inputs: Sequence[Array], backend: Operators, mode: int, log: NodeLog | None = None
) -> list[Array]:
    """Return the right outputs of a node on inputs that are checked, and fit it. Raises OpError if they do not."""
    return _RIGHT.of(mode)(_Node(structure, inputs, backend, mode, log))


@dataclass(frozen=True, slots=True)
class _Node:
    """A node that is judged, and a way for each mode."""

    structure: Structure
    inputs: Sequence[Array]
    backend: Operators
    mode: int
    log: NodeLog | None

    def on_backend(self) -> list[Array]:
        return self.backend.execute(self.structure.name, list(self.inputs), self.structure.attrs)

    def exactly(self) -> list[Array]:
        return exact.execute(self.structure.name, list(self.inputs), self.structure.attrs)

    def by_log(self) -> list[Array]:
        entries = None if self.log is None else self.log.entries(self.structure.outputs[0].count)
        return truth(self.structure.name, self.inputs, self.structure.attrs, entries, Rounding.of(self.mode))


_RIGHT = Parts(
    {
        RepopsF32: _Node.on_backend,
        Exact: _Node.exactly,
        RoundedF64: _Node.by_log,
        Tc16: _Node.on_backend,
    }
)
