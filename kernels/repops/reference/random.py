"""philox: random numbers that depend only on seed, step, site and position."""

from __future__ import annotations

import numpy as np

from ..opset import F32, Dtype, Shape
from ..tensors import Array

ROUNDS = 10
WORD = (1 << 32) - 1


def block(counter: tuple[int, int, int, int], key: tuple[int, int]) -> tuple[int, int, int, int]:
    """Philox 4x32-10 (Salmon et al., SC 2011): return the four words of a counter of four words and a key of two."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(ROUNDS):
        p0, p1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = p1 >> 32 ^ c1 ^ k0, p1 & WORD, p0 >> 32 ^ c3 ^ k1, p0 & WORD
        k0, k1 = k0 + 0x9E3779B9 & WORD, k1 + 0xBB67AE85 & WORD
    return c0, c1, c2, c3


def philox(seed: Array, step: Array, shape: Shape, dtype: Dtype, site: int) -> Array:
    key, number = int(seed) % (1 << 64), int(step) % (1 << 64)
    count = int(np.prod(shape, dtype=np.int64))
    words: list[int] = []
    for b in range(-(-count // 4)):
        counter = (b & WORD, (b >> 32) + (site << 8), number & WORD, number >> 32)
        words += block(counter, (key & WORD, key >> 32))
    drawn = np.array(words[:count], dtype=np.int64).reshape(shape)
    if dtype != F32:
        return drawn
    return (drawn >> 8).astype(np.float32) * np.float32(2.0**-24)
