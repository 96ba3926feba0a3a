"""A step function over a module as a program.

step number ───┐
state (slots) ─┼─> body(forward, state, constants, step) ─> state after the step, outputs (metrics)
constants ─────┘        └─ the module with its weights, which are constants too
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.fx.traceback
from repops.torch_arrays import from_numpy
from torch.func import functional_call

from referee_py.commit.tensor import Array
from referee_py.program import validate

from ..capture import RULES, Built, CaptureError
from ..capture.builder import Builder, Ref
from ..capture.lowering import Noise, dtype_of, lower, source_of
from ..capture.optimizers import step_index
from ..capture.phases import Phases
from ..capture.trace import functional_graph

Tensors = dict[str, torch.Tensor]
Forward = Callable[..., Any]
Body = Callable[
    [Forward, Tensors, Tensors, torch.Tensor],
    tuple[Mapping[str, torch.Tensor], Mapping[str, torch.Tensor]],
]
"""`body(forward, state, constants, step)` gives the new state, or part of it, and outputs to watch.

`forward` is the module. `step` is an i64 scalar that counts from 0. The body is traced once: one graph serves all
steps.
"""
Rest = Callable[[Builder, Mapping[str, Ref], Mapping[str, Ref]], Mapping[str, Ref]]
"""`rest(builder, slots, outputs)` continues a step operator by operator, and gives the new values of further slots."""


def row(table: torch.Tensor, step: torch.Tensor) -> torch.Tensor:
    """Return row `step` of a table `[steps, ...]`. NOTE: `table[step]` would need the step's value while tracing."""
    return table.index_select(0, step.reshape(1)).squeeze(0)


def loop(
    module: torch.nn.Module,
    body: Body,
    state: Mapping[str, Array],
    constants: Mapping[str, Array] | None = None,
    *,
    seed: int = 0,
    rest: Rest | None = None,
) -> Built:
    """Return the program whose step is `body`, then `rest`. Slots and constants keep their names; weights are
    `weight.<name>`.

    The module runs in its current mode (call `.eval()` first); its writes to buffers are lost. Raises CaptureError,
    Unsupported.
    """
    fixed = dict(constants or {})
    weights = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    names = [list(weights), list(state), list(fixed)]
    outputs: list[str] = []
    phases = Phases()

    def step(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        remaining = iter(tensors)
        own, before, given = ({name: next(remaining) for name in group} for group in names)
        forward = lambda *args, **kwargs: functional_call(module, own, args, kwargs)  # noqa: E731
        with (
            torch.no_grad(),
            torch.fx.traceback.annotate({"module": "step"}),
        ):  # until a module gives its own path
            after, watched = body(forward, dict(before), given, next(remaining))
        if unknown := sorted(set(after) - set(before)):
            raise CaptureError(f"the step gives {', '.join(unknown)}, which the state does not have")
        outputs[:] = list(watched)
        return [
            *({**before, **after}[name].clone() for name in before),
            *(v.clone() for v in watched.values()),
        ]

    arrays = [from_numpy(array) for array in (*state.values(), *fixed.values())]
    shapes = [(tuple(t.shape), t.dtype) for t in (*weights.values(), *arrays)]
    for (_, dtype), name in zip(shapes, [name for group in names for name in group], strict=True):
        _check_dtype(name, dtype)
    graph = functional_graph(step, [*shapes, ((), torch.int64)], module, list(RULES), phases)

    b = Builder()
    own = [b.constant(f"weight.{name}", source_of(tensor)) for name, tensor in weights.items()]
    slots = {name: b.slot(name, array) for name, array in state.items()}
    given = [b.constant(name, array) for name, array in fixed.items()]
    b.label = "step"
    results: list[Ref] = lower(graph, [*own, *slots.values(), *given, step_index(b)], b, Noise(b, seed))
    for slot, value in zip(slots.values(), results, strict=False):
        b.update(slot, value)
    given_back = dict(zip(outputs, results[len(slots) :], strict=True))
    for name, value in given_back.items():
        b.metric(name, value)
    for name, value in rest(b, slots, given_back).items() if rest else ():
        b.update(slots[name], value)
    draft = b.finish()
    validate(draft.skeleton)
    return draft.build()


def _check_dtype(name: str, dtype: torch.dtype) -> None:
    try:
        dtype_of(dtype)
    except CaptureError as error:
        raise CaptureError(f"{name}: {error}") from error
