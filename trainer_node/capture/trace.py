"""Passes 1 and 2: a training step as a graph of ATen operators without mutation.

1. `make_fx` over forward, loss and `autograd.grad`, with fake tensors: no arithmetic runs, nothing is baked in.
2. `functionalize` removes in-place writes; operators without a row in our table are decomposed by PyTorch's own rules.

`torch.export` is of no use here: it fails on every step that contains `autograd.grad`.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.fx.traceback
from torch._decomp import decomposition_table
from torch._dispatch.python import enable_python_dispatcher
from torch.func import functional_call, functionalize
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.attention import SDPBackend, sdpa_kernel

from .errors import CaptureError

Loss = Callable[..., Any]
"""`loss(output, *targets)` gives a scalar tensor, or (scalar tensor, {name: metric tensor})."""


@dataclass(frozen=True)
class Traced:
    """The graph takes the tensors of `parameters`, `buffers` and the batch, in that order.

    It gives: loss, a gradient for each parameter (None if the loss does not depend on it), the new value of each
    buffer, the metrics in order of `metric_names`.
    """

    graph: torch.fx.GraphModule
    parameters: dict[str, torch.Tensor]
    frozen: dict[str, torch.Tensor]
    buffers: dict[str, torch.Tensor]
    metric_names: list[str]


def trace(
    module: torch.nn.Module, loss: Loss, batch: Sequence[torch.Tensor], lowered: Sequence[str]
) -> Traced:
    """Trace one step on an example batch: the model is given `batch[0]`, the loss the output and the rest.

    `lowered` names the ATen operators that must not be decomposed. Raises CaptureError.
    """
    parameters = {n: p.detach().clone() for n, p in module.named_parameters() if p.requires_grad}
    frozen = {n: p.detach().clone() for n, p in module.named_parameters() if not p.requires_grad}
    buffers = {n: b.detach().clone() for n, b in module.named_buffers()}
    if not parameters:
        raise CaptureError("the module has no parameter that requires a gradient; there is nothing to train")
    metric_names: list[str] = []

    def step(tensors: list[torch.Tensor]) -> list[torch.Tensor | None]:
        names = [*parameters, *frozen, *buffers]
        given = dict(zip(names, tensors[: len(names)], strict=True))
        trained = [given[name].requires_grad_() for name in parameters]
        # NOTE: clones, so that in-place writes to buffers (running statistics) become values that we can return.
        state = {**given, **{name: given[name].clone() for name in buffers}}
        x, *targets = tensors[len(names) :]
        value, metrics = _split(loss(functional_call(module, state, (x,)), *targets))
        metric_names[:] = list(metrics)
        gradients = torch.autograd.grad(value, trained, allow_unused=True)
        return [
            value.detach(),
            *gradients,
            *(state[name].detach() for name in buffers),
            *(m.detach() for m in metrics.values()),
        ]

    tensors = [*parameters.values(), *frozen.values(), *buffers.values(), *batch]
    decompositions = {op: rule for op, rule in decomposition_table.items() if str(op) not in lowered}
    with _capture_settings(), _module_paths(module):
        first = make_fx(step, tracing_mode="fake", _allow_non_fake_inputs=True)(tensors)
        plain = functionalize(torch.fx.Interpreter(first).run, remove="mutations")
        graph = make_fx(
            plain, tracing_mode="fake", decomposition_table=decompositions, _allow_non_fake_inputs=True
        )(tensors)
    return Traced(graph, parameters, frozen, buffers, metric_names)


def _split(result: Any) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    value, metrics = result if isinstance(result, tuple) else (result, {})
    if not isinstance(value, torch.Tensor) or value.ndim:
        raise CaptureError(
            "the loss must be a scalar tensor, or (scalar tensor, {name: metric}); reduce it with mean() or sum()"
        )
    return value, metrics


@contextlib.contextmanager
def _capture_settings() -> Iterator[None]:
    """What has to hold while tracing, so that the graph does not depend on the machine."""
    with (
        warnings.catch_warnings(action="ignore"),
        enable_python_dispatcher(),
        sdpa_kernel(SDPBackend.MATH),
        torch.backends.mkldnn.flags(enabled=False),
        torch.fx.traceback.preserve_node_meta(),
    ):
        yield


@contextlib.contextmanager
def _module_paths(module: torch.nn.Module) -> Iterator[None]:
    """Annotate every node of the forward pass with the path of the module that made it."""
    open_annotations: list[Any] = []

    def enter(path: str) -> Callable[..., None]:
        def hook(*_: Any) -> None:
            annotation = torch.fx.traceback.annotate({"module": path})
            annotation.__enter__()
            open_annotations.append(annotation)

        return hook

    def leave(*_: Any) -> None:
        open_annotations.pop().__exit__(None, None, None)

    handles = []
    for path, child in module.named_modules():
        handles.append(child.register_forward_pre_hook(enter(path or type(module).__name__)))
        handles.append(child.register_forward_hook(leave, always_call=True))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
