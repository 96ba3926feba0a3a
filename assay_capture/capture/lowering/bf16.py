"""bfloat16 in a captured step: it is stored, moved and multiplied as such; everything else is f32 and a cast.

So does PyTorch on tensors of bfloat16: it computes an operator in f32 and rounds the result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from repops.opset import BF16, F32

from referee_py.program import TensorType

from ..builder import Builder, Ref

_CONTRACTIONS = (
    "mm.default",
    "bmm.default",
    "addmm.default",
    "convolution.default",
    "convolution_backward.default",
)
_MOVES = (
    *(
        "view.default",
        "_unsafe_view.default",
        "reshape.default",
        "squeeze.default",
        "squeeze.dim",
        "squeeze.dims",
    ),
    *(
        "unsqueeze.default",
        "flatten.using_ints",
        "t.default",
        "transpose.int",
        "permute.default",
        "expand.default",
    ),
    *(
        "cat.default",
        "slice.Tensor",
        "split.Tensor",
        "split_with_sizes.default",
        "select.int",
        "repeat.default",
    ),
    *("slice_backward.default", "select_backward.default", "constant_pad_nd.default", "roll.default"),
    *("clone.default", "detach.default", "alias.default", "lift_fresh_copy.default", "lift_fresh.default"),
    *("embedding.default", "index_select.default", "_to_copy.default"),
    *("where.self", "where.ScalarOther", "where.ScalarSelf", "fill.Scalar", "fill.Tensor", "copy.default"),
    *(
        "zeros_like.default",
        "ones_like.default",
        "full_like.default",
        "full.default",
        "zeros.default",
        "ones.default",
    ),
    *("new_zeros.default", "new_ones.default", "new_full.default", "scalar_tensor.default", "zero.default"),
    *("empty.memory_format", "empty_like.default", "new_empty.default", "new_empty_strided.default"),
)
NATIVE = frozenset(f"aten.{name}" for name in (*_CONTRACTIONS, *_MOVES)) | {
    "prims.convert_element_type.default",
    "prims.broadcast_in_dim.default",
    "prims.transpose.default",
    "prims.where.default",
    "prims.cat.default",
    "prims.clone.default",
}
"""ATen operators whose rules take bf16 as it is."""


def in_f32(b: Builder, value: Any) -> Any:
    """Cast what is bf16 among a rule's arguments, nested in lists too."""
    if isinstance(value, Ref):
        return b.op("cast", value, dtype=F32) if value.dtype == BF16 else value
    if isinstance(value, (list, tuple)):
        return type(value)(in_f32(b, item) for item in value)
    return value


def widened(type_: TensorType | None) -> TensorType | None:
    """Return the type in which a rule computes an output of this type."""
    return TensorType(F32, type_.shape) if type_ is not None and type_.dtype == BF16 else type_


def narrowed(b: Builder, result: Any, types: tuple[TensorType | None, ...]) -> Any:
    """Cast a rule's outputs to the types that PyTorch gives them."""
    several = isinstance(result, tuple)
    cast: Callable[[Any, TensorType | None], Any] = lambda value, type_: (  # noqa: E731
        b.op("cast", value, dtype=BF16)
        if isinstance(value, Ref) and type_ is not None and type_.dtype == BF16 and value.dtype == F32
        else value
    )
    values = tuple(map(cast, result if several else (result,), types))
    return values if several else values[0]
