"""Other hardware, simulated: evaluators that differ as devices do, in the order of their sums.

All of them are within the bounds that a job states, so all of them are honest; without rounding logs none of them
would find another's weights.

    blocked      contracted dimensions in up to twelve blocks, one after the other, as a kernel with tiles does
    interleaved  every sixteenth term of them in one sum, as a kernel does that splits them among lanes
    permuted     contracted dimensions in an order of their own
    halves       contracted dimensions in two halves, the second one first
    direct       convolutions by torch's own kernels for them
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch

from referee_py.rounding.backend import Evaluator
from trainer_node.rounded.evaluators import EVALUATORS, Unfolded

Tensor = torch.Tensor
Parts = Callable[[int], Sequence[Tensor]]
"""The indices of each part of a dimension of that size."""


class Split(Unfolded):
    """Contracts the parts of a dimension separately, and adds the results in their order."""

    def __init__(self, name: str, parts: Parts) -> None:
        super().__init__()
        self.name = name
        self._parts = parts

    def multiply(self, a: Tensor, b: Tensor) -> Tensor:
        if not a.shape[-1]:
            return a @ b
        total, *others = (a[..., p] @ b[..., p, :] for p in self._parts(a.shape[-1]))
        for other in others:
            total = total + other
        return total


class Direct(Unfolded):
    """Convolutions by torch's own kernels, as for images that are too large to be unfolded."""

    name = "direct"
    max_unfolded = 0


def _blocks(size: int) -> Sequence[Tensor]:
    parts: tuple[Tensor, ...] = torch.arange(size).split(max(8, -(-size // 12)))
    return parts


def _lanes(size: int) -> Sequence[Tensor]:
    return [torch.arange(first, size, 16) for first in range(min(size, 16))]


def _permutation(size: int) -> Sequence[Tensor]:
    return [torch.from_numpy(np.random.default_rng(size).permutation(size))]


def _halves(size: int) -> Sequence[Tensor]:
    parts: tuple[Tensor, ...] = torch.arange(size).roll(-(size // 2)).split(max((size + 1) // 2, 1))
    return parts


blocked: Callable[[], Evaluator] = partial(Split, "blocked", _blocks)
interleaved: Callable[[], Evaluator] = partial(Split, "interleaved", _lanes)
permuted: Callable[[], Evaluator] = partial(Split, "permuted", _permutation)
halves: Callable[[], Evaluator] = partial(Split, "halves", _halves)
"""Each makes the evaluator of its name."""

VARIATIONS: dict[str, Callable[[], Evaluator]] = {
    **EVALUATORS,
    "blocked": blocked,
    "interleaved": interleaved,
    "permuted": permuted,
    "halves": halves,
    "direct": Direct,
}
"""All evaluators, as `evaluator_of` of trainer_node.rounded.evaluators finds them by the entry points."""
