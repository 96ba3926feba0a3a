"""Reads an untrusted ONNX file. Everything is checked before it is used.

Accepted: a graph of operators of the standard domain, of opset 11 to 28, with tensors in the file or beside it, and
branches (`If`) in it. Refused: other domains, functions, loops (`Loop`, `Scan`), sparse tensors, repeated names.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from trainer_node.errors import PIP, ConfigError
from trainer_node.storage.untrusted_file import read_plain

from ..capture.errors import CaptureError, Unsupported
from ..capture.untrusted import FileBudget

try:
    import onnx
    from google.protobuf.descriptor import FieldDescriptor
    from google.protobuf.message import DecodeError, Message
except ModuleNotFoundError as error:
    raise ConfigError(
        f"ONNX files need onnx; install it with `{PIP} install 'assay-referee[onnx]'`"
    ) from error

from .graphs import MAX_DEPTH, OnnxNode, Reader, weights_of
from .roles import Role, Roles, roles_of
from .tensors import Tensors

MAX_FILE_BYTES = (2 << 30) - 1
"""Limit of the model file itself: the most that protobuf can hold. Larger models keep their tensors next to it."""
MAX_ATTRIBUTE_VALUES = 1 << 16
OPSETS = range(1, 29)
FIRST_OPSET = 11
"""Oldest opset that is read as a whole; of those before it, operators that are the same there."""
_STANDARD = ("", "ai.onnx")
_LOOPS = dict.fromkeys(
    ("Loop", "Scan"),
    "export with a fixed number of steps, so that the exporter writes each, or use LSTM, GRU or RNN",
)


@dataclass(frozen=True)
class Graph:
    """A model: nodes in order, tensors and their roles, and inputs with the shapes of the export, "?" if open."""

    opset: int
    inputs: tuple[str, ...]
    shapes: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[OnnxNode, ...]
    tensors: Mapping[str, torch.Tensor] = field(repr=False)
    weights: frozenset[str] = field(default_factory=frozenset, repr=False)
    """Tensors that are parameters or buffers; the others are known before tracing."""
    roles: Roles = field(default_factory=Roles, repr=False)
    types: Mapping[str, int] = field(default_factory=dict, repr=False)
    """Element types as far as the file says them; in memory, integers of all sizes are i64."""


def read(path: Path, supported: Callable[[str], bool]) -> Graph:
    """Read a model. `supported` says which operators have rules.

    Raises InvalidInput or CaptureError for a file that is not a model, Unsupported (naming operator and remedy) for a
    feature without support.
    """
    data = read_plain(path, MAX_FILE_BYTES, "keep its tensors in a file next to it")
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except (DecodeError, RecursionError, ValueError) as error:
        raise CaptureError(f"{path} is not an ONNX model: {error}") from error
    _check_text(model)
    if not model.graph.node or not model.graph.output:
        raise CaptureError(f"{path} is not an ONNX model: it has no nodes or no outputs")
    opset = _opset(model)
    graph = model.graph
    if graph.sparse_initializer:
        raise Unsupported("sparse tensors", "store them densely", f"{path.name}")
    stored = Tensors(path.parent, FileBudget(path.name, len(data)))
    reader = Reader(lambda node: _node(node, supported, opset, stored), stored.read)
    try:
        nodes = reader.nodes(graph.node)
        tensors = {tensor.name: stored.read(tensor) for tensor in graph.initializer}
    except MemoryError as error:
        raise CaptureError(f"{path} does not fit into memory; use a machine with more") from error
    given = [value for value in graph.input if value.name not in tensors]
    inputs = tuple(value.name for value in given)
    outputs = tuple(value.name for value in graph.output)
    _check_names(
        inputs, outputs, nodes, {*tensors, *reader.constants}, len(graph.initializer) + len(reader.constants)
    )
    roles = roles_of(graph, nodes, reader.constants)
    tensors |= reader.constants
    weights = _weights(weights_of(nodes, inputs, outputs, tensors), reader.constants, roles)
    return Graph(
        opset, inputs, tuple(map(_shape, given)), outputs, nodes, tensors, weights, roles, _types(graph)
    )


def _types(graph: onnx.GraphProto) -> dict[str, int]:
    found = {value.name: value.type.tensor_type.elem_type for value in (*graph.value_info, *graph.input)}
    found |= {tensor.name: tensor.data_type for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and node.output:
            for attribute in node.attribute:
                found[node.output[0]] = attribute.t.data_type
    return found


def _weights(reaching: frozenset[str], constants: Mapping[str, torch.Tensor], roles: Roles) -> frozenset[str]:
    """Return what may be trained. A file that has weights as initialisers means its other numbers as constants."""
    constant_alone = reaching <= constants.keys()
    return frozenset(
        name
        for name in reaching
        if name not in constants
        or roles.of[name] is Role.PARAMETER
        or (constant_alone and constants[name].numel() > 1)
    )


def _shape(value: onnx.ValueInfoProto) -> str:
    """Return the exported shape of an input, for messages."""
    dims = value.type.tensor_type.shape.dim[:8]
    return f"[{', '.join(str(dim.dim_value) if dim.HasField('dim_value') else '?' for dim in dims)}]"


def _opset(model: onnx.ModelProto) -> int:
    """Return the version of the standard operators. Raises Unsupported for another domain or version."""
    versions: dict[str, int] = {entry.domain: entry.version for entry in model.opset_import}
    for domain, op in sorted(_domains(model.graph, 0)):
        if domain not in _STANDARD:
            raise Unsupported(
                f"operator {op[:80]} of domain {domain[:80]!r}, which is not ONNX's own",
                "export with standard operators only (domain ai.onnx)",
            )
    if model.functions:
        raise Unsupported(
            f"{len(model.functions)} functions", "inline them: onnx.inliner.inline_local_functions"
        )
    version = versions.get("", versions.get("ai.onnx", 0))
    if version not in OPSETS:
        raise Unsupported(
            f"opset {version} of ai.onnx",
            f"export with opset_version from {FIRST_OPSET} to {OPSETS[-1]}",
        )
    return version


def _domains(graph: onnx.GraphProto, depth: int) -> set[tuple[str, str]]:
    """Return domain and operator of all nodes, those in branches included."""
    found = {(node.domain, node.op_type) for node in graph.node}
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH and depth < MAX_DEPTH:
                found |= _domains(attribute.g, depth + 1)
    return found


def _node(node: onnx.NodeProto, supported: Callable[[str], bool], opset: int, stored: Tensors) -> OnnxNode:
    """Read a node without its names and branches, which the reader adds."""
    found = OnnxNode(node.op_type, node.name, (), (), {})
    if node.op_type in _LOOPS:
        raise Unsupported(f"operator {node.op_type}, a loop", _LOOPS[node.op_type], found.where)
    if node.op_type != "If" and not supported(node.op_type):
        raise Unsupported(
            f"operator {node.op_type[:80]} of opset {opset} has no rule",
            "export the model without it, or add a rule in assay_capture.onnx",
            found.where,
        )
    if opset < FIRST_OPSET and not _same(node.op_type, opset):
        raise Unsupported(
            f"operator {node.op_type[:80]} as it was in opset {opset}",
            f"convert the file: onnx.version_converter.convert_version(model, {FIRST_OPSET})",
            found.where,
        )
    attributes = {
        attribute.name: _value(attribute, found.where, stored)
        for attribute in node.attribute
        if attribute.type != onnx.AttributeProto.GRAPH or node.op_type != "If"
    }
    return OnnxNode(found.op, found.name, (), (), attributes)


def _same(op: str, opset: int) -> bool:
    """Return whether an operator of an old opset is defined as in the first that is read."""
    if (op, opset) == ("Upsample", 9):  # NOTE: the next opset has Resize instead
        return True
    try:
        old, new = (onnx.defs.get_schema(op, version) for version in (opset, FIRST_OPSET))
    except onnx.defs.SchemaError:
        return False
    return bool(old.since_version == new.since_version)


def _value(attribute: onnx.AttributeProto, where: str, stored: Tensors) -> Any:
    """Return a number, a string, a list of them, or a tensor. Raises Unsupported for a graph."""
    kind = onnx.AttributeProto
    match attribute.type:
        case kind.FLOAT:
            return float(attribute.f)
        case kind.INT:
            return int(attribute.i)
        case kind.STRING:
            return _text(attribute.s, where)
        case kind.FLOATS:
            return _bounded(attribute.floats, where)
        case kind.INTS:
            return _bounded(attribute.ints, where)
        case kind.STRINGS:
            return tuple(_text(item, where) for item in _bounded(attribute.strings, where))
        case kind.TENSOR:
            return stored.inline(attribute.t)
    raise Unsupported(
        f"attribute {attribute.name[:80]} of type {attribute.type}", "export without control flow", where
    )


def _bounded(values: Sequence[Any], where: str) -> tuple[Any, ...]:
    if len(values) > MAX_ATTRIBUTE_VALUES:
        raise CaptureError(
            f"{where}: an attribute of {len(values)} values; the limit is {MAX_ATTRIBUTE_VALUES}"
        )
    return tuple(values)


def _check_text(message: Message) -> None:
    """Check that every name is text. NOTE: ONNX files are proto2, where a parser does not check it and gives bytes."""
    for kind, value in message.ListFields():
        if kind.type in (FieldDescriptor.TYPE_MESSAGE, FieldDescriptor.TYPE_STRING):
            for part in [value] if isinstance(value, str | bytes | Message) else value:
                if isinstance(part, Message):
                    _check_text(part)
                elif isinstance(part, bytes):
                    raise CaptureError(f"{kind.full_name} {part[:80]!r} is not text; export the model again")


def _text(data: bytes, where: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise CaptureError(f"{where}: an attribute is not text; export the model again") from None


def _check_names(
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    nodes: Sequence[OnnxNode],
    tensors: Collection[str],
    count: int,
) -> None:
    """Check the order. INVARIANT: each name has one origin, and a node reads only names from before it."""
    known = {"", *inputs, *tensors}
    if len(known) != 1 + len(inputs) + count:
        raise CaptureError("an input or tensor of the model is named twice, or has no name; export it again")
    _check_nodes(nodes, known)
    for name in outputs:
        if not name or name not in known:
            raise CaptureError(f"the model's output {name[:80]!r} is given by nothing; export it again")


def _check_nodes(nodes: Sequence[OnnxNode], known: set[str]) -> None:
    """Check nodes after what is known, and add what they give. What a branch gives is known in it alone."""
    for node in nodes:
        for name in node.inputs:
            if name not in known:
                raise CaptureError(f"{node.where} reads {name[:80]!r}, which nothing before it gives")
        for branch in node.branches.values():
            inside = set(known)
            _check_nodes(branch.nodes, inside)
            if len(branch.outputs) != len(node.outputs) or not inside.issuperset(branch.outputs):
                raise Unsupported(
                    "operator If with a branch that lacks outputs", "export the model again", node.where
                )
        for name in node.outputs:
            if name and name in known:
                raise CaptureError(f"{node.where} gives {name[:80]!r}, which exists already")
            known.add(name)
