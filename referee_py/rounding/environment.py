"""Sound arithmetic of libraries in binary64, even if other libraries have changed the process.

A definition in exact numbers is worthless if 2^-140 becomes zero on its way into a sum. So all code in this package
that computes or converts runs inside `sound`, which sets the calling thread's standard environment and restores it.
Threads of other libraries have registers of their own; an evaluator with such threads checks them in `check`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from repops.host.environment import Standard

from ..errors import Disturbed


@contextmanager
def sound(what: str) -> Iterator[Standard]:
    """Run a block with rounding to nearest and nothing flushed. Raises Disturbed if `what` changes the environment."""
    with Standard() as inside:
        yield inside
    if not inside.kept:
        raise Disturbed(
            f"{what} has left a floating-point environment that flushes subnormal numbers or does not round to "
            "nearest; find the library that sets it (torch.set_flush_denormal, -ffast-math)"
        )
