"""sum, amax, argmax. The order of a sum is fixed: blocks of 4096, 32 lanes, folds (docs/opset.md, section 2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..tensors import Array
from .arithmetic import MINUS_INF, MINUS_ZERO, larger, order_key

BLOCK = 4096
LANES = 32


def rows(x: Array, dims: Sequence[int]) -> Array:
    """Return [kept..., n], with the reduced dimensions last, flattened in row-major order."""
    kept = [d for d in range(x.ndim) if d not in dims]
    moved = x.transpose(*kept, *dims)
    n = int(np.prod([x.shape[d] for d in dims], dtype=np.int64))
    return moved.reshape(*(x.shape[d] for d in kept), n)


def keep(result: Array, x: Array, dims: Sequence[int], keepdim: int) -> Array:
    """Return the result with the reduced dimensions as 1 if `keepdim`."""
    return result.reshape([1 if d in dims else n for d, n in enumerate(x.shape)]) if keepdim else result


def _block_reduce(rows: Array, combine: Callable[[Array, Array], Array], identity: np.float32) -> Array:
    """Reduce the last axis by blocks until one value is left. Absent elements are the identity."""
    while True:
        n = rows.shape[-1]
        blocks = max(1, -(-n // BLOCK))
        steps = BLOCK // LANES if blocks > 1 else -(-n // LANES)  # all further steps would add identities
        padded = np.full((*rows.shape[:-1], blocks * steps * LANES), identity, dtype=np.float32)
        padded[..., :n] = rows
        blocked = padded.reshape(*rows.shape[:-1], blocks, steps, LANES)

        lanes = np.full((*rows.shape[:-1], blocks, LANES), identity, dtype=np.float32)
        for i in range(steps):
            lanes = combine(lanes, blocked[..., i, :])
        for half in (16, 8, 4, 2, 1):
            lanes = combine(lanes[..., :half], lanes[..., half:])

        rows = lanes[..., 0]
        if blocks == 1:
            return rows[..., 0]


def reduce_sum(x: Array, dims: Sequence[int], keepdim: int) -> Array:
    items = rows(x, dims)
    if x.dtype == np.int64:
        return keep(items.sum(axis=-1, dtype=np.int64), x, dims, keepdim)  # wraps, so any order is the same
    return keep(_block_reduce(items, np.add, MINUS_ZERO), x, dims, keepdim)


def amax(x: Array, dims: Sequence[int], keepdim: int) -> Array:
    items = rows(x, dims)
    if x.dtype == np.int64:
        return keep(items.max(axis=-1, initial=np.iinfo(np.int64).min), x, dims, keepdim)
    return keep(_block_reduce(items, larger, MINUS_INF), x, dims, keepdim)


def argmax(x: Array, dim: int, keepdim: int) -> Array:
    """Return the first index of the largest element."""
    first = np.argmax(order_key(rows(x, (dim,))), axis=-1).astype(np.int64)
    return keep(first, x, (dim,), keepdim)
