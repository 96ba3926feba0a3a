"""Rules: layout, indexing, new tensors."""

from __future__ import annotations

import math
from typing import Any

import torch

from ...capture.errors import CaptureError
from ..tensors import torch_dtype
from ..values import Call, Given, Known, Parts, check_size, untraced
from .registry import operator

Tensor = torch.Tensor


@operator("Constant", folds=True)
def constant(c: Call) -> Tensor:
    given = c.node.attributes
    for name, dtype in (("float", torch.float32), ("int", torch.int64)):
        for key in (f"value_{name}", f"value_{name}s"):
            if key in given:
                return torch.tensor(given[key], dtype=dtype)
    return _tensor_attribute(c, "value")


@operator("Identity", folds=True)
def identity(c: Call, x: Given) -> Tensor:
    return c.tensor(x)


@operator("Shape", folds=True)
def shape(c: Call, x: Given) -> Known:
    """Return the sizes of a tensor, which are known before tracing even if its values are not."""
    sizes = list(_value(c, x).shape)
    start, end = c.get("start", 0), c.node.attributes.get("end")
    with untraced():
        return Known(torch.tensor(sizes[start:end], dtype=torch.int64))


@operator("Size", folds=True)
def size(c: Call, x: Given) -> Known:
    with untraced():
        return Known(torch.tensor(math.prod(_value(c, x).shape), dtype=torch.int64))


def _value(c: Call, x: Given) -> Tensor:
    return x.tensor if isinstance(x, Known) else c.tensor(x)


def _tensor_attribute(c: Call, name: str) -> Tensor:
    value = c.node.attributes.get(name)
    if not isinstance(value, torch.Tensor):
        raise c.unsupported(f"a {c.node.op} without a plain {name}", "export the model again")
    return value


# --------------------------------------------------------------------------------------------------------- layout


@operator("Reshape", folds=True)
def reshape(c: Call, x: Given, target: Given) -> Tensor:
    """Reshape; a zero keeps the existing size, unless `allowzero`."""
    value, sizes = c.tensor(x), c.list(target, "shape")
    if not c.get("allowzero", 0):
        sizes = [value.shape[k] if size == 0 and k < value.ndim else size for k, size in enumerate(sizes)]
    return torch.reshape(value, sizes)


@operator("Flatten", folds=True)
def flatten(c: Call, x: Given) -> Tensor:
    value = c.tensor(x)
    axis = c.get("axis", 1)
    axis = axis + value.ndim if axis < 0 else axis
    return torch.reshape(value, (math.prod(value.shape[:axis]), math.prod(value.shape[axis:])))


@operator("Transpose", folds=True)
def transpose(c: Call, x: Given) -> Tensor:
    value = c.tensor(x)
    return torch.permute(value, c.ints("perm", tuple(reversed(range(value.ndim)))) or ())


@operator("Squeeze", folds=True)
def squeeze(c: Call, x: Given, axes: Given = None) -> Tensor:
    value, dims = c.tensor(x), c.axes(axes)
    return torch.squeeze(value) if dims is None else torch.squeeze(value, tuple(dims))


@operator("Unsqueeze", folds=True)
def unsqueeze(c: Call, x: Given, axes: Given = None) -> Tensor:
    value, dims = c.tensor(x), c.axes(axes) or []
    rank = value.ndim + len(dims)
    for dim in sorted(dim % rank for dim in dims):
        value = torch.unsqueeze(value, dim)
    return value


@operator("Concat", folds=True)
def concat(c: Call, *inputs: Given) -> Tensor:
    axis, shapes = c.get("axis", 0), [list(_value(c, value).shape) for value in inputs]
    check_size([*shapes[0][:axis], sum(s[axis] for s in shapes), *shapes[0][axis:][1:]], c.node.where)
    return torch.cat([c.tensor(value) for value in inputs], axis)


@operator("Split", folds=True)
def split(c: Call, x: Given, sizes: Given = None) -> Any:
    value, axis = c.tensor(x), c.get("axis", 0)
    given = c.axes(sizes, "split")
    if given is None:
        parts = c.get("num_outputs", len(c.node.outputs))
        if parts != len(c.node.outputs):
            raise CaptureError(
                f"{c.node.where} is split into {parts} and has {len(c.node.outputs)} outputs; export the model again"
            )
        given = [-(-value.shape[axis] // parts)] * parts
        given[-1] = value.shape[axis] - sum(given[:-1])
    return torch.split(value, given, axis)


@operator("SplitToSequence")
def split_to_sequence(c: Call, x: Given, sizes: Given = None) -> Parts:
    value, axis = c.tensor(x), c.get("axis", 0)
    given = [1] * value.shape[axis] if sizes is None else c.list(sizes, "split")
    if sizes is None and not c.get("keepdims", 1):
        return Parts(torch.unbind(value, axis))
    if len(given) == 1:
        return Parts(torch.split(value, given[0], axis))
    return Parts(torch.split(value, given, axis))


@operator("SequenceAt")
def sequence_at(c: Call, sequence: Parts, place: Given) -> Tensor:
    return sequence.items[int(c.number(place, "position"))]


@operator("Slice", folds=True)
def slice_(c: Call, x: Given, starts: Given, ends: Given, axes: Given = None, steps: Given = None) -> Tensor:
    value = c.tensor(x)
    first, last = c.list(starts, "starts"), c.list(ends, "ends")
    dims = c.list(axes, "axes") if axes is not None else list(range(len(first)))
    strides = c.list(steps, "steps") if steps is not None else [1] * len(first)
    for dim, start, end, step in zip(dims, first, last, strides, strict=True):
        size = value.shape[dim]
        start, end = (min(max(bound, -size - 1), size) for bound in (start, end))
        if step < 0:
            value = torch.flip(value, (dim,))
            start, end = _flipped(start, size), _flipped(end, size)
        # NOTE: a larger step takes the first element, too, and may be of any size.
        stride = min(abs(step), max(1, size))
        value = value[(slice(None),) * (dim % value.ndim) + (slice(start, end, stride),)]
    return value


def _flipped(bound: int, size: int) -> int:
    """Return a bound of a backwards slice as a bound in the flipped dimension."""
    inside = min(max(bound + size if bound < 0 else bound, -1), size - 1)
    return size - 1 - inside


@operator("Expand", folds=True)
def expand(c: Call, x: Given, target: Given) -> Tensor:
    value, sizes = c.tensor(x), c.list(target, "shape")
    check_size(sizes, c.node.where)
    return torch.broadcast_to(value, torch.broadcast_shapes(value.shape, sizes))


@operator("Tile", folds=True)
def tile(c: Call, x: Given, repeats: Given) -> Tensor:
    value, counts = c.tensor(x), c.list(repeats, "repeats")
    check_size([*counts, *value.shape], c.node.where)
    return value.repeat(counts)


@operator("DepthToSpace")
def depth_to_space(c: Call, x: Given) -> Tensor:
    """[N, C b b, H, W] to [N, C, H b, W b]: blocks lie outside of the channels (DCR), or inside (CRD)."""
    value, b = c.tensor(x), c.get("blocksize", 1)
    n, channels, h, w = value.shape
    if c.get("mode", "DCR") == "CRD":
        return (
            value.reshape(n, -1, b, b, h, w)
            .permute(0, 1, 4, 2, 5, 3)
            .reshape(n, channels // b**2, h * b, w * b)
        )
    return (
        value.reshape(n, b, b, -1, h, w).permute(0, 3, 4, 1, 5, 2).reshape(n, channels // b**2, h * b, w * b)
    )


@operator("SpaceToDepth")
def space_to_depth(c: Call, x: Given) -> Tensor:
    """[N, C, H b, W b] to [N, b b C, H, W]."""
    value, b = c.tensor(x), c.get("blocksize", 1)
    if c.get("mode", "DCR") != "DCR":
        raise c.unsupported(f"SpaceToDepth of mode {c.get('mode', '')[:40]}", "use DCR")
    n, channels, h, w = value.shape
    return (
        value.reshape(n, channels, h // b, b, w // b, b)
        .permute(0, 3, 5, 1, 2, 4)
        .reshape(n, -1, h // b, w // b)
    )


@operator("EyeLike", folds=True)
def eye_like(c: Call, x: Given) -> Tensor:
    rows, columns = _value(c, x).shape
    dtype = (
        torch_dtype(c.get("dtype", 0), c.node.where) if "dtype" in c.node.attributes else _value(c, x).dtype
    )
    diagonal: Tensor = torch.arange(columns) - torch.arange(rows).unsqueeze(1) == c.get("k", 0)
    return diagonal.to(dtype)


@operator("Trilu", folds=True)
def trilu(c: Call, x: Given, diagonal: Given = None) -> Tensor:
    k = 0 if diagonal is None else int(c.number(diagonal, "diagonal"))
    return (torch.triu if c.get("upper", 1) else torch.tril)(c.tensor(x), k)


# ------------------------------------------------------------------------------------------------------- indexing


@operator("Gather", folds=True)
def gather(c: Call, x: Given, index: Given) -> Tensor:
    """Take rows. NOTE: a program gives zeros for a row that does not exist; ONNX leaves that result undefined."""
    value, axis = c.tensor(x), c.get("axis", 0)
    axis %= value.ndim
    if isinstance(index, Known):
        check_size((*index.tensor.shape, *value.shape[:axis], *value.shape[axis + 1 :]), c.node.where)
        if index.tensor.ndim == 0:
            return torch.select(value, axis, int(c.number(index, "index")))
        with untraced():
            from_start = index.tensor % max(1, value.shape[axis])
        places = c.tensor(Known(from_start))
    else:
        places = c.tensor(index)
    if axis == 0 and value.ndim == 2 and value.is_floating_point():
        return torch.nn.functional.embedding(places, value)
    if axis == 0:
        return value[places]
    chosen = torch.index_select(value, axis, places.reshape(-1))
    return chosen.reshape((*value.shape[:axis], *places.shape, *value.shape[axis + 1 :]))


@operator("GatherElements", folds=True)
def gather_elements(c: Call, x: Given, index: Given) -> Tensor:
    value = c.tensor(x)
    places = c.tensor(index)
    return torch.gather(value, c.get("axis", 0), places)


@operator("GatherND", folds=True)
def gather_nd(c: Call, x: Given, index: Given) -> Tensor:
    """Index the first dimensions of x by the last dimension of the index."""
    if c.get("batch_dims", 0):
        raise c.unsupported("GatherND with batch dimensions", "index without them")
    value, places = c.tensor(x), c.tensor(index)
    check_size((*places.shape[:-1], *value.shape[places.shape[-1] :]), c.node.where)
    return value[tuple(places.unbind(-1))]


@operator("ScatterND", folds=True)
def scatter_nd(c: Call, x: Given, index: Given, updates: Given) -> Tensor:
    reduction = c.get("reduction", "none")
    if reduction not in ("none", "add"):
        raise c.unsupported(f"ScatterND with reduction {reduction}", "use add, or none")
    value, places = c.tensor(x), c.tensor(index)
    return value.index_put(tuple(places.unbind(-1)), c.tensor(updates), accumulate=reduction == "add")


@operator("ScatterElements")
def scatter_elements(c: Call, x: Given, index: Given, updates: Given) -> Tensor:
    reduction, axis = c.get("reduction", "none"), c.get("axis", 0)
    if reduction not in ("none", "add"):
        raise c.unsupported(f"ScatterElements with reduction {reduction[:40]}", "use add, or none")
    value, places, new = c.tensor(x), c.tensor(index), c.tensor(updates)
    places = torch.where(places < 0, places + value.shape[axis], places)
    return (
        torch.scatter_add(value, axis, places, new)
        if reduction == "add"
        else torch.scatter(value, axis, places, new)
    )


@operator("OneHot", folds=True)
def one_hot(c: Call, index: Given, depth: Given, values: Given) -> Tensor:
    count = int(c.number(depth, "depth"))
    places, pair = c.tensor(index), c.tensor(values)
    check_size((*places.shape, count), c.node.where)
    if c.get("axis", -1) not in (-1, places.ndim):
        raise c.unsupported("OneHot along an inner axis", "use the last axis and transpose")
    every = torch.arange(count)
    chosen = torch.logical_or(places.unsqueeze(-1) == every, places.unsqueeze(-1) + count == every)
    return torch.where(chosen, pair[1], pair[0])


# ------------------------------------------------------------------------------------------- tensors from nothing


@operator("ConstantOfShape", folds=True)
def constant_of_shape(c: Call, target: Given) -> Tensor:
    sizes = c.list(target, "shape")
    check_size(sizes, c.node.where)
    if "value" not in c.node.attributes:
        return torch.zeros(sizes)
    value = _tensor_attribute(c, "value")
    return value.reshape(()).expand(sizes).clone()


@operator("Range", folds=True)
def range_(c: Call, start: Given, limit: Given, delta: Given) -> Tensor:
    first, last, step = (
        c.number(v, name) for v, name in ((start, "start"), (limit, "limit"), (delta, "delta"))
    )
    if not step or not all(map(math.isfinite, (first, last, step))):
        raise c.unsupported(f"a Range from {first} to {last} by {step}", "export the model again")
    check_size((max(0, math.ceil((last - first) / step)),), c.node.where)
    dtype = start.tensor.dtype if isinstance(start, Known) else torch.int64
    return (
        torch.arange(first, last, step, dtype=dtype)
        if (last - first) / step > 0
        else torch.empty(0, dtype=dtype)
    )
