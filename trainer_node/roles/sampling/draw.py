"""The intervals that a sampler checks: drawn from randomness that was not known when the run was claimed.

They are the first ones of a permutation of all intervals, whose key is the seed:

    share      SHA-256("Assay share" ‖ hash of the block after the claim's ‖ sampler's address ‖ root): public, so
               anybody can see who covers what; samplers who do not know each other cover different parts
    sample:P   SHA-256("Assay sample" ‖ a secret of the key ‖ root): nobody but the sampler knows what it checks

SAFETY: the client says how many intervals a run has, and pays nothing for their number. So nothing here lists or sorts
them: each place of the permutation is computed alone, and only once its interval is to be checked.

SAFETY: whoever makes the block after the claim's can choose among some hashes, at the price of a block for each.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

_ROUNDS = 8
"""Rounds of the Feistel network. NOTE: four make a permutation of a function that nobody can tell from a random one;
each half of the few values here is short, so there are twice as many."""
_LEAST_BITS = 4
"""Least bits of a half: with fewer the network can make only some of the permutations."""


def public_seed(block_hash: bytes, address: str, root: bytes) -> bytes:
    account = bytes.fromhex(address.removeprefix("0x"))
    return hashlib.sha256(b"Assay share" + block_hash + account + root).digest()


def secret_seed(secret: bytes, root: bytes) -> bytes:
    return hashlib.sha256(b"Assay sample" + secret + root).digest()


@dataclass(frozen=True, slots=True)
class Drawn(Sequence[int]):
    """The first ``size`` places of a permutation of the intervals 1 to ``intervals``, in the order in which they are
    to be checked. It holds none of them; each is computed when it is read, in a time that does not depend on their
    number."""

    seed: bytes
    intervals: int
    size: int

    def __len__(self) -> int:
        return self.size

    @overload
    def __getitem__(self, place: int) -> int: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[int, ...]: ...

    def __getitem__(self, place: int | slice) -> int | tuple[int, ...]:
        """Raises IndexError beyond the end."""
        places = range(self.size)[place]
        return self._at(places) if isinstance(places, int) else tuple(map(self._at, places))

    def _at(self, place: int) -> int:
        """NOTE: the network permutes a power of four, less than four times as many as there are intervals (or 256). A
        place outside is permuted again until it is inside: a few steps, as a permutation has only cycles."""
        half = max(_LEAST_BITS, ((self.intervals - 1).bit_length() + 1) // 2)
        value = place
        while True:
            value = self._permuted(value, half)
            if value < self.intervals:
                return value + 1

    def _permuted(self, value: int, half: int) -> int:
        mask = (1 << half) - 1
        left, right = value >> half, value & mask
        for number in range(_ROUNDS):
            said = hashlib.sha256(self.seed + bytes([number]) + right.to_bytes(8, "big")).digest()
            left, right = right, left ^ (int.from_bytes(said[:8], "big") & mask)
        return left << half | right


def drawn(seed: bytes, intervals: int, count: int) -> Drawn:
    """Return ``count`` of the intervals 1 to ``intervals``, in the order in which they are to be checked."""
    return Drawn(seed, intervals, min(count, intervals))
