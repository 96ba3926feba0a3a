"""Reads an untrusted ONNX file. Everything is checked before it is used.

Accepted: one flat graph of operators of the standard domain, of opset 13 to 24, with initialisers in the file or beside
it. Refused: other domains, functions, control flow (`If`, `Loop`, `Scan`), sparse tensors, repeated names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from trainer_node.errors import ConfigError
from trainer_node.storage.untrusted_file import read_plain

from ..capture.errors import CaptureError, Unsupported

try:
    import onnx
    from google.protobuf.descriptor import FieldDescriptor
    from google.protobuf.message import DecodeError, Message
except ModuleNotFoundError as error:
    raise ConfigError("ONNX files need onnx; install it with: pip install 'assay-referee[onnx]'") from error

from .roles import Roles, roles_of
from .tensors import to_torch

MAX_FILE_BYTES = (2 << 30) - 1
"""Limit of the model file itself: the most that protobuf can hold. Larger models keep their tensors next to it."""
MAX_NODES = 1 << 18
MAX_ATTRIBUTE_VALUES = 1 << 16
OPSETS = range(13, 25)
_STANDARD = ("", "ai.onnx")


@dataclass(frozen=True)
class OnnxNode:
    """One operator: its inputs and outputs by name, "" for one that is left out."""

    op: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]

    @property
    def where(self) -> str:
        return f"ONNX node {self.name or self.op}"[:160]


@dataclass(frozen=True)
class Graph:
    """A model: nodes in order, tensors and their roles, and inputs with the shapes of the export, "?" if open."""

    opset: int
    inputs: tuple[str, ...]
    shapes: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[OnnxNode, ...]
    tensors: Mapping[str, torch.Tensor] = field(repr=False)
    roles: Roles = field(default_factory=Roles, repr=False)


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
    nodes = tuple(_node(node, supported, opset) for node in _counted(graph.node))
    tensors = {tensor.name: to_torch(tensor, path.parent) for tensor in graph.initializer}
    if graph.sparse_initializer:
        raise Unsupported("sparse tensors", "store them densely", f"{path.name}")
    given = [value for value in graph.input if value.name not in tensors]
    inputs = tuple(value.name for value in given)
    outputs = tuple(value.name for value in graph.output)
    _check_names(inputs, outputs, nodes, tensors, len(graph.initializer))
    return Graph(opset, inputs, tuple(map(_shape, given)), outputs, nodes, tensors, roles_of(graph))


def _shape(value: onnx.ValueInfoProto) -> str:
    """Return the exported shape of an input, for messages."""
    dims = value.type.tensor_type.shape.dim[:8]
    return f"[{', '.join(str(dim.dim_value) if dim.HasField('dim_value') else '?' for dim in dims)}]"


def _opset(model: onnx.ModelProto) -> int:
    """Return the version of the standard operators. Raises Unsupported for another domain or version."""
    versions: dict[str, int] = {entry.domain: entry.version for entry in model.opset_import}
    used = {node.domain for node in model.graph.node}
    for domain in sorted(used - set(_STANDARD)):
        raise Unsupported(
            f"operators of domain {domain[:80]!r}", "export with standard operators only (domain ai.onnx)"
        )
    if model.functions:
        raise Unsupported(
            f"{len(model.functions)} functions", "inline them: onnx.inliner.inline_local_functions"
        )
    version = versions.get("", versions.get("ai.onnx", 0))
    if version not in OPSETS:
        raise Unsupported(
            f"opset {version} of ai.onnx",
            f"export with opset_version from {OPSETS[0]} to {OPSETS[-1]}, "
            "or use onnx.version_converter.convert_version",
        )
    return version


def _counted(nodes: Sequence[onnx.NodeProto]) -> Sequence[onnx.NodeProto]:
    if len(nodes) > MAX_NODES:
        raise CaptureError(f"a model of {len(nodes)} nodes; the limit is {MAX_NODES}")
    return nodes


def _node(node: onnx.NodeProto, supported: Callable[[str], bool], opset: int) -> OnnxNode:
    found = OnnxNode(node.op_type, node.name, tuple(node.input), tuple(node.output), {})
    if not supported(node.op_type):
        raise Unsupported(
            f"operator {node.op_type[:80]} of opset {opset} has no rule",
            "export the model without it, or add a rule in assay_capture.onnx",
            found.where,
        )
    attributes = {attribute.name: _value(attribute, found.where) for attribute in node.attribute}
    return OnnxNode(found.op, found.name, found.inputs, found.outputs, attributes)


def _value(attribute: onnx.AttributeProto, where: str) -> Any:
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
            return to_torch(attribute.t, None)
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
    tensors: Mapping[str, torch.Tensor],
    count: int,
) -> None:
    """Check the order. INVARIANT: each name has one origin, and a node reads only names from before it."""
    known = {"", *inputs, *tensors}
    if len(known) != 1 + len(inputs) + count:
        raise CaptureError("an input or tensor of the model is named twice, or has no name; export it again")
    for node in nodes:
        for name in node.inputs:
            if name not in known:
                raise CaptureError(f"{node.where} reads {name[:80]!r}, which nothing before it gives")
        for name in node.outputs:
            if name and name in known:
                raise CaptureError(f"{node.where} gives {name[:80]!r}, which exists already")
            known.add(name)
    for name in outputs:
        if not name or name not in known:
            raise CaptureError(f"the model's output {name[:80]!r} is given by nothing; export it again")
