"""An ONNX graph as a module: it runs the rules in order, so eager PyTorch and the capture see ordinary operators.

f32 tensors of the file with at least one dimension are parameters or buffers, under the names of the file, as `roles`
finds. Running statistics that the graph updates in training mode are buffers, written in place. All other values are
known before tracing.
"""

from __future__ import annotations

import contextlib
import fnmatch
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import torch
import torch.fx.traceback

from ..capture.errors import CaptureError, Unsupported
from .model import Graph, OnnxNode, read
from .operators import OPERATORS
from .roles import Role
from .values import TRAINING_FORM, Call, Given, Known, check_size, untraced

MAX_FOLDED_INPUT = 1 << 20
"""Largest operand, in elements, of an operator that is computed before tracing. Larger ones are traced as constants."""

MAX_LISTED = 20
"""Most names in a refusal."""


def load(
    path: Path, *, output: str | None = None, freeze: Sequence[str] = (), train: Sequence[str] = ()
) -> OnnxModule:
    """Return the module of an ONNX file. Raises the errors of `read`.

    `output` names the module's output, by default the first output of the file. Tensors whose name matches a pattern
    of `freeze` (as `encoder.*`) are not trained, those of `train` are; the file decides about the rest. If it does
    not, `forward` raises in training mode.
    """
    return OnnxModule(read(path, OPERATORS.__contains__), output=output, freeze=freeze, train=train)


class OnnxModule(torch.nn.Module):
    """A module that takes the graph's inputs in order and gives one output. Raises CaptureError, Unsupported."""

    def __init__(
        self,
        graph: Graph,
        *,
        output: str | None = None,
        freeze: Sequence[str] = (),
        train: Sequence[str] = (),
    ) -> None:
        super().__init__()
        self.inputs = graph.inputs
        self.output = output or graph.outputs[0]
        if self.output not in graph.outputs:
            raise CaptureError(
                f"the model has no output {self.output[:80]!r}; it has {', '.join(graph.outputs[:20])}"
            )
        self._opset = graph.opset
        self._exported = ", ".join(map(" ".join, zip(graph.inputs, graph.shapes, strict=True)))[:300]
        self._statistics = _statistics(graph)
        self._nodes = _needed(graph, self.output)
        self._known: dict[str, Known] = {}
        self._places: dict[str, tuple[torch.nn.Module, str]] = {}
        self._folded_norm = graph.roles.folded_norm
        self._doubtful: list[str] = []
        roles = _decided(graph, self._statistics, freeze, train)
        read_names = {name for node in self._nodes for name in node.inputs} | {self.output}
        for name, tensor in graph.tensors.items():
            if name not in read_names:
                continue
            if tensor.dtype != torch.float32 or not tensor.ndim:
                self._known[name] = Known(tensor)
                continue
            role = roles[name]
            if role is Role.DOUBTFUL:
                self._doubtful.append(f"{name[:80]} {list(tensor.shape)}")
            self._places[name] = _register(self, name, tensor, role is Role.BUFFER, role is Role.PARAMETER)
        self._last = _last_uses(self._nodes, self.output)

    def forward(self, *given: torch.Tensor, **named: torch.Tensor) -> torch.Tensor:
        batch = {**dict(zip(self.inputs, given, strict=False)), **named}
        if len(given) + len(named) != len(self.inputs) or set(batch) != set(self.inputs):
            raise CaptureError(
                f"the model takes {', '.join(self.inputs)}; {len(given)} tensors were given, and {list(named)}"
            )
        if self.training:
            self._check_training()
        values: dict[str, Given] = {"": None, **batch, **self._known}
        for name, (scope, leaf) in self._places.items():
            values[name] = getattr(scope, leaf)
        for number, node in enumerate(self._nodes):
            for name in node.inputs:
                _check_given(name, values, node.where)
            results = self._run(node, [values[name] for name in node.inputs])
            for name, result in zip(node.outputs, results, strict=False):
                values[name] = result
            for name in self._last[number]:
                values.pop(name, None)
        _check_given(self.output, values, "the model's output")
        result = values[self.output]
        if not isinstance(result, torch.Tensor):
            raise CaptureError(f"output {self.output[:80]!r} does not depend on the inputs")
        return result

    def _check_training(self) -> None:
        """Raise if the file does not say what the model does, or what changes, in training."""
        if self._folded_norm:
            raise Unsupported(
                f"batch norm that was folded into other tensors, in a job that trains ({self._folded_norm})",
                TRAINING_FORM,
            )
        if self._doubtful:
            count, shown = len(self._doubtful), ", ".join(self._doubtful[:MAX_LISTED])
            more = f" and {count - MAX_LISTED} more" if count > MAX_LISTED else ""
            raise CaptureError(
                f"the file does not say which of {count} tensors are parameters and which are buffers: {shown}{more}; "
                "say --train NAME or --freeze NAME for each (train=, freeze= in Python; patterns such as 'encoder.*')"
            )

    def _run(self, node: OnnxNode, inputs: list[Given]) -> Sequence[Given]:
        """Return the outputs of one node, without those that its operator does not give."""
        operator = OPERATORS[node.op]
        known = [value for value in inputs if isinstance(value, Known)]
        folding = operator.folds and len(known) == sum(value is not None for value in inputs)
        folding = folding and all(value.tensor.numel() <= MAX_FOLDED_INPUT for value in known)
        if folding and operator.broadcasts and known:
            shape = torch.broadcast_shapes(*(value.tensor.shape for value in known))
            check_size(shape, node.where)
        call = Call(node, self._opset, self.training, folding)
        try:
            with untraced() if folding else _annotated(node.where):
                result = operator.rule(call, *inputs)
        except CaptureError:
            raise
        except Exception as error:  # NOTE: errors from untrusted attributes have no common base
            raise CaptureError(
                f"{node.where}: {node.op} of {_shapes(inputs)} fails: {str(error)[:300]} "
                f"(the model was exported for {self._exported}; other sizes may need another export)"
            ) from error
        results = result if isinstance(result, tuple | list) else (result,)
        if node.op == "BatchNormalization" and len(results) == 3:
            results = (results[0], *self._update(node, results[1:]))
        return [Known(r) if folding and isinstance(r, torch.Tensor) else r for r in results]

    def _update(self, node: OnnxNode, statistics: Sequence[torch.Tensor]) -> Iterator[torch.Tensor]:
        """Average running statistics, which are part of the state, in place, as PyTorch's own layers do."""
        keep = float(node.attributes.get("momentum", 0.9))
        for name, value in zip(node.inputs[3:5], statistics, strict=True):
            if name not in self._places:
                raise Unsupported(
                    "running statistics that are computed", "store them in the file", node.where
                )
            scope, leaf = self._places[name]
            with torch.no_grad():
                yield getattr(scope, leaf).mul_(keep).add_(value * (1 - keep))


def _check_given(name: str, values: Mapping[str, Given], where: str) -> None:
    """Raise Unsupported for an output that its operator's rule leaves out, such as the mask of dropout."""
    if name not in values:
        raise Unsupported(
            f"{name[:80]!r}, an output after the first, which has no rule", "use the first output only", where
        )


def _shapes(inputs: Sequence[Given]) -> str:
    tensors = [value.tensor if isinstance(value, Known) else value for value in inputs]
    shapes = [
        str(list(tensor.shape)) if isinstance(tensor, torch.Tensor) else "nothing" for tensor in tensors
    ]
    return ", ".join(shapes)


def _statistics(graph: Graph) -> set[str]:
    """Return the running statistics of batch normalisation: not trained, and not constant in training mode."""
    return {name for node in graph.nodes if node.op == "BatchNormalization" for name in node.inputs[3:5]}


def _decided(
    graph: Graph, statistics: set[str], freeze: Sequence[str], train: Sequence[str]
) -> dict[str, Role | None]:
    """Return the roles after the user's decisions; None for a parameter that is not trained. Raises CaptureError."""
    roles: dict[str, Role | None] = {}
    matched: set[str] = set()
    for name in graph.tensors:
        found = {pattern for pattern in (*freeze, *train) if fnmatch.fnmatchcase(name, pattern)}
        matched |= found
        frozen, trained = found.intersection(freeze), found.intersection(train)
        if frozen and trained:
            raise CaptureError(
                f"tensor {name[:80]!r} is to be frozen ({min(frozen)}) and to be trained ({min(trained)}); "
                "leave out one of the patterns"
            )
        role = graph.roles.of.get(name, Role.DOUBTFUL)
        if name in statistics:
            roles[name] = Role.BUFFER
        elif trained:
            roles[name] = Role.PARAMETER
        else:
            roles[name] = None if frozen and role is not Role.BUFFER else role
    if unmatched := sorted({*freeze, *train} - matched):
        raise CaptureError(
            f"no tensor of the model matches {unmatched[0]!r}; it has {', '.join(list(graph.tensors)[:20])}"
        )
    return roles


def _needed(graph: Graph, output: str) -> tuple[OnnxNode, ...]:
    """Return the nodes that the output depends on, in order."""
    wanted = {output}
    kept = []
    for node in reversed(graph.nodes):
        if wanted.intersection(node.outputs) - {""}:
            wanted.update(node.inputs)
            kept.append(node)
    return tuple(reversed(kept))


def _last_uses(nodes: Sequence[OnnxNode], output: str) -> list[list[str]]:
    """Return for each node the values that no later node reads."""
    last = {name: number for number, node in enumerate(nodes) for name in (*node.outputs, *node.inputs)}
    ends: list[list[str]] = [[] for _ in nodes]
    for name, number in last.items():
        if name and name != output:
            ends[number].append(name)
    return ends


class _Scope(torch.nn.Module):
    """A level of the parameters' names: `encoder.layer` holds `weight`."""


def _register(
    root: torch.nn.Module, name: str, tensor: torch.Tensor, buffer: bool, trained: bool
) -> tuple[torch.nn.Module, str]:
    """Make a parameter or buffer with (nearly) the file's name; return its scope and its name there.

    SAFETY: the name is untrusted: it becomes plain words, none of which is an existing attribute.
    """
    words = [re.sub(r"[^A-Za-z0-9_]", "_", word) or "_" for word in re.split(r"[./]", name)[:16]]
    *path, leaf = [word[:64] for word in words]
    scope = root
    for word in path:
        while hasattr(scope, word) and word not in scope._modules:
            word += "_"
        if word not in scope._modules:
            scope.add_module(word, _Scope())
        scope = scope._modules[word]  # type: ignore[assignment]
    while hasattr(scope, leaf):
        leaf += "_"
    if buffer:
        scope.register_buffer(leaf, tensor.clone())
    else:
        scope.register_parameter(leaf, torch.nn.Parameter(tensor.clone(), requires_grad=trained))
    return scope, leaf


@contextlib.contextmanager
def _annotated(where: str) -> Iterator[None]:
    """Give nodes that are traced inside the ONNX node's name, if a tracer listens."""
    with torch.fx.traceback.annotate({"module": where}):
        yield
