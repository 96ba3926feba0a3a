"""Wrong lowerings, one at a time, and functions whose programs have them: the guard must refuse each.

A mutant is a rule of capture with one error: a sign, an axis, a mask, a dtype, a place off by one, a term missing in a
gradient, a state that is not carried. `Beside` puts what a guard may be talked out of it by into the same step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from repops.opset import BF16, F32

from assay_capture.capture import SGD, Recipe
from assay_capture.capture.lowering import RULES
from assay_capture.capture.replacements import DECOMPOSED, REPLACED

from .beside import Beside

Rule = Callable[..., Any]
X = np.random.default_rng(3).standard_normal((8, 6)).astype(np.float32)
aten = torch.ops.aten


@dataclass(frozen=True)
class Mutant:
    """An error in the rule `key` of a table, and a function whose program has it."""

    name: str
    key: Any
    change: Callable[[Rule], Rule]
    function: Rule
    table: dict[Any, Rule] = None  # type: ignore[assignment]

    @property
    def rules(self) -> dict[Any, Rule]:
        return RULES if self.table is None else self.table

    def recipe(self, what: str) -> Recipe:
        module = Beside(self.function, what)
        loss = lambda y, *_: y  # noqa: E731
        return Recipe("mutant", module, loss, SGD(0.1), {"x": X}, 2, 4, initial="module", strides=(1,))


def _after(op: str) -> Callable[[Rule], Rule]:
    """Apply an operator to what the rule gives."""
    return lambda right: lambda c, *a, **k: c.b.op(op, right(c, *a, **k))


def _times(factor: float) -> Callable[[Rule], Rule]:
    return lambda right: lambda c, *a, **k: c.b.op("mul", right(c, *a, **k), c.b.full(factor))


def _first(number: int) -> Callable[[Rule], Rule]:
    """Give an argument of the rule in place of its result."""
    return lambda _: lambda _c, *a, **_k: a[number]


def _argument(number: int, change: Callable[[Any], Any]) -> Callable[[Rule], Rule]:
    """Change an argument of the rule."""

    def mutate(right: Rule) -> Rule:
        def rule(*a: Any, **k: Any) -> Any:
            given = list(a)
            given[number] = change(given[number])
            return right(*given, **k)

        return rule

    return mutate


def _swapped(one: int, other: int) -> Callable[[Rule], Rule]:
    def mutate(right: Rule) -> Rule:
        def rule(*a: Any, **k: Any) -> Any:
            given = list(a)
            given[one], given[other] = given[other], given[one]
            return right(*given, **k)

        return rule

    return mutate


def _part(number: int, change: Callable[[Any, Any], Any]) -> Callable[[Rule], Rule]:
    """Change one of the rule's outputs."""

    def mutate(right: Rule) -> Rule:
        def rule(c: Any, *a: Any, **k: Any) -> Any:
            parts = list(right(c, *a, **k))
            parts[number] = change(c, parts[number])
            return tuple(parts)

        return rule

    return mutate


def _narrow(right: Rule) -> Rule:
    """Round to bf16 on the way."""
    return lambda c, *a, **k: c.b.op("cast", c.b.op("cast", right(c, *a, **k), dtype=BF16), dtype=F32)


def _negative(c: Any, x: Any) -> Any:
    return c.b.op("neg", x)


def _nothing(c: Any, x: Any) -> Any:
    return c.b.full(0.0, x.dtype, x.shape)


def _called(name: str, op: str) -> Callable[[Rule], Rule]:
    """Another operator of the same operands."""
    return lambda _: lambda c, *a, **_k: c.b.op(op, *(c.tensor(x, F32) for x in a[:2]))


IDS = torch.tensor([[0, 1, 2, 2], [3, 4, 1, 0], [2, 2, 0, 1], [4, 3, 2, 1]])
MUTANTS = (
    # sign
    Mutant("tanh of the other sign", "aten.tanh.default", _after("neg"), lambda _, h: h.tanh()),
    Mutant("sine's gradient of the other sign", "aten.cos.default", _after("neg"), lambda _, h: h.sin()),
    Mutant(
        "a target's gradient of the other sign",
        "aten.nll_loss_backward.default",
        _after("neg"),
        lambda _, h: F.cross_entropy(h, IDS[0]),
    ),
    Mutant("a difference the other way", "aten.sub.Tensor", _swapped(1, 2), lambda _, h: h - 2 * h.flip(1)),
    Mutant("sigmoid of the other sign", "aten.sigmoid.default", _after("neg"), lambda _, h: h.sigmoid()),
    # axis
    Mutant(
        "softmax over the other axis",
        "aten._softmax.default",
        _argument(2, lambda _: 0),
        lambda _, h: h[:, :4].softmax(1),
    ),
    Mutant(
        "log_softmax over the other axis",
        "aten._log_softmax.default",
        _argument(2, lambda _: 0),
        lambda _, h: h.log_softmax(1),
    ),
    Mutant(
        "a sum over the other axis",
        "aten.sum.dim_IntList",
        _argument(2, lambda d: [0] if list(d) == [1] else d),
        lambda _, h: h[:, :4].square().sum(1),
    ),
    Mutant(
        "a square that is not transposed",
        "aten.transpose.int",
        _first(0),
        lambda m, h: h @ m.square.transpose(0, 1),
    ),
    Mutant(
        "a maximum over the other axis",
        "aten.amax.default",
        _argument(2, lambda _: [0]),
        lambda _, h: h[:, :4].amax(1),
    ),
    # mask
    Mutant("relu that lets all pass", "aten.relu.default", _first(0), lambda _, h: h.relu()),
    Mutant(
        "relu's gradient without its mask",
        "aten.threshold_backward.default",
        _first(0),
        lambda _, h: h.relu(),
    ),
    Mutant(
        "a selection the other way",
        "aten.where.self",
        _swapped(2, 3),
        lambda _, h: torch.where(h > 0.2, 2 * h, -h),
    ),
    Mutant(
        "a clamp without its upper end",
        "aten.clamp.default",
        lambda right: lambda c, x, *ends: right(c, x, *ends[:1]),
        lambda _, h: h.clamp(-0.5, 0.5),
    ),
    Mutant(
        "a mask that is not less but not more",
        "aten.lt.Scalar",
        lambda _: lambda c, a, b: c.b.op("gt", a, c.tensor(b, F32)),
        lambda _, h: h * (h < 0.1),
    ),
    Mutant(
        "a fill of what is not masked",
        "aten.logical_not.default",
        _first(0),
        lambda _, h: h * (h > 0).logical_not(),
    ),
    # dtype
    Mutant("an exponential rounded to bf16", "aten.exp.default", _narrow, lambda _, h: h.exp()),
    Mutant("a product rounded to bf16", "aten.mm.default", _narrow, lambda m, h: h @ m.square),
    Mutant("a mean rounded to bf16", "aten.mean.dim", _narrow, lambda _, h: h.exp().mean(1)),
    # off by one
    Mutant("a place further", "aten.select.int", _argument(3, lambda i: i - 1), lambda _, h: h.select(1, 3)),
    Mutant(
        "a slice that starts later",
        "aten.slice.Tensor",
        lambda right: (
            lambda c, x, dim, a, b, *r: (
                right(c, x, dim, a - 1, b - 1, *r) if a else right(c, x, dim, a, b, *r)
            )
        ),
        lambda _, h: h[:, 2:6],
    ),
    Mutant(
        "the next word",
        "aten.embedding.default",
        lambda right: lambda c, w, i, *r: right(c, w, c.b.op("sub", i, c.b.full(1, i.dtype)), *r),
        lambda m, h: h[:, :1] * m.words(IDS + 0 * h.detach().long()[:, :4]).sum(1),
    ),
    Mutant("a mean of one less", "aten.mean.dim", _times(8 / 7), lambda _, h: h.mean(1)),
    Mutant(
        "a shift by one more",
        "aten.roll.default",
        _argument(2, lambda s: [s[0] + 1]),
        lambda _, h: h.roll(2, 1),
    ),
    Mutant(
        "padding of the other end",
        "aten.constant_pad_nd.default",
        _argument(2, lambda p: [p[1], p[0], *p[2:]]),
        lambda _, h: F.pad(h, (2, 0)),
    ),
    Mutant(
        "a power of one less",
        "aten.pow.Tensor_Scalar",
        _argument(2, lambda n: n - 1 if n == 3 else n),
        lambda _, h: h**3,
    ),
    Mutant(
        "scores' class next to the target's",
        "aten.nll_loss_forward.default",
        lambda right: lambda c, p, t, *r: right(c, p, c.b.op("sub", t, c.b.full(1, t.dtype)), *r),
        lambda _, h: F.cross_entropy(h, IDS[1] + 1),
    ),
    Mutant(
        "a running sum without its first term",
        aten.cumsum.default,
        lambda right: lambda x, dim, **k: right(x, dim, **k) - x,
        lambda _, h: h.cumsum(1),
        DECOMPOSED,
    ),
    Mutant(
        "circular padding of what was there",
        aten._pad_circular.default,
        lambda right: lambda x, pad: right(x, [pad[1], pad[0]]),
        lambda _, h: F.pad(h[None], (1, 3), mode="circular")[0],
        REPLACED,
    ),
    # order
    Mutant(
        "parts in the other order",
        "aten.cat.default",
        _argument(1, lambda parts: list(parts)[::-1]),
        lambda _, h: torch.cat([h, 2 * h], 1),
    ),
    Mutant("rows that are not turned", "aten.flip.default", _first(0), lambda _, h: h.flip(1) * 2),
    Mutant(
        "sorted the other way",
        aten.sort.default,
        lambda right: lambda x, dim=-1, descending=False: right(x, dim, not descending),
        lambda _, h: h.sort(1).values,
        REPLACED,
    ),
    Mutant(
        "the smallest in place of the largest",
        aten.topk.default,
        lambda right: lambda x, k, dim=-1, largest=True, *_: right(x, k, dim, not largest),
        lambda _, h: h.topk(3).values,
        REPLACED,
    ),
    Mutant(
        "the other extreme",
        "aten.maximum.default",
        _called("maximum", "minimum"),
        lambda _, h: torch.maximum(h, h.flip(1) * 0.5),
    ),
    # a term that is missing in a gradient
    Mutant(
        "sigmoid's gradient without 1 - y",
        "aten.sigmoid_backward.default",
        lambda _: lambda c, g, y: c.b.op("mul", g, y),
        lambda _, h: h.sigmoid(),
    ),
    Mutant("tanh's gradient without 1 - y^2", "aten.tanh_backward.default", _first(0), lambda _, h: h.tanh()),
    Mutant(
        "silu's gradient without its second term",
        "aten.silu_backward.default",
        lambda _: lambda c, g, x: c.b.op("mul", g, RULES["aten.sigmoid.default"](c, x)),
        lambda _, h: F.silu(h),
    ),
    Mutant("gelu's gradient as it came", "aten.gelu_backward.default", _first(0), lambda _, h: F.gelu(h)),
    Mutant(
        "softmax's gradient without its sum",
        "aten._softmax_backward_data.default",
        lambda _: lambda c, g, y, *_r: c.b.op("mul", g, y),
        lambda _, h: h.softmax(1),
    ),
    Mutant(
        "log_softmax's gradient without its sum",
        "aten._log_softmax_backward_data.default",
        _first(0),
        lambda _, h: h.log_softmax(1),
    ),
    Mutant(
        "squares' gradient without the number of terms",
        "aten.mse_loss_backward.default",
        _times(8.0),
        lambda _, h: F.mse_loss(h, torch.ones(4, 8)),
    ),
    Mutant(
        "words without a gradient",
        "aten.embedding_dense_backward.default",
        lambda right: lambda c, *a: _nothing(c, right(c, *a)),
        lambda m, h: h[:, :1] * m.words(IDS).sum(1),
    ),
    Mutant(
        "a layer norm whose weight has no gradient",
        "aten.native_layer_norm_backward.default",
        _part(0, lambda c, x: _negative(c, x)),
        lambda _, h: F.layer_norm(h, (8,)),
    ),
    Mutant(
        "a batch norm's gradient of the other sign",
        "aten.native_batch_norm_backward.default",
        _part(0, _negative),
        lambda m, h: m.norm(h),
    ),
    Mutant(
        "a convolution whose kernel has no gradient",
        "aten.convolution_backward.default",
        _part(1, _nothing),
        lambda m, h: m.picture(h.reshape(4, 1, 2, 4)).tanh(),
    ),
    Mutant(
        "pooling that gives the gradient to all",
        "aten.max_pool2d_with_indices_backward.default",
        lambda right: lambda c, *a: c.b.op("mul", right(c, *a), c.b.full(0.5)),
        lambda _, h: F.max_pool2d(h.reshape(4, 1, 2, 4), 2),
    ),
    Mutant(
        "places that are added to once",
        "aten.index_put.default",
        lambda right: lambda c, x, i, v, *r: right(c, x, i, v, False, *r[1:]),
        lambda _, h: h[:, torch.tensor([1, 1, 2])],
    ),
    # a state that is not carried
    Mutant(
        "a running mean that stays",
        "aten._native_batch_norm_legit_functional.default",
        lambda right: (
            lambda c, x, w, b, mean, var, *r: (
                *right(c, x, w, b, mean, var, *r)[:3],
                mean,
                right(c, x, w, b, mean, var, *r)[4],
            )
        ),
        lambda m, h: m.norm(h),
    ),
    Mutant(
        "a running variance of all but one",
        "aten._native_batch_norm_legit_functional.default",
        _part(4, lambda c, v: c.b.op("mul", v, c.b.full(0.75))),
        lambda m, h: m.norm(h),
    ),
)
