"""Arithmetic in binary64 by libraries, whatever other libraries have done to the process.

A definition in exact numbers is worth nothing where 2^-140 becomes zero on its way into a sum. So whatever computes or
converts in this package does so inside `sound`: in the calling thread the standard environment is set and given back.
Threads of other libraries have registers of their own: an evaluator that has such threads asks them, by `check`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from repops.environment import Standard

from ..errors import Disturbed


@contextmanager
def sound(what: str) -> Iterator[Standard]:
    """To nearest, nothing flushed. Raises Disturbed if the environment is another one when `what` is done."""
    with Standard() as inside:
        yield inside
    if not inside.kept:
        raise Disturbed(
            f"{what} has left a floating-point environment that flushes subnormal numbers or does not round to "
            "nearest; find the library that sets it (torch.set_flush_denormal, -ffast-math)"
        )
