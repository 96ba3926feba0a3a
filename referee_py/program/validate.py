"""The rules of a well-formed program. Input is hostile: a program file may come from anybody."""

from __future__ import annotations

from collections.abc import Sequence

from repops.opset import I64, OpError, check_spec

from ..errors import InvalidProgram
from .playable import check_playable
from .skeleton import Skeleton, check_opset
from .structure import MAX_CONSTANTS, MAX_NODES, MAX_SLOTS, Kind, Operand, TensorType

_STEP_TYPE = TensorType(I64, ())


def validate(program: Skeleton) -> None:
    """Raise InvalidProgram (or UnknownVersion) naming the first rule that is broken, and where.

    If it returns, every operand exists and comes earlier, every declared type is that of the operator, every slot is
    updated by an output of its own type, and an honest party can always conclude about a node (`playable`).
    """
    check_opset(program.opset)
    _count("nodes", len(program.nodes), MAX_NODES)
    _count("slots", len(program.slots), MAX_SLOTS)
    _count("constants", len(program.constants), MAX_CONSTANTS)
    if not program.nodes:
        raise InvalidProgram("a program needs at least one node")
    if len(program.slots) != len(program.initial):
        raise InvalidProgram(
            f"{len(program.slots)} slots but {len(program.initial)} initial tensors; they must be as many"
        )
    for kind, described in (("constant", program.constants), ("initial slot", program.initial)):
        for k, tensor in enumerate(described):
            _limits(f"{kind} {k}", tensor)
    for node in range(len(program.nodes)):
        _check_node(program, node)
    for j, slot in enumerate(program.slots):
        _check_slot(program, j, slot.node, slot.output)


def _count(what: str, number: int, limit: int) -> None:
    if number >= limit:
        raise InvalidProgram(f"{number} {what}; their number must be below {limit}")


def _limits(where: str, type_: TensorType) -> None:
    try:
        check_spec(where, type_.dtype, type_.shape)
    except OpError as error:
        raise InvalidProgram(str(error)) from error


def _check_node(program: Skeleton, node: int) -> None:
    structure = program.nodes[node]
    structure.encode()  # NOTE: a program built in memory has not come through decode, so its limits are checked here
    inputs = [_operand_type(program, node, operand) for operand in structure.inputs]
    try:
        inferred = structure.row.infer([(t.dtype, t.shape) for t in inputs], structure.attrs)
    except OpError as error:
        raise InvalidProgram(f"node {node}: {error}") from error
    expected = tuple(TensorType(dtype, shape) for dtype, shape in inferred)
    if expected != structure.outputs:
        raise InvalidProgram(
            f"node {node}: {structure.name} gives {_types(expected)}, the program declares {_types(structure.outputs)}"
        )
    check_playable(f"node {node}", structure, inputs)


def _operand_type(program: Skeleton, node: int, operand: Operand) -> TensorType:
    """Return the type of an operand's value. INVARIANT: nodes below `node` have been checked."""
    match operand.kind:
        case Kind.NODE:
            if operand.index >= node:
                raise InvalidProgram(
                    f"node {node} reads node {operand.index}; a node may only read earlier ones"
                )
            outputs = program.nodes[operand.index].outputs
            if operand.output >= len(outputs):
                raise InvalidProgram(
                    f"node {node} reads output {operand.output} of node {operand.index}, which has {len(outputs)}"
                )
            return outputs[operand.output]
        case Kind.SLOT:
            return _listed(node, operand, program.initial)
        case Kind.CONSTANT:
            return _listed(node, operand, program.constants)
        case Kind.STEP:
            return _STEP_TYPE


def _listed(node: int, operand: Operand, described: Sequence[TensorType]) -> TensorType:
    if operand.index >= len(described):
        raise InvalidProgram(
            f"node {node} reads {operand.kind.name.lower()} {operand.index}; there are {len(described)}"
        )
    return described[operand.index]


def _check_slot(program: Skeleton, j: int, node: int, output: int) -> None:
    if node >= len(program.nodes) or output >= len(program.nodes[node].outputs):
        raise InvalidProgram(f"slot {j} is updated by output {output} of node {node}, which does not exist")
    given, own = program.nodes[node].outputs[output], program.initial[j]
    if given != own:
        raise InvalidProgram(f"slot {j} is {own}, but output {output} of node {node} is {given}")


def _types(types: Sequence[TensorType]) -> str:
    return ", ".join(map(str, types)) or "nothing"
