"""An exported program as a module: it runs the nodes in order, so eager PyTorch and the capture see ordinary operators.

The file says what is trained (`requires_grad`), what a buffer is and which are written to. Whether dropout and batch
norm are those of training is fixed in it, too: export the model in the mode in which it shall run.
"""

from __future__ import annotations

import contextlib
import fnmatch
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.fx.traceback

from ..capture.errors import CaptureError, Unsupported
from ..capture.scopes import register
from ..capture.untrusted import Held
from .archive import DTYPES, Archive, Json, Stored, read
from .arguments import CHECKS, argument, function, names_of

_SYMBOL = re.compile(r"Symbol\('(\w+)'[^()]*\)|(\w+)")
_SET_GRAD = "torch.ops.higher_order.wrap_with_set_grad_enabled"
_AUTOCAST = "torch.ops.higher_order.wrap_with_autocast"
Place = tuple[torch.nn.Module, str]
LastUses = list[list[str]]
"""For each node of a graph the values that no later one reads."""
MAX_ELEMENTS = 1 << 31
"""Elements of a value: 8 GiB of f32."""


def load(
    path: Path, *, output: str | None = None, freeze: Sequence[str] = (), train: Sequence[str] = ()
) -> ExportedModule:
    """Return the module of a file. Raises the errors of `read`.

    `output` names the module's output, by default the first one. Parameters whose name matches a pattern of `freeze`
    (as `encoder.*`) are not trained, those of `train` are; the file decides about the rest.
    """
    return ExportedModule(read(path), output=output, freeze=freeze, train=train)


class ExportedModule(torch.nn.Module):
    """A module that takes the program's inputs in order or by name, and gives one output. Raises CaptureError."""

    def __init__(
        self,
        archive: Archive,
        *,
        output: str | None = None,
        freeze: Sequence[str] = (),
        train: Sequence[str] = (),
    ) -> None:
        super().__init__()
        self._graph, self._ranges = archive.graph, archive.ranges
        self._places: dict[str, Place] = {}
        """Of inputs of the graph; `_by_name`: of tensors of the file."""
        self._by_name: dict[str, Place] = {}
        self._fixed: dict[str, Any] = {}
        self._written: list[tuple[str, Place]] = []
        names: list[str] = []
        with _explained("the signature"):
            decided = _decided(archive, freeze, train)
            tied: dict[str, Place] = {}
            for spec in archive.signature["input_specs"]:
                ((kind, content),) = spec.items()
                if kind == "user_input":
                    names += _user_input(content["arg"])
                elif kind == "constant_input":
                    self._fixed[content["name"]] = next(iter(content["value"].values()))
                else:
                    self._hold(kind, content, archive.tensors, decided, tied)
            self.inputs = tuple(names)
            self._written = [
                (content["arg"]["name"], self._by_name[content["buffer_name"]])
                for kind, content in _items(archive.signature["output_specs"])
                if kind == "buffer_mutation"
            ]
            self._changing = {
                name for name, place in self._places.items() if place in dict(self._written).values()
            }
            outputs = list(_user_outputs(archive.signature["output_specs"]))
        if not outputs:
            raise CaptureError("the exported program gives no tensor")
        self.output = outputs[0] if output is None else output
        if self.output not in outputs:
            raise CaptureError(
                f"the program has no output {self.output[:80]!r}; it has {', '.join(outputs[:20])}"
            )

    def _hold(
        self,
        kind: str,
        content: Json,
        tensors: Mapping[str, Stored],
        decided: Mapping[str, bool],
        tied: dict[str, Place],
    ) -> None:
        """Make a parameter or a buffer of an input that the file has the value of."""
        key = next((f"{kind}_name" for k in ("parameter", "buffer", "tensor_constant") if k == kind), None)
        if key is None:
            raise Unsupported(f"an input that is a {kind}", "export the model with tensors alone")
        name = content[key]
        if name not in tensors:
            raise CaptureError(f"the file has no tensor {str(name)[:80]!r}")
        stored = tensors[name]
        place = tied.get(f"{kind} {stored.place}") or register(
            *(self, name, stored.tensor), buffer=kind != "parameter", trained=decided.get(name, False)
        )
        tied[f"{kind} {stored.place}"] = self._by_name[name] = self._places[content["arg"]["name"]] = place

    def forward(self, *given: torch.Tensor, **named: torch.Tensor) -> torch.Tensor:
        batch = {**dict(zip(self.inputs, given, strict=False)), **named}
        if len(given) + len(named) != len(self.inputs) or set(batch) != set(self.inputs):
            raise CaptureError(
                f"the program takes {', '.join(self.inputs)}; {len(given)} tensors were given, and {list(named)}"
            )
        with _explained("the inputs"):
            self._check_inputs(batch)
        values: dict[str, Any] = {**self._fixed, **batch}
        for name, (scope, leaf) in self._places.items():
            value = getattr(scope, leaf)
            # NOTE: a copy of what is written at the end, since the backward pass may need the value from before.
            values[name] = value.clone() if name in self._changing else value
        with _explained("the program"):
            run = _Run({self.output, *(name for name, _ in self._written)}, values.values())
            run.nodes(self._graph, values)
            for name, (scope, leaf) in self._written:
                with torch.no_grad():
                    getattr(scope, leaf).copy_(values[name])
            result = values[self.output]
        if not isinstance(result, torch.Tensor):
            raise CaptureError(f"output {self.output[:80]!r} is no tensor")
        return result

    def _check_inputs(self, batch: Mapping[str, torch.Tensor]) -> None:
        """Raise CaptureError for an input of other sizes or dtype than the graph is right for."""
        sizes: dict[str, int] = {}
        for name, tensor in batch.items():
            meta = self._graph["tensor_values"][name]
            shown = ", ".join(_size(size) for size in meta["sizes"])
            wrong = tensor.dtype != DTYPES.get(meta["dtype"]) or tensor.ndim != len(meta["sizes"])
            for size, wanted in zip(tensor.shape, meta["sizes"], strict=False):
                if "as_int" in wanted:
                    wrong |= size != wanted["as_int"]
                elif (symbol := _symbol(wanted)) is not None:
                    wrong |= sizes.setdefault(symbol, int(size)) != size or not self._admits(
                        symbol, int(size)
                    )
            if wrong:
                raise CaptureError(
                    f"input {name} is {tensor.dtype} {list(tensor.shape)}; the program was exported for "
                    f"{DTYPES.get(meta['dtype'])} [{shown}]: give it such a batch (--batch), or export it with "
                    "dynamic_shapes"
                )

    def _admits(self, symbol: str, size: int) -> bool:
        bounds = self._ranges.get(symbol) or {}
        least, most = bounds.get("min_val"), bounds.get("max_val")
        # NOTE: exports say that an open size is at least 2, and mean that they were not tried with less.
        return (least is None or size >= min(least, 2)) and (most is None or size <= most)


def _items(specs: Sequence[Json]) -> Iterator[tuple[str, Json]]:
    for spec in specs:
        yield from spec.items()


def _user_input(given: Json) -> list[str]:
    ((kind, content),) = given.items()
    if kind == "as_none":
        return []
    if kind != "as_tensor":
        raise Unsupported(f"an input {kind}", "export the model with tensors as inputs alone")
    return [str(content["name"])]


def _user_outputs(specs: Sequence[Json]) -> Iterator[str]:
    for kind, content in _items(specs):
        if kind == "user_output":
            yield from (name for name in names_of(content["arg"]) if name is not None)
        elif kind != "buffer_mutation":
            raise Unsupported(f"an output that is a {kind}", "export the forward pass of the model alone")


def _decided(archive: Archive, freeze: Sequence[str], train: Sequence[str]) -> dict[str, bool]:
    """Return which parameters are trained. Raises CaptureError for a pattern that matches none."""
    parameters = [
        c["parameter_name"] for kind, c in _items(archive.signature["input_specs"]) if kind == "parameter"
    ]
    for pattern in (*freeze, *train):
        if not fnmatch.filter(parameters, pattern):
            raise CaptureError(
                f"no parameter of the program matches {pattern[:80]!r}; it has {', '.join(parameters[:20])}"
            )
    decided = {}
    for name in parameters:
        frozen, trained = (
            any(fnmatch.fnmatchcase(name, p) for p in patterns) for patterns in (freeze, train)
        )
        if frozen and trained:
            raise CaptureError(
                f"parameter {name[:80]!r} is to be frozen and to be trained; leave out one of the patterns"
            )
        decided[name] = trained or (not frozen and name in archive.tensors and archive.tensors[name].trained)
    return decided


def _size(size: Json) -> str:
    return str(size["as_int"]) if "as_int" in size else _symbol(size) or "?"


def _symbol(size: Json) -> str | None:
    """Return the name of an open size; None for one that is computed of others."""
    found = _SYMBOL.fullmatch(size["as_expr"]["expr_str"])
    return None if found is None else found[1] or found[2]


# ------------------------------------------------------------------------------------------------------------ running


class _Run:
    """One run of a graph that is given values; `kept` names what is read after it."""

    def __init__(self, kept: set[str], given: Iterable[Any]) -> None:
        self._kept = kept
        # SAFETY: a few bytes can ask for any size. The capture traces first, on tensors without data.
        self._held = Held(given)

    def nodes(self, graph: Json, values: dict[str, Any]) -> list[Any]:
        """Execute the nodes, which bind their outputs in `values`; return the graph's outputs."""
        last = _last_uses(graph, self._kept)
        made: set[str] = set()
        for number, node in enumerate(graph["nodes"]):
            made.update(self._node(node, values))
            for name in last[number]:
                value = values.pop(name, None)
                if name in made:
                    made.remove(name)
                    self._held.release(value)
                del value
        outputs = [argument(output, values, "the graph's outputs") for output in graph["outputs"]]
        for name in made:
            self._held.release(values[name])
        return outputs

    def _node(self, node: Json, values: dict[str, Any]) -> list[str]:
        """Execute a node, and return the names that it binds. What it gives is held in `values` alone."""
        target = node["target"]
        where = f"module {_path(node)}, {target[:80]}"
        if target in (_SET_GRAD, _AUTOCAST):
            results = self._wrapped(target, node["inputs"], values, where)
        elif target.startswith("torch.ops.aten.") and target.split(".")[3] in CHECKS:
            return []
        else:
            results = _call(node, values, where)
        read = (values.get(name) for name in _names(node["inputs"]))
        constant, bound = not any(isinstance(value, torch.Tensor) for value in read), []
        for output, result in zip(node["outputs"], results, strict=False):
            for name in _bind(output, result, values):
                self._held.hold(values[name], where, constant)
                bound.append(name)
        return bound

    def _wrapped(
        self, target: str, inputs: Sequence[Json], values: dict[str, Any], where: str
    ) -> Sequence[Any]:
        """Run a part of the graph without gradients, or with another autocast, as the model does."""
        place = next((k for k, one in enumerate(inputs) if "as_graph" in one["arg"]), None)
        if place is None:
            raise CaptureError(f"{where}: it has no graph")
        part = inputs[place]["arg"]["as_graph"]["graph"]
        settings = [argument(one["arg"], values, where) for one in inputs[:place]]
        given = [argument(one["arg"], values, where) for one in inputs[place + 1 :]]
        inner = {
            name: value
            for spec, value in zip(part["inputs"], given, strict=True)
            for name in names_of(spec)
            if name
        }
        if target == _SET_GRAD:
            with torch.set_grad_enabled(bool(settings[0])):
                return self.nodes(part, inner)
        device, dtype, enabled = settings[:3]
        if device != "cpu" and enabled:
            raise Unsupported(f"autocast of {device}", "export the model on the CPU", where)
        with torch.autocast("cpu", dtype, enabled=bool(enabled), cache_enabled=False):
            return self.nodes(part, inner)


def _last_uses(graph: Json, kept: set[str]) -> LastUses:
    """Return after which nodes values are dropped: inputs of the graph, too, if a node reads them."""
    last: dict[str, int] = {}
    for number, node in enumerate(graph["nodes"]):
        names = {name for output in node["outputs"] for name in names_of(output) if name is not None}
        last.update(dict.fromkeys(names | set(_names(node["inputs"])), number))
    ends: LastUses = [[] for _ in graph["nodes"]]
    needed = kept.union(_names(graph["outputs"]))
    for name, number in last.items():
        if name not in needed:
            ends[number].append(name)
    return ends


def _names(place: Any) -> Iterator[str]:
    """Give all texts that could be names of values."""
    if isinstance(place, str):
        yield place
    elif isinstance(place, Mapping | list):
        for part in place.values() if isinstance(place, Mapping) else place:
            yield from _names(part)


def _call(node: Json, values: dict[str, Any], where: str) -> Sequence[Any]:
    operator = function(node["target"], where)
    given = [(one["name"], argument(one["arg"], values, where)) for one in node["inputs"]]
    named = dict(given) if node["target"].startswith("torch.ops.") else None
    try:
        with torch.fx.traceback.annotate({"module": _path(node)}):
            result = operator(*(value for _, value in given)) if named is None else operator(**named)
    except (CaptureError, AssertionError):
        raise
    except (
        TypeError,
        ValueError,
        IndexError,
        RuntimeError,
        OverflowError,
        ZeroDivisionError,
        MemoryError,
    ) as error:
        if isinstance(error, torch._subclasses.fake_tensor.DataDependentOutputException):
            raise
        raise CaptureError(f"{where}: {str(error)[:300]}") from error
    for part in result if isinstance(result, list | tuple) else (result,):
        if isinstance(part, torch.Tensor) and part.numel() > MAX_ELEMENTS:
            raise CaptureError(
                f"{where} gives {part.numel()} elements; the limit is {MAX_ELEMENTS}; give smaller batches"
            )
    several = len(node["outputs"]) > 1
    return result if several else (result,)


def _bind(output: Json, result: Any, values: dict[str, Any]) -> Iterator[str]:
    """Bind the names of an output, and give each."""
    names = names_of(output)
    parts = [result] if len(names) == 1 and not isinstance(result, list | tuple) else result
    for name, part in zip(names, parts, strict=True):
        if name is not None:
            values[name] = part
            yield name


def _path(node: Json) -> str:
    """Return the path of the module that a node comes from, by the export's own note of it."""
    last = str(node["metadata"].get("nn_module_stack", "")).rpartition(";")[2].split(",")
    return (last[1] if len(last) > 1 and last[1] else "(root)")[:120]


@contextlib.contextmanager
def _explained(what: str) -> Iterator[None]:
    """Turn what malformed JSON leads to into CaptureError."""
    try:
        yield
    except CaptureError:
        raise
    except (KeyError, AttributeError, IndexError, StopIteration, TypeError, ValueError) as error:
        raise CaptureError(
            f"{what} of the file is not whole: {type(error).__name__}: {str(error)[:200]}"
        ) from error
