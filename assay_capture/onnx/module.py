"""An ONNX graph as a module: it runs the rules in order, so eager PyTorch and the capture see ordinary operators.

f32 tensors of the file with at least one dimension are parameters or buffers, under the names of the file, as `roles`
finds. Running statistics that the graph updates in training mode are buffers, written in place. All other values are
known before tracing.
"""

from __future__ import annotations

import contextlib
import fnmatch
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.fx.traceback

from ..capture.errors import CaptureError, Unsupported
from ..capture.scopes import register
from ..capture.untrusted import Held
from .graphs import OnnxNode, flat, reads
from .model import Graph, read
from .operators import OPERATORS
from .roles import Role
from .values import TRAINING_FORM, Call, Given, Known, Parts, check_size, untraced

MAX_FOLDED_INPUT = 1 << 20
"""Largest operand, in elements, of an operator that is computed before tracing. Larger ones are traced as constants."""

MAX_LISTED = 20
"""Most names in a refusal."""


def load(
    path: Path,
    *,
    output: str | None = None,
    freeze: Sequence[str] = (),
    train: Sequence[str] = (),
    given: Mapping[str, Any] | None = None,
) -> OnnxModule:
    """Return the module of an ONNX file. Raises the errors of `read`.

    `output` names the module's output, by default the first output of the file. Tensors whose name matches a pattern
    of `freeze` (as `encoder.*`) are not trained, those of `train` are; the file decides about the rest. If it does
    not, `forward` raises in training mode. Inputs in `given` have these values once and for all, so that branches
    and shapes may depend on them.
    """
    return OnnxModule(
        read(path, OPERATORS.__contains__), output=output, freeze=freeze, train=train, given=given
    )


class OnnxModule(torch.nn.Module):
    """A module that takes the graph's inputs in order and gives one output. Raises CaptureError, Unsupported."""

    def __init__(
        self,
        graph: Graph,
        *,
        output: str | None = None,
        freeze: Sequence[str] = (),
        train: Sequence[str] = (),
        given: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self._known = _fixed(graph, given or {})
        self.inputs = tuple(name for name in graph.inputs if name not in self._known)
        self.output = output or graph.outputs[0]
        if self.output not in graph.outputs:
            raise CaptureError(
                f"the model has no output {self.output[:80]!r}; it has {', '.join(graph.outputs[:20])}"
            )
        self._opset, self._types = graph.opset, graph.types
        self._exported = ", ".join(map(" ".join, zip(graph.inputs, graph.shapes, strict=True)))[:300]
        self._statistics = _statistics(graph)
        self._fixed_statistics = {
            name for name in self._statistics if any(fnmatch.fnmatchcase(name, pattern) for pattern in freeze)
        }
        self._nodes = _needed(graph, self.output)
        self._places: dict[str, tuple[torch.nn.Module, str]] = {}
        self._folded_norm = graph.roles.folded_norm
        self.doubtful: list[str] = []
        """Tensors of which the file does not say what they are, and the user neither."""
        roles = _decided(graph, self._statistics, freeze, train)
        read_names = {name for node in self._nodes for name in reads(node)} | {self.output}
        for name, tensor in graph.tensors.items():
            if name not in read_names:
                continue
            if name not in graph.weights:
                self._known[name] = Known(tensor)
                continue
            role = roles[name]
            if role is Role.DOUBTFUL:
                self.doubtful.append(name)
            self._places[name] = register(
                *(self, name, tensor),
                buffer=role is Role.BUFFER,
                trained=role in (Role.PARAMETER, Role.DOUBTFUL),
            )
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
        held = Held(part for value in values.values() for part in _parts(value))
        self._run_all(self._nodes, values, held, self._last)
        _check_given(self.output, values, "the model's output")
        result = values[self.output]
        if not isinstance(result, torch.Tensor):
            giver = next((node for node in self._nodes if self.output in node.outputs), None)
            raise Unsupported(
                f"output {self.output[:80]!r}{f' of {giver.op}' if giver else ''}, which does not depend on the inputs",
                "choose another output, or give fewer inputs once and for all",
            )
        return result

    def _check_training(self) -> None:
        """Raise if the file does not say what the model does, or what changes, in training."""
        if self._folded_norm:
            raise Unsupported(
                f"batch norm that was folded into other tensors, in a job that trains ({self._folded_norm})",
                TRAINING_FORM,
            )
        if self.doubtful:
            count = len(self.doubtful)
            shown = ", ".join(
                f"{name[:80]} {list(getattr(*self._places[name]).shape)}"
                for name in self.doubtful[:MAX_LISTED]
            )
            more = f" and {count - MAX_LISTED} more" if count > MAX_LISTED else ""
            raise CaptureError(
                f"the file does not say which of {count} tensors are parameters and which are buffers: {shown}{more}; "
                "say --train NAME or --freeze NAME for each (train=, freeze= in Python; patterns such as 'encoder.*')"
            )

    def _run_all(
        self,
        nodes: Sequence[OnnxNode],
        values: dict[str, Given],
        held: Held,
        last: Sequence[Sequence[str]] | None = None,
    ) -> None:
        """Run nodes in order and put their outputs among the values; `last` says which none needs after each."""
        for number, node in enumerate(nodes):
            for name in node.inputs:
                _check_given(name, values, node.where)
            if node.branches:
                results = self._branch(node, values, held)
            else:
                results = self._run(node, [values[name] for name in node.inputs])
            for name, result in zip(node.outputs, results, strict=False):
                values[name] = result
                for part in _parts(result):
                    held.hold(part, node.where, isinstance(result, Known))
            del results
            for name in last[number] if last else ():
                for part in _parts(values.pop(name, None)):
                    held.release(part)

    def _branch(self, node: OnnxNode, values: Mapping[str, Given], held: Held) -> Sequence[Given]:
        """Run the branch that a condition, known before tracing, chooses."""
        call = Call(node, self._opset, self.training, folding=False)
        condition = values[node.inputs[0]]
        if not isinstance(condition, Known):
            raise Unsupported(
                "operator If with a condition that depends on data",
                "give the input that it depends on, as --given NAME=VALUE (given= in Python), or export one branch",
                node.where,
            )
        branch = node.branches["then_branch" if call.number(condition, "condition") else "else_branch"]
        inside = dict(values)
        self._run_all(branch.nodes, inside, held)
        for name in branch.outputs:
            _check_given(name, inside, node.where)
        for name in inside.keys() - values.keys():
            for part in _parts(inside[name]):
                held.release(part)
        return [inside[name] for name in branch.outputs]

    def _run(self, node: OnnxNode, inputs: list[Given]) -> Sequence[Given]:
        """Return the outputs of one node, without those that its operator does not give."""
        operator = OPERATORS[node.op]
        known = [value for value in inputs if isinstance(value, Known)]
        folding = operator.folds and len(known) == sum(value is not None for value in inputs)
        folding = folding and all(value.tensor.numel() <= MAX_FOLDED_INPUT for value in known)
        if folding and operator.broadcasts and known:
            shape = torch.broadcast_shapes(*(value.tensor.shape for value in known))
            check_size(shape, node.where)
        fixed = node.op == "BatchNormalization" and self._fixed_statistics.issuperset(node.inputs[3:5])
        call = Call(node, self._opset, self.training and not fixed, folding, self._types)
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


def _parts(value: Any) -> Sequence[Any]:
    """Return the tensors of a value."""
    return value.items if isinstance(value, Parts) else (value.tensor if isinstance(value, Known) else value,)


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
    norms = (node for node in flat(graph.nodes) if node.op == "BatchNormalization")
    return {name for node in norms for name in node.inputs[3:5]}


def _fixed(graph: Graph, given: Mapping[str, Any]) -> dict[str, Known]:
    """Return inputs whose values are given once and for all. Raises CaptureError for one that the model lacks."""
    if missing := sorted(set(given) - set(graph.inputs)):
        raise CaptureError(
            f"the model has no input {missing[0][:80]!r}; it has {', '.join(graph.inputs[:20])}"
        )
    found = {name: torch.as_tensor(value) for name, value in given.items()}
    wide = (torch.float32, torch.float64, torch.bool)
    return {name: Known(v if v.dtype in wide else v.to(torch.int64)) for name, v in found.items()}


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
            wanted.update(reads(node))
            kept.append(node)
    return tuple(reversed(kept))


def _last_uses(nodes: Sequence[OnnxNode], output: str) -> list[list[str]]:
    """Return for each node the values that no later node reads."""
    last = {name: number for number, node in enumerate(nodes) for name in (*node.outputs, *reads(node))}
    ends: list[list[str]] = [[] for _ in nodes]
    for name, number in last.items():
        if name and name != output:
            ends[number].append(name)
    return ends


@contextlib.contextmanager
def _annotated(where: str) -> Iterator[None]:
    """Give nodes that are traced inside the ONNX node's name, if a tracer listens."""
    with torch.fx.traceback.annotate({"module": where}):
        yield
