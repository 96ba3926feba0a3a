"""Registration of gradients: the tensors that are saved, and a rule made of repops operators only.

    @gradient("mul", inputs=(0, 1))
    def mul(c, grad):
        a, b = c.inputs
        return sum_to(c, c.o.mul(grad, b), 0), sum_to(c, c.o.mul(grad, a), 1)

A rule returns one gradient, or None, for each input. Rules of operators consist of operators that have gradients
themselves, so operators can be differentiated twice; composites (`composites`) only once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..opset import Shape
from .operators import HAS_OPTIONS, LIBRARY, NAMESPACE, TensorOps

Tensor = torch.Tensor
Gradients = Sequence[Any]


@dataclass(frozen=True)
class Context:
    """The data of a call that its rule can use."""

    inputs: tuple[Any, ...]  # those that were saved, in order
    outputs: tuple[Any, ...]
    shapes: tuple[Shape, ...]  # of all inputs
    dtypes: tuple[torch.dtype, ...]
    attrs: dict[str, Any]
    needs: tuple[bool, ...]  # which inputs require a gradient
    o: TensorOps


Rule = Callable[..., Gradients]
RULES: dict[str, Rule] = {}


def _variadic(inputs: tuple[Any, ...]) -> bool:
    return len(inputs) == 1 and isinstance(inputs[0], (list, tuple))


def gradient(
    name: str, inputs: Sequence[int] = (), outputs: Sequence[int] = (), constants: Sequence[int] = ()
) -> Callable[[Rule], Rule]:
    """Register a rule for `repops::name`, which uses the inputs and outputs at these places.

    Outputs in `constants` are only for the rule: no gradient passes through them.
    """

    kept_inputs, kept_outputs = inputs, outputs

    def setup(ctx: Any, inputs: tuple[Any, ...], keyword_only_inputs: dict[str, Any], output: Any) -> None:
        tensors = inputs[0] if _variadic(inputs) else inputs
        results = output if isinstance(output, tuple) else (output,)
        ctx.variadic = _variadic(inputs)
        ctx.shapes, ctx.dtypes = tuple(tuple(x.shape) for x in tensors), tuple(x.dtype for x in tensors)
        ctx.attrs = keyword_only_inputs
        ctx.mark_non_differentiable(*(results[i] for i in constants))
        ctx.save_for_backward(*(tensors[i] for i in kept_inputs), *(results[i] for i in kept_outputs))

    def setup_without_options(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        setup(ctx, inputs, {}, output)

    def register(rule: Rule) -> Rule:
        def backward(ctx: Any, *grads: Any) -> Any:
            saved = ctx.saved_tensors
            needs = ctx.needs_input_grad
            context = Context(
                saved[: len(kept_inputs)],
                saved[len(kept_inputs) :],
                ctx.shapes,
                ctx.dtypes,
                ctx.attrs,
                tuple(needs[0]) if ctx.variadic else tuple(needs[: len(ctx.shapes)]),
                TensorOps(grads[0].device),
            )
            # NOTE: autograd passes views (an expanded scalar, a transposed result); a copy changes no bit.
            result = rule(context, *(grad if grad is None else grad.contiguous() for grad in grads))
            return list(result) if ctx.variadic else result[0] if len(result) == 1 else tuple(result)

        torch.library.register_autograd(
            f"{NAMESPACE}::{name}",
            backward,
            setup_context=setup if HAS_OPTIONS[name] else setup_without_options,
            lib=LIBRARY,
        )
        RULES[name] = rule
        return rule

    return register


def sum_to(c: Context, grad: Tensor, place: int) -> Tensor | None:
    """Return the gradient of input `place`, summed over broadcast dimensions by the operator `sum`, or None."""
    return reduce_to(c.o, grad, c.shapes[place]) if c.needs[place] else None


def reduce_to(o: TensorOps, grad: Tensor, shape: Shape) -> Tensor:
    """Sum over the dimensions in which `shape` is broadcast to the shape of `grad`."""
    if tuple(grad.shape) == tuple(shape):
        return grad
    aligned = (1,) * (grad.ndim - len(shape)) + tuple(shape)
    dims = [d for d, (old, new) in enumerate(zip(aligned, grad.shape, strict=True)) if old != new]
    summed = in_f32(o, grad, lambda wide: o.sum(wide, dims=dims, keepdim=1))
    return o.reshape(summed, shape=shape)


def in_f32(o: TensorOps, grad: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
    """Apply a function to a gradient in f32: sums of values are, also those of bfloat16."""
    if grad.dtype != torch.bfloat16:
        return function(grad)
    return o.cast(function(o.cast(grad, dtype=torch.float32)), dtype=torch.bfloat16)


def zeros(o: TensorOps, shape: Sequence[int], dtype: torch.dtype = torch.float32) -> Tensor:
    return o.full(shape=list(shape), dtype=dtype, bits=0)
