"""`scaled_dot_product_attention` in the form of the composites: one scale, one mask, one softmax.

PyTorch's own decomposition scales queries and keys each by a root, writes out a mask of floats and, where several heads
share a key, copies of the keys. This one gives the same numbers with fewer large tensors. PyTorch decomposes `rms_norm`
before it can be recognised, so it is sent to the operator that has its own gradient.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional
from torch.nn.modules import transformer

from ..errors import Unsupported
from .registry import PATCHES, replaces

aten = torch.ops.aten


@replaces(aten.rms_norm.default)
def rms_norm(
    x: torch.Tensor,
    normalized_shape: Sequence[int],
    weight: torch.Tensor | None = None,
    eps: float | None = None,
) -> torch.Tensor:
    result: torch.Tensor = _RmsNorm.apply(x, list(normalized_shape), weight, eps)  # type: ignore[no-untyped-call]
    return result


class _RmsNorm(torch.autograd.Function):
    """PyTorch's two operators for the norm and its gradient, kept whole."""

    @staticmethod
    def forward(
        context: Any, x: torch.Tensor, shape: list[int], weight: torch.Tensor | None, eps: float | None
    ) -> torch.Tensor:
        y: torch.Tensor
        y, scale = torch.ops.aten._fused_rms_norm(x, shape, weight, eps)
        context.save_for_backward(x, weight, scale)
        context.shape = shape
        return y

    @staticmethod
    def backward(context: Any, grad: torch.Tensor) -> Any:
        x, weight, scale = context.saved_tensors
        wanted = [context.needs_input_grad[0], weight is not None and context.needs_input_grad[2]]
        of_x, of_weight = torch.ops.aten._fused_rms_norm_backward(
            grad, x, context.shape, scale, weight, wanted
        )
        return of_x, None, of_weight, None


@replaces(aten.scaled_dot_product_attention.default)
def attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """query [..., H, L, E], key [..., K, S, E], value [..., K, S, V] -> [..., H, L, V]; K is H, or divides it (gqa).

    Inside autocast, queries, keys and values are bfloat16. As in PyTorch's kernels, only what goes in and out is:
    scores are f32, weights are rounded to bfloat16 for the second product, no gradient between the two is rounded.
    """
    if torch.is_autocast_enabled("cpu"):
        query, key, value = (tensor.bfloat16() for tensor in (query, key, value))
    with torch.autocast("cpu", enabled=False):
        return _attention(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
) -> torch.Tensor:
    if is_causal and attn_mask is not None:
        raise Unsupported("attention with a mask and is_causal", "pass one of them, as PyTorch requires")
    heads, length, keys = query.shape[-3:-2], query.shape[-2], key.shape[-2]
    shape = (*query.shape[:-1], keys)
    shared = enable_gqa and heads != key.shape[-3:-2]
    if shared:  # the queries of the heads that share a key become rows of one product
        query = query.reshape(*key.shape[:-2], -1, query.shape[-1])
    dtype = value.dtype
    if dtype == torch.bfloat16:
        query, key, value = query.float(), key.float(), value.float()
    scores = torch.matmul(query, key.transpose(-2, -1)).reshape(
        shape if shared else (*query.shape[:-1], keys)
    )
    scores = scores * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if is_causal:
        attn_mask = torch.ones(length, keys, dtype=torch.bool).tril()
    if attn_mask is None:
        weights = torch.softmax(scores, -1)
    elif attn_mask.dtype == torch.bool:
        masked = _Masked.apply(scores, attn_mask)  # type: ignore[no-untyped-call]
        weights = torch.ops.aten._safe_softmax(masked, -1)
    else:
        weights = torch.ops.aten._safe_softmax(scores + attn_mask, -1)
    weights = functional.dropout(weights, dropout_p)
    if dtype == torch.bfloat16:
        weights = _Rounded.apply(weights)  # type: ignore[no-untyped-call]
    if not shared:
        return torch.matmul(weights, value).to(dtype)
    mixed = torch.matmul(weights.reshape(*value.shape[:-2], -1, keys), value).to(dtype)
    return mixed.reshape(*shape[:-1], value.shape[-1])


class _Rounded(torch.autograd.Function):
    """Values rounded to bfloat16, with gradients that are not."""

    @staticmethod
    def forward(_: Any, x: torch.Tensor) -> torch.Tensor:
        return x.bfloat16().float()

    @staticmethod
    def backward(_: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad


class _Masked(torch.autograd.Function):
    """Scores where the mask is 1, -inf elsewhere. The gradient needs no mask: the softmax's gradient is 0 there."""

    @staticmethod
    def forward(_: Any, scores: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
        return torch.where(keep, scores, -math.inf)

    @staticmethod
    def backward(_: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        return grad, None


def _is_causal(_: torch.Tensor | None, is_causal: bool | None = None, __: int | None = None) -> bool:
    """PyTorch's function of `nn.TransformerEncoder` without its look at the mask's values: the mask is added anyway."""
    return is_causal is True


PATCHES.append((transformer, "_detect_is_causal_mask", _is_causal))
