"""Lowering rules: losses.

Letters: N examples, C classes.
"""

from __future__ import annotations

from repops.fuse import composites
from repops.opset import F32

from ..builder import Ref
from ..errors import Unsupported
from .rules import Context, lowers

_NONE, _MEAN, _SUM = 0, 1, 2  # PyTorch's codes of a loss's reduction


# ----------------------------------------------------------------------------------------------- cross-entropy


def _classes(c: Context, logp: Ref, target: Ref, ignore: int) -> tuple[Ref, Ref]:
    """Return the target of each example, i64 [N, 1], outside [0, C) if it is ignored; and arange(C).

    NOTE: a target that is not a class would give a loss of 0 where PyTorch raises, so known targets are checked here.
    """
    n, classes = logp.shape
    if classes <= 0 or n <= 0:
        raise Unsupported(f"a cross-entropy of scores {list(logp.shape)}", "give it examples and classes")
    for values in c.known.leaves(target) or ():
        counted = values[values != ignore]
        if counted.size and (counted.min() < 0 or counted.max() >= classes):
            raise Unsupported(
                f"targets from {counted.min()} to {counted.max()} for {classes} scores",
                "number the classes from 0 and give the model a score for each",
            )
    if 0 <= ignore < classes:
        ignored = c.b.op("eq", target, c.tensor(ignore, target.dtype))
        target = c.b.op("where", ignored, c.tensor(-1, target.dtype), target)
    return c.b.op("reshape", target, shape=(n, 1)), c.b.op("arange", n=classes)


def _weights(c: Context, logp: Ref, target: Ref, weight: Ref | None, ignore: int) -> Ref | None:
    """Return the weight of each example, f32 [N, 1]; None if all are known to be 1."""
    n = logp.shape[0]
    counts = c.b.op("ne", target, c.tensor(ignore, target.dtype))
    if weight is not None:
        chosen = c.b.op("where", counts, c.b.op("take", weight, target), c.b.full(0.0))
        return c.b.op("reshape", chosen, shape=(n, 1))
    leaves = c.known.leaves(target)
    if leaves is not None and not any((values == ignore).any() for values in leaves):
        return None
    return c.b.op("reshape", c.b.op("cast", counts, dtype=F32), shape=(n, 1))


def _batch_of_one(c: Context, logp: Ref, target: Ref) -> tuple[Ref, Ref]:
    return c.b.op("reshape", logp, shape=(1, logp.shape[0])), c.b.op("reshape", target, shape=(1,))


def _total(c: Context, x: Ref) -> Ref:
    return c.b.op("sum", x, dims=tuple(range(x.rank)), keepdim=0)


@lowers("aten.nll_loss_forward.default")
def nll_loss(
    c: Context, logp: Ref, target: Ref, weight: Ref | None, reduction: int, ignore: int
) -> tuple[Ref, Ref]:
    """Return the loss and the sum of the examples' weights. One example may have no batch: scores [C], a target []."""
    if logp.rank == 1:
        rows, targets = _batch_of_one(c, logp, target)
        loss, total_weight = nll_loss(c, rows, targets, weight, reduction, ignore)
        return c.b.op("reshape", loss, shape=()), total_weight
    column, classes = _classes(c, logp, target, ignore)
    logits = c.notes.get(("log_softmax", logp))
    if logits is not None:
        each = composites.cross_entropy(c.o, logits, column, classes)
    else:
        chosen = c.b.op("where", c.b.op("eq", classes, column), logp, c.b.full(0.0))
        each = c.b.op("neg", c.b.op("sum", chosen, dims=(1,), keepdim=1))
    weights = _weights(c, logp, target, weight, ignore)
    if weight is not None and weights is not None:
        each = c.b.op("mul", each, weights)
    total_weight = c.b.full(logp.shape[0]) if weights is None else _total(c, weights)
    if reduction == _NONE:
        return c.b.op("reshape", each, shape=target.shape), total_weight
    loss = _total(c, each)
    return c.b.op("div", loss, total_weight) if reduction == _MEAN else loss, total_weight


@lowers("aten.nll_loss_backward.default")
def nll_loss_backward(
    c: Context,
    grad: Ref,
    logp: Ref,
    target: Ref,
    weight: Ref | None,
    reduction: int,
    ignore: int,
    total_weight: Ref,
) -> Ref:
    if logp.rank == 1:
        rows, targets = _batch_of_one(c, logp, target)
        flat = c.b.op("reshape", grad, shape=(1,)) if reduction == _NONE else grad
        result = nll_loss_backward(c, flat, rows, targets, weight, reduction, ignore, total_weight)
        return c.b.op("reshape", result, shape=logp.shape)
    column, classes = _classes(c, logp, target, ignore)
    rows = c.b.op("reshape", grad, shape=(logp.shape[0], 1)) if reduction == _NONE else grad
    if reduction == _MEAN:
        if c.b.scalar_value(total_weight) is None:
            # NOTE: if no target counts, the loss is NaN and no row has a gradient, as in PyTorch.
            none = c.b.op("eq", total_weight, c.b.full(0.0))
            total_weight = c.b.op("where", none, c.b.full(1.0), total_weight)
        rows = c.b.op("div", rows, total_weight)
    if weight is not None:
        weights = _weights(c, logp, target, weight, ignore)
        rows = rows if weights is None else c.b.op("mul", rows, weights)
    chosen = c.b.op("eq", classes, column)
    result = c.b.op("where", chosen, c.b.op("neg", rows), c.b.full(0.0))
    logits = c.notes.get(("log_softmax", logp))
    if logits is not None:
        c.notes["nll gradient", result] = rows, logits, column, classes
    return result


def _by_class_last(c: Context, logp: Ref, target: Ref) -> tuple[Ref, Ref]:
    """Return [N, C, ...] scores as [N ..., C], and the targets of these rows."""
    dims = (0, *range(2, logp.rank), 1)
    rows = c.b.op("permute", logp, dims=dims)
    return (
        c.b.op("reshape", rows, shape=(target.count, logp.shape[1])),
        c.b.op("reshape", target, shape=(target.count,)),
    )


@lowers("aten.nll_loss2d_forward.default")
def nll_loss2d(
    c: Context, logp: Ref, target: Ref, weight: Ref | None, reduction: int, ignore: int
) -> tuple[Ref, Ref]:
    rows, targets = _by_class_last(c, logp, target)
    loss, total_weight = nll_loss(c, rows, targets, weight, reduction, ignore)
    return c.b.op("reshape", loss, shape=target.shape if reduction == _NONE else ()), total_weight


@lowers("aten.nll_loss2d_backward.default")
def nll_loss2d_backward(
    c: Context,
    grad: Ref,
    logp: Ref,
    target: Ref,
    weight: Ref | None,
    reduction: int,
    ignore: int,
    total_weight: Ref,
) -> Ref:
    rows, targets = _by_class_last(c, logp, target)
    flat = c.b.op("reshape", grad, shape=(target.count,)) if reduction == _NONE else grad
    result = nll_loss_backward(c, flat, rows, targets, weight, reduction, ignore, total_weight)
    result = c.b.op("reshape", result, shape=(logp.shape[0], *logp.shape[2:], logp.shape[1]))
    return c.b.op("permute", result, dims=(0, logp.rank - 1, *range(1, logp.rank - 1)))


# ------------------------------------------------------------------------------------------------ mean squares


def _reduced(c: Context, x: Ref, reduction: int) -> Ref:
    if reduction == _NONE:
        return x
    total = _total(c, x)
    return c.b.op("div", total, c.b.full(x.count)) if reduction == _MEAN else total


@lowers("aten.mse_loss.default")
def mse_loss(c: Context, x: Ref, target: Ref, reduction: int = _MEAN) -> Ref:
    return _reduced(c, composites.squared_error(c.o, x, target), reduction)


@lowers("aten.mse_loss_backward.default")
def mse_loss_backward(c: Context, grad: Ref, x: Ref, target: Ref, reduction: int) -> Ref:
    if reduction == _MEAN:
        grad = c.b.op("div", grad, c.b.full(x.count))
    return composites.squared_error_grad(c.o, grad, x, target)
