"""The intervals that a sampler checks: drawn from randomness that was not known when the run was claimed.

Interval k has the rank SHA-256(seed ‖ k u64be); the smallest ranks are drawn. The seed is

    share      SHA-256("Assay share" ‖ hash of the block after the claim's ‖ sampler's address ‖ root): public, so
               anybody can see who covers what; samplers who do not know each other cover different parts
    sample:P   SHA-256("Assay sample" ‖ a secret of the key ‖ root): nobody but the sampler knows what it checks

SAFETY: whoever makes the block after the claim's can choose among some hashes, at the price of a block for each.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator


def public_seed(block_hash: bytes, address: str, root: bytes) -> bytes:
    account = bytes.fromhex(address.removeprefix("0x"))
    return hashlib.sha256(b"Assay share" + block_hash + account + root).digest()


def secret_seed(secret: bytes, root: bytes) -> bytes:
    return hashlib.sha256(b"Assay sample" + secret + root).digest()


def drawn(seed: bytes, intervals: int, count: int) -> Iterator[int]:
    """Yield `count` of the intervals 1 to `intervals`, in the order in which they are to be checked."""

    def rank(interval: int) -> bytes:
        return hashlib.sha256(seed + interval.to_bytes(8, "big")).digest()

    yield from sorted(range(1, intervals + 1), key=rank)[:count]
