"""Roles of an ONNX file's tensors: parameter or not, by the evidence in the file.

ONNX has one kind of stored tensor. PyTorch's newer exporter notes with each what it was in the model, and from which
others a folded one was computed. A file of the older exporter has only names and places. So, the first that applies:

    noted as a parameter                        parameter
    noted as a buffer or a constant             buffer
    folded from parameters used nowhere else    parameter (a transposed weight)
    folded from no parameter                    buffer
    named as buffers are (`inv_freq`)           buffer
    named as parameters are (`weight`)          parameter
    read only as a layer's weight or bias       parameter
    all others                                  doubtful: whoever trains the model has to say

A noted parameter is doubtful too if the exporter merged it with a buffer that held the same numbers, or the reverse.
"""

from __future__ import annotations

import enum
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import onnx
import torch

from .graphs import OnnxNode, flat

MAX_NOTE = 1 << 24
"""Longest note that is read, in characters; longer ones count as absent."""

_KIND = "pkg.torch.export.graph_signature.InputSpec.kind"
_SIGNATURE = "pkg.torch.export.ExportedProgram.graph_signature"
_ORIGINAL = "pkg.torch.onnx.original_node_name"
_FOLDED = "pkg.onnxscript.optimizer.folded_from"
_CALL = "pkg.torch.onnx.fx_node"

_BUFFER = re.compile(
    r"(original_)?inv_freq|freqs?|freqs_cis|pe|positions?|position_ids|token_type_ids|(\w+_)?mask|masked_bias"
    r"|(cos|sin)(_cached)?|running_(mean|var)|num_batches_tracked"
)
_PARAMETER = re.compile(
    r"weight|bias|gamma|beta|(in|[qkv])_proj_(weight|bias)|weight_(g|v|hr_l\d+(_reverse)?)"
    r"|(weight|bias)_[ih]h(_l\d+(_reverse)?)?"
)
_RECURRENT = (1, 2, 3)
_LAYERS: dict[str, tuple[int, ...]] = {
    "Conv": (1, 2),
    "ConvTranspose": (1, 2),
    "Gemm": (1, 2),
    "BatchNormalization": (1, 2),
    "LayerNormalization": (1, 2),
    "GroupNormalization": (1, 2),
    "InstanceNormalization": (1, 2),
    "RMSNormalization": (1,),
    "PRelu": (1,),
    "LSTM": _RECURRENT,
    "GRU": _RECURRENT,
    "RNN": _RECURRENT,
}
"""Inputs of layers that hold trained tensors and nothing else."""


class Role(enum.Enum):
    PARAMETER = "parameter"
    BUFFER = "buffer"
    DOUBTFUL = "doubtful"


@dataclass(frozen=True)
class Roles:
    """The role of each tensor, and how the file shows that batch norm was folded away ("" if it does not)."""

    of: Mapping[str, Role] = field(default_factory=dict)
    folded_norm: str = ""


def roles_of(
    graph: onnx.GraphProto,
    nodes: Sequence[OnnxNode] = (),
    constants: Mapping[str, torch.Tensor] | None = None,
) -> Roles:
    """Return the roles of the graph's tensors, and of those in `Constant` nodes and branches."""
    constants = constants or {}
    names = [tensor.name for tensor in graph.initializer]
    notes = _Notes(graph, names)
    order = list(flat(nodes))
    origin = {name: name for name in (*names, *constants)}
    uses: dict[str, set[tuple[str, int]]] = {name: set() for name in origin}
    for node in order:
        for place, name in enumerate(node.inputs):
            if name not in origin:
                continue
            if node.op == "Identity":
                origin.update(dict.fromkeys(node.outputs, origin[name]))
            else:
                uses[origin[name]].add((node.op, place))
    merged = notes.merged(graph.node)
    return Roles(
        {name: Role.DOUBTFUL if name in merged else _role(name, notes, uses[name]) for name in uses},
        _folded_norm(graph, notes, uses),
    )


def _role(name: str, notes: _Notes, uses: Iterable[tuple[str, int]]) -> Role:
    if name in notes.kinds:
        return Role.PARAMETER if notes.kinds[name] == "PARAMETER" else Role.BUFFER
    if name in notes.folded:
        sources = {source for source in notes.folded[name] if source in notes.kinds}
        parameters = {source for source in sources if notes.kinds[source] == "PARAMETER"}
        if not parameters:
            return Role.BUFFER
        alone = all(notes.behind[source] == 1 for source in parameters)
        return Role.PARAMETER if parameters == sources and alone else Role.DOUBTFUL
    leaf = re.split(r"[./]", name)[-1]
    if _BUFFER.fullmatch(leaf):
        return Role.BUFFER
    if _PARAMETER.fullmatch(leaf):
        return Role.PARAMETER
    layers = bool(uses) and all(place in _LAYERS.get(op, ()) for op, place in uses)
    return Role.PARAMETER if layers else Role.DOUBTFUL


class _Notes:
    """Notes of PyTorch's newer exporter: kinds by name, and the sources of folded tensors."""

    def __init__(self, graph: onnx.GraphProto, names: Sequence[str]) -> None:
        self.kinds: dict[str, str] = {}
        self.folded: dict[str, list[str]] = {}
        self._original: dict[str, str] = {}
        """Names in the exported program, by the names of the tensors."""
        signature = _note(graph.metadata_props, _SIGNATURE).partition("# outputs")[0]
        for original, kind, target in re.findall(
            r"^(\w+): (PARAMETER|BUFFER|CONSTANT_TENSOR) target='([^'\n]*)'", signature, re.MULTILINE
        ):
            self.kinds[target] = kind
            self._original[target] = original
        self.signature = frozenset(self.kinds)
        known = set(names)
        for value in (*graph.value_info, *graph.initializer):
            if value.name not in known:
                continue
            if kind := _note(value.metadata_props, _KIND):
                self.kinds[value.name] = kind
            if original := _note(value.metadata_props, _ORIGINAL):
                self._original[value.name] = original
            if sources := _note(value.metadata_props, _FOLDED):
                self.folded[value.name] = re.findall(r"'([^']*)'", sources)
        self._present = known
        self.behind = Counter(source for sources in self.folded.values() for source in set(sources))
        self.behind.update(known)

    def merged(self, nodes: Iterable[onnx.NodeProto]) -> set[str]:
        """Return tensors that stand for one of the other kind: the call that a node came from names another."""
        gone = {self._original[name]: self.kinds[name] for name in self.signature - self._present}
        found: set[str] = set()
        if not gone:
            return found
        for node in nodes:
            called = set(re.findall(r"%(\w+)", _note(node.metadata_props, _CALL).partition("(args")[2]))
            missing = {gone[name] == "PARAMETER" for name in called & gone.keys()}
            for name in node.input:
                kind = self.kinds.get(name)
                if name not in self._present or kind is None or self._original.get(name) in called:
                    continue
                if (kind != "PARAMETER") in missing:
                    found.add(name)
        return found


def _note(properties: Iterable[onnx.StringStringEntryProto], key: str) -> str:
    value = next((entry.value for entry in properties if entry.key == key), "")
    return value if len(value) <= MAX_NOTE else ""


def _folded_norm(graph: onnx.GraphProto, notes: _Notes, uses: Mapping[str, Iterable[tuple[str, int]]]) -> str:
    """Return what shows that batch norm has become part of other tensors."""
    statistics = {name for node in graph.node if node.op_type == "BatchNormalization" for name in node.input}
    for name in sorted(notes.signature - statistics):
        if re.split(r"[./]", name)[-1] in ("running_mean", "running_var") and not statistics:
            return f"the exported model had {name[:80]}, which no node of the file normalises with"
    for name, places in sorted(uses.items()):
        # NOTE: the older exporter renames the weight of a convolution only when it multiplies batch norm into it.
        if re.fullmatch(r"onnx::Conv_\d+", name) and ("Conv", 1) in places:
            return f"the weight {name[:80]} is a product with the scale of batch norm"
    return ""
