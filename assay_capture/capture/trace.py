"""Passes 1 and 2: a training step as a graph of ATen operators without mutation.

1. `make_fx` over forward, loss and `autograd.grad`, with fake tensors: no arithmetic runs, no value is baked in, and
   no weight is in memory.
2. `functionalize` removes in-place writes; operators without a row in our table are decomposed by PyTorch's own rules.

`torch.export` does not help here: it fails on every step that contains `autograd.grad`.
"""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import torch
import torch.fx.traceback
from torch._decomp import decomposition_table
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
)
from torch.func import functionalize
from torch.fx.experimental.proxy_tensor import make_fx

from . import remedies
from .errors import CaptureError, Unexpected, Unsupported
from .modules import called, check_memory, hooked, module_outputs, tensors_kept
from .phases import Phases
from .process import empty_caches
from .python_state import PythonState, check, no_draws
from .replacements import DECOMPOSED, REPLACED, in_place
from .tensors_outside import NoWrites, check_constants, check_reads, check_writes, text_of

Loss = Callable[..., Any]
"""`loss(output, *targets)` gives a scalar tensor, or (scalar tensor, {name: metric tensor})."""
Step = Callable[[list[torch.Tensor]], Any]
Shapes = Sequence[tuple[tuple[int, ...], torch.dtype]]


@dataclass(frozen=True)
class Objective:
    """Assignment of the arrays of a batch to the module and the loss.

    With a `loss`, the module gets the arrays named in `inputs`: one by position, several by keyword; the loss gets the
    output and the other arrays, in order. Without a loss, the module gets the whole batch by keyword and the `loss` of
    its output is minimised, as in `transformers`.
    """

    loss: Loss | None
    inputs: tuple[str, ...]

    @classmethod
    def of(cls, loss: Loss | None, inputs: Sequence[str] | None, names: Sequence[str]) -> Objective:
        """Check the names. `inputs` defaults to the first array. Raises CaptureError for an unknown name."""
        if loss is None:
            if inputs is not None:
                raise CaptureError(
                    "inputs are named, but without a loss the module gets every array; drop them"
                )
            return cls(None, tuple(names))
        chosen = tuple(names[:1] if inputs is None else inputs)
        if isinstance(inputs, str) or not chosen or not set(chosen) <= set(names):
            raise CaptureError(
                f"inputs {inputs!r} of the arrays {list(names)}: a tuple of some of their names; the loss gets the rest"
            )
        return cls(loss, chosen)

    @property
    def beside(self) -> Any:
        """An object other than the module that may have a state of its own."""
        return self.loss

    def __call__(self, forward: Callable[..., Any], batch: Mapping[str, torch.Tensor]) -> Any:
        if self.loss is None:
            return _own_loss(forward(**batch))
        given = {name: batch[name] for name in self.inputs}
        output = forward(**given) if len(given) > 1 else forward(*given.values())
        return self.loss(output, *(tensor for name, tensor in batch.items() if name not in given))


def _own_loss(output: Any) -> torch.Tensor:
    loss = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
    if not isinstance(loss, torch.Tensor):
        given = "a tensor" if isinstance(output, torch.Tensor) else type(output).__name__
        raise CaptureError(
            f"the module gives {given} without a loss; pass a loss function, or the labels it needs"
        )
    return loss


@dataclass
class Traced:
    """A traced step. The graph takes the tensors of `parameters`, `frozen`, `buffers` and the batch, in that order.

    It gives: loss, a gradient for each parameter (None if the loss does not depend on it), the value after the forward
    pass of each parameter, frozen parameter and buffer, the metrics in order of `metric_names`. The tensors are the
    module's own, possibly without data.
    """

    parameters: dict[str, torch.Tensor]
    frozen: dict[str, torch.Tensor]
    buffers: dict[str, torch.Tensor]
    metric_names: list[str] = field(default_factory=list)
    graph: torch.fx.GraphModule = field(init=False)

    @property
    def rest(self) -> dict[str, torch.Tensor]:
        """The tensors that are not trained."""
        return {**self.frozen, **self.buffers}

    @property
    def written(self) -> set[str]:
        """The names of the tensors that the forward pass writes to: those not trained are part of the state, too."""
        inputs = [node for node in self.graph.graph.nodes if node.op == "placeholder"]
        names = [*self.parameters, *self.rest]
        after = _outputs(self.graph)[1 + len(self.parameters) :]
        return {
            name
            for name, node, given in zip(names, after, inputs, strict=False)
            if _origin(node) is not given
        }


def trace(
    module: torch.nn.Module,
    objective: Objective,
    batch: Mapping[str, tuple[tuple[int, ...], torch.dtype]],
    lowered: Sequence[str],
    autocast: torch.dtype | None = None,
    outputs: bool = False,
) -> Traced:
    """Trace one step on a batch of these shapes and dtypes.

    `lowered` names the ATen operators that must not be decomposed. With `autocast`, torch.bfloat16, forward and loss
    are traced inside torch.autocast. With `outputs`, what each module gives is a metric (`module_outputs`). The module
    may be on the meta device or made under a FakeTensorMode. Raises CaptureError.
    """
    traced = Traced(
        {n: p for n, p in module.named_parameters() if p.requires_grad},
        {n: p for n, p in module.named_parameters() if not p.requires_grad},
        dict(module.named_buffers()),
    )
    if autocast not in (None, torch.bfloat16):
        raise CaptureError(f"autocast to {autocast}; the operator set has torch.bfloat16")
    if not traced.parameters:
        raise CaptureError("the module has no parameter that requires a gradient; there is nothing to train")
    names = [*traced.parameters, *traced.frozen, *traced.buffers]
    check_memory({**traced.parameters, **traced.frozen, **traced.buffers}, set(traced.parameters))
    phases = Phases()

    def step(tensors: list[torch.Tensor]) -> list[torch.Tensor | None]:
        given = dict(zip(names, tensors[: len(names)], strict=True))
        trained = [given[name].requires_grad_() for name in traced.parameters]
        # NOTE: clones, so that in-place writes (running statistics, momentum encoders) become values to return.
        state = {**given, **{name: given[name].clone() for name in (*traced.frozen, *traced.buffers)}}
        memory = {name: (state[name], state[name].untyped_storage()._cdata) for name in names}
        inputs = dict(zip(batch, tensors[len(names) :], strict=True))
        forward = lambda *args, **kwargs: called(module, state, args, kwargs)  # noqa: E731
        # NOTE: without the cache each use of a weight is cast; equal nodes are merged anyway.
        with (
            no_draws(),
            NoWrites(),
            module_outputs(module if outputs else None) as found,
            torch.autocast("cpu", autocast, enabled=autocast is not None, cache_enabled=False),
        ):
            value, metrics = _split(objective(forward, inputs))
        metrics = {**metrics, **found}
        traced.metric_names[:] = list(metrics)
        for name in names:
            _check_written(name, state[name], *memory[name])
        for name, _ in (*module.named_buffers(), *module.named_parameters()):
            if name not in given:
                raise Unsupported(
                    f"{name} becomes a tensor of the module in the step",
                    "register it with a value before the capture, or call the module once",
                    "module",
                )
        with NoWrites(), phases.gradient():
            gradients = torch.autograd.grad(value, trained, allow_unused=True)
            found_gradients = [
                hooked(name, parameter, gradient)
                for (name, parameter), gradient in zip(traced.parameters.items(), gradients, strict=True)
            ]
        return [
            value.detach(),
            *found_gradients,
            *(state[name].detach() for name in names),
            *(m.detach() for m in metrics.values()),
        ]

    state = {**traced.parameters, **traced.frozen, **traced.buffers}
    shapes = [*((tuple(t.shape), t.dtype) for t in state.values()), *batch.values()]
    with PythonState(module, objective.beside) as before:
        tensors = _empty(shapes)
        first = _as_it_runs(step, tensors, module, phases)
        text = text_of(first)
        traced.graph = _functional(first, tensors, module, lowered, phases)
        check(before, text, lambda: text_of(_as_it_runs(step, _empty(shapes), module, phases)))
    check_reads(
        traced.graph,
        {**traced.parameters, **{name: traced.rest[name] for name in traced.written & set(traced.rest)}},
    )
    gradients = _outputs(traced.graph)[1 : 1 + len(traced.parameters)]
    if not any(gradients):
        raise CaptureError(
            "no parameter gets a gradient: the loss does not depend on any; nothing would be trained"
        )
    without = [name for name, gradient in zip(traced.parameters, gradients, strict=True) if gradient is None]
    if without:
        more = f" and {len(without) - 5} more" if len(without) > 5 else ""
        warnings.warn(
            f"parameters with no gradient: {', '.join(without[:5])}{more}; they keep their values, as in PyTorch. "
            "If they should be trained, the loss does not depend on them",
            stacklevel=3,
        )
    return traced


def _check_written(name: str, after: torch.Tensor, before: torch.Tensor, memory: int) -> None:
    """Raise Unsupported for a tensor of the module that became one of another kind. NOTE: a buffer that forward()
    rebinds (`self.center = ...`) is found in the state afterwards, as its new value."""
    if after is before and after.untyped_storage()._cdata != memory:
        raise Unsupported(
            f"{name}.data is given another tensor",
            f"write with torch.no_grad(): {name}.copy_(...)",
            "module",
        )
    if after.shape != before.shape or after.dtype != before.dtype:
        raise Unsupported(
            f"{name} is {before.dtype} {list(before.shape)} before the step, "
            f"and {after.dtype} {list(after.shape)} after it",
            "give it one shape and dtype in all steps",
            "module",
        )


def _origin(node: torch.fx.Node) -> torch.fx.Node:
    """Return the node that made the value, looking through copies."""
    while str(node.target) in ("aten.clone.default", "aten.detach.default", "aten.alias.default"):
        node = node.args[0]  # type: ignore[assignment]
    return node


def _outputs(graph: torch.fx.GraphModule) -> Sequence[Any]:
    """Return the nodes that a graph gives; None for no value."""
    return cast("Sequence[Any]", next(iter(reversed(graph.graph.nodes))).args[0])


def functional_graph(
    step: Step, shapes: Shapes, module: torch.nn.Module, lowered: Sequence[str], phases: Phases
) -> torch.fx.GraphModule:
    """Return a function of tensors of these shapes and dtypes as a graph of ATen operators without mutation.

    `module` is the module it calls, for the labels. Raises Unsupported where the function depends on values.
    """
    tensors = _empty(shapes)
    return _functional(_as_it_runs(step, tensors, module, phases), tensors, module, lowered, phases)


def _as_it_runs(
    step: Step, tensors: list[torch.Tensor], module: torch.nn.Module, phases: Phases
) -> torch.fx.GraphModule:
    """Return a step as a graph of the operators that it calls with tensors such as these."""
    with _capture_settings(), tensors_kept(module), phases.module_paths(module), phases.explained():
        trace = make_fx(step, tracing_mode="fake", _allow_non_fake_inputs=True, record_stack_traces=True)
        return trace(tensors)


def _empty(shapes: Shapes) -> list[torch.Tensor]:
    with FakeTensorMode(allow_non_fake_inputs=True):
        return [torch.empty(shape, dtype=dtype, device="cpu") for shape, dtype in shapes]


def _functional(
    first: torch.fx.GraphModule,
    tensors: list[torch.Tensor],
    module: torch.nn.Module,
    lowered: Sequence[str],
    phases: Phases,
) -> torch.fx.GraphModule:
    """Return what `_as_it_runs` has traced without mutation and with decompositions."""
    table = cast("Mapping[torch._ops.OpOverload[..., Any], Callable[..., Any]]", decomposition_table)
    rules = {**table, **DECOMPOSED, **REPLACED}
    decompositions = {op: rule for op, rule in rules.items() if str(op) not in lowered}
    with _capture_settings(), tensors_kept(module), phases.module_paths(module):
        check_writes(first)
        _without_generators(first)
        _without_profiling(first)
        constants = (node.target for node in first.graph.nodes if node.op == "get_attr" and node.users)
        lifted = {name: getattr(first, name) for name in constants}
        check_constants(lifted, tensors)

        def again(given: list[torch.Tensor], constants: list[torch.Tensor]) -> Any:
            return _Given(first, dict(zip(lifted, constants, strict=True))).run(given)

        plain = functionalize(again, remove="mutations")
        empty_caches()
        with phases.explained():
            graph: torch.fx.GraphModule = make_fx(
                plain, tracing_mode="fake", decomposition_table=decompositions, _allow_non_fake_inputs=True
            )(tensors, list(lifted.values()))
        _put_back(graph, lifted)
        return graph


def _without_generators(graph: torch.fx.GraphModule) -> None:
    """Drop PyTorch's generators: a program draws from its own seed. NOTE: PyTorch crashes if it traces one again."""
    for node in graph.graph.nodes:
        if node.kwargs.get("generator") is not None:
            node.kwargs = {name: value for name, value in node.kwargs.items() if name != "generator"}
            name = str(getattr(node.target, "_overloadname", ""))
            if name.endswith("generator"):
                plain = name.removesuffix("generator").removesuffix("_") or "default"
                node.target = getattr(node.target.overloadpacket, plain)


def _without_profiling(graph: torch.fx.GraphModule) -> None:
    """Drop the marks of torch.profiler.record_function."""
    for node in reversed(graph.graph.nodes):
        if str(node.target).startswith("profiler."):
            graph.graph.erase_node(node)


class _Given(torch.fx.Interpreter):
    """Runs a graph with its constants as inputs: writes to what is made of constants alone would stay in place else."""

    def __init__(self, graph: torch.fx.GraphModule, constants: Mapping[Any, torch.Tensor]) -> None:
        super().__init__(graph)
        self._constants = constants

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:  # noqa: ARG002
        return self._constants.get(target)

    def run_node(self, n: torch.fx.Node) -> Any:
        """Run a node. Names module and operator where its replacement or its decomposition fails."""
        path = n.meta.get("custom", {}).get("module")
        where = f"{f'module {path}' if path else 'loss or gradient'}, ATen operator {n.target}"
        try:
            return super().run_node(n)
        except Unsupported as error:
            raise Unsupported(error.what, error.remedy, where) from error
        except (DataDependentOutputException, DynamicOutputShapeException) as error:
            what = f"{error.func} makes the program depend on values of a tensor"
            raise Unsupported(what, remedies.of_values(str(error.func)), where) from error
        except CaptureError:
            raise
        except Exception as error:
            raise Unexpected(error, where) from error


def _put_back(graph: torch.fx.GraphModule, constants: Mapping[Any, torch.Tensor]) -> None:
    """Make the last inputs of a graph constants of it again."""
    inputs = [node for node in graph.graph.nodes if node.op == "placeholder"]
    for node, (name, tensor) in zip(inputs[len(inputs) - len(constants) :], constants.items(), strict=True):
        setattr(graph, name, tensor)
        with graph.graph.inserting_after(inputs[-1]):
            constant = graph.graph.get_attr(name)
        constant.meta = dict(node.meta)
        node.replace_all_uses_with(constant)
        graph.graph.erase_node(node)


def _split(result: Any) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    value, metrics = result if isinstance(result, tuple) else (result, {})
    if not isinstance(value, torch.Tensor) or value.ndim:
        raise CaptureError(
            "the loss must be a scalar tensor, or (scalar tensor, {name: metric}); reduce it with mean() or sum()"
        )
    return value, metrics


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep PyTorch from logging an error that is raised anyway, with a place and a remedy."""
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)


@contextlib.contextmanager
def _capture_settings() -> Iterator[None]:
    """Set what keeps the traced graph independent of the machine."""
    with (
        warnings.catch_warnings(action="ignore"),
        in_place(),
        _quiet(),
        torch.backends.mkldnn.flags(enabled=False),
        torch.fx.traceback.preserve_node_meta(),
    ):
        yield
