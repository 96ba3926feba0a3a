"""Random numbers that are the same on every machine: SHAKE-128 of a seed and a name, no library's generator.

No other party has to reproduce them, because initial weights and data order are committed tensors. But a client that
builds a program twice should get the same program, with any version of torch and numpy and on any processor.
"""

from __future__ import annotations

import hashlib
import math

import numpy as np
import numpy.typing as npt

_DOMAIN = b"assay/sampling/1"


def stream(seed: int, name: str, nbytes: int) -> bytes:
    """Return the `nbytes` pseudo-random bytes that belong to this seed and name."""
    head = _DOMAIN + seed.to_bytes(8, "big") + name.encode()
    return hashlib.shake_128(head).digest(nbytes)


def uniform(seed: int, name: str, shape: tuple[int, ...], bound: float) -> npt.NDArray[np.float32]:
    """Return f32 in [-bound, bound): 24 random bits each, scaled by one exact and one rounded product."""
    words = np.frombuffer(stream(seed, name, 4 * math.prod(shape)), dtype="<u4") >> np.uint32(8)
    values = words.astype(np.float32)
    values -= np.float32(1 << 23)  # [-2^23, 2^23): whole numbers, exact in f32
    values *= np.float32(bound / (1 << 23))
    return values.reshape(shape)


def permutation(seed: int, name: str, size: int) -> npt.NDArray[np.int64]:
    """Return 0 ... size-1 shuffled: sorted by 64 random bits each."""
    keys = np.frombuffer(stream(seed, name, 8 * size), dtype="<u8")
    return np.argsort(keys, kind="stable").astype(np.int64)


def data_order(seed: int, size: int, batch: int, steps: int) -> npt.NDArray[np.int64]:
    """Return [steps, batch]: the examples of each step. Each epoch is shuffled again; a batch may span two epochs."""
    epochs = -(-steps * batch // size)
    order = np.concatenate([permutation(seed, f"order/{epoch}", size) for epoch in range(epochs)])
    return order[: steps * batch].reshape(steps, batch)
