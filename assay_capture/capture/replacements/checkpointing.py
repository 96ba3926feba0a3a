"""Activation checkpointing: the function is called once.

A checkpoint trades memory for a second forward pass and changes no number. The executor of a program decides for itself
what it keeps, so the trace needs no second pass; and with the reentrant kind, whose backward pass hides from
`autograd.grad`, all gradients of what is inside would be missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch.utils.checkpoint

from .registry import PATCHES


class _Called:
    """In place of the reentrant kind's autograd function."""

    @staticmethod
    def apply(function: Callable[..., Any], _preserve_random_state: bool, *args: Any) -> Any:
        return function(*args)


def _nothing_around(*_: Any, **__: Any) -> Iterator[None]:
    """In place of what the other kind does before and after the call."""
    yield


PATCHES += [
    (torch.utils.checkpoint, "CheckpointFunction", _Called),
    (torch.utils.checkpoint, "_checkpoint_without_reentrant_generator", _nothing_around),
]
