"""Operators on torch's CUDA tensors: checks the arguments, allocates the outputs, launches the plan."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from ..host.hashing import HASH_BYTES, TreeKind
from ..opset import BF16, BOOL, F32, I64, Attrs, Dtype, DtypeError, Shape, Spec, lookup
from ..reference.tensor_core import TERMS
from ..sums import SumMode
from ..tensors import AliasError, Array, ArrayError, call_of, freeze
from ..tensors import spec_of as array_spec
from .device import Device, device, torch_with_cuda
from .hashing import hash_plan, level_counts
from .plans import plan_for
from .tensor_core import blocks_plan

Tensor = Any  # torch.Tensor; importing this module does not need torch


@cache
def _dtypes() -> dict[Any, Dtype]:
    torch = torch_with_cuda()
    return {torch.float32: F32, torch.int64: I64, torch.bool: BOOL, torch.bfloat16: BF16}


@cache
def _torch_dtype(dtype: Dtype) -> Any:
    return next(kind for kind, code in _dtypes().items() if code == dtype)


def spec_of(tensor: Tensor, what: str) -> Spec:
    """Return the (dtype, shape) of a CUDA tensor. Raise an OpError that names the argument."""
    torch = torch_with_cuda()
    if not isinstance(tensor, torch.Tensor):
        raise ArrayError(f"{what} is not a torch tensor", type=type(tensor).__name__)
    if not tensor.is_cuda:
        raise ArrayError(f"{what} is not on a GPU", device=str(tensor.device))
    if tensor.layout != torch.strided or not tensor.is_contiguous():
        raise ArrayError(f"{what} is not contiguous", shape=tuple(tensor.shape))
    code = _dtypes().get(tensor.dtype)
    if code is None:
        raise DtypeError(f"{what}: dtype is not one of the operator set", got=str(tensor.dtype))
    return code, tuple(tensor.shape)


def same_device(tensors: Sequence[tuple[str, Tensor]]) -> Device:
    """Return the GPU of all tensors, the current one if there are none. Raise ArrayError if there are several."""
    indices = {tensor.device.index for _, tensor in tensors}
    if len(indices) > 1:
        where = {what: str(tensor.device) for what, tensor in tensors}
        raise ArrayError("arguments are on different GPUs", devices=where)
    return device(indices.pop() if indices else torch_with_cuda().cuda.current_device())


def empty(gpu: Device, dtype: Dtype, shape: Shape) -> Tensor:
    """Return a new tensor from torch's allocator."""
    return gpu.torch.empty(shape, dtype=_torch_dtype(dtype), device=gpu.index)


def current() -> Device:
    """Return torch's current GPU."""
    return device(torch_with_cuda().cuda.current_device())


def put(array: Array) -> Tensor:
    """Return a copy of an array on the current GPU."""
    tensor = empty(current(), *array_spec(array, "put: array"))
    write(tensor, array)
    return tensor


def write(tensor: Tensor, content: Array | Tensor) -> None:
    """Overwrite a tensor with an array or a tensor of its dtype and shape."""
    from ..torch_arrays import from_numpy  # needs torch

    tensor.copy_(from_numpy(content) if isinstance(content, np.ndarray) else content)


def viewed(data: Tensor, dtype: Dtype, shape: Shape) -> Tensor:
    """Return bytes on a GPU as a tensor."""
    return data.view(_torch_dtype(dtype)).view(shape)


def get(tensor: Tensor) -> Array:
    """Return a copy of a tensor in host memory; waits for the GPU."""
    from ..torch_arrays import to_numpy  # needs torch

    return np.array(to_numpy(tensor.cpu()))


def _range(tensor: Tensor) -> range:
    start = tensor.data_ptr()
    return range(start, start + tensor.numel() * tensor.element_size())


def _check_apart(outs: Sequence[tuple[str, Tensor]], others: Sequence[tuple[str, Tensor]]) -> None:
    """INVARIANT: no output shares a byte with an input or with another output. Raise AliasError otherwise."""
    for i, (what, tensor) in enumerate(outs):
        own = _range(tensor)
        for other, against in (*others, *outs[:i]):
            theirs = _range(against)
            if own and theirs and own.start < theirs.stop and theirs.start < own.stop:
                raise AliasError(f"{what} shares memory with {other}")


def execute(
    name: str,
    inputs: Sequence[Tensor],
    attrs: Attrs,
    out: Sequence[Tensor] | None = None,
    sums: SumMode = SumMode.REPOPS_F32,
) -> list[Tensor]:
    """Apply one operator on torch's current stream, in a mode. Outputs are new tensors, or `out` if it is given.

    `reshape` returns a view of its input unless `out` is given. Raise an OpError that names the argument.
    """
    row = lookup(name)
    row.check_arity(len(inputs))
    named = [(f"{name}: {row.argument(i)}", tensor) for i, tensor in enumerate(inputs)]
    specs = tuple([spec_of(tensor, what) for what, tensor in named])
    gpu = same_device(named)
    frozen = freeze(attrs, name)
    call = call_of(name, specs, frozen)
    if out is not None:
        outputs = list(out)
        places = [(f"{name}: out {i}", tensor) for i, tensor in enumerate(outputs)]
        found = [spec_of(tensor, what) for what, tensor in places]
        if found != list(call.outputs):
            raise ArrayError(f"{name}: out has the wrong dtypes or shapes", got=found, want=call.outputs)
        same_device([*named, *places])
        _check_apart(places, named)
    elif name == "reshape":
        return [inputs[0].view(call.outputs[0][1])]
    else:
        outputs = [empty(gpu, *spec) for spec in call.outputs]
    addresses = [tensor.data_ptr() for tensor in (*inputs, *outputs)]
    gpu.run(plan_for(name, specs, frozen, gpu.target.at(addresses), sums), addresses)
    return outputs


def hash_tree(tensor: Tensor, kind: TreeKind) -> list[Tensor]:
    """Return the levels of the Merkle tree over a tensor's bytes, leaves first: uint8 tensors [nodes, 32] on its GPU.

    The root is `levels[-1]`; `bytes(levels[-1].cpu().numpy())` waits for it. NaNs are hashed in canonical form.
    """
    spec = spec_of(tensor, "hash_tree: tensor")
    gpu = device(tensor.device.index)
    counts = level_counts(tensor.numel() * tensor.element_size())
    nodes = gpu.torch.empty((sum(counts), HASH_BYTES), dtype=gpu.torch.uint8, device=gpu.index)
    gpu.run(hash_plan(spec, kind, gpu.target), [tensor.data_ptr(), nodes.data_ptr()])
    return list(nodes.split(counts))


def blocks(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """Return the blocks of the mode tc16 as this GPU computes them: of rows of 16 factors (bf16, [n, 16]) and
    accumulators (f32, [n]), f32. Whether they keep the rule is for the caller to check. Raise an OpError."""
    named = [("blocks: a", a), ("blocks: b", b), ("blocks: c", c)]
    count = int(c.numel())
    wanted = [(BF16, (count, TERMS)), (BF16, (count, TERMS)), (F32, (count,))]
    found = [spec_of(tensor, what) for what, tensor in named]
    if found != wanted:
        raise ArrayError(
            "blocks: factors or accumulators have the wrong dtypes or shapes", got=found, want=wanted
        )
    gpu = same_device(named)
    result = empty(gpu, F32, (count,))
    gpu.run(blocks_plan(count), [tensor.data_ptr() for tensor in (a, b, c, result)])
    return result
