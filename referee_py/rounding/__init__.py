"""The arithmetic of rounding logs (docs/rounding-logs.md): rounding, directions, logs, bounds and exact values."""

from .primitives import (
    DOWN,
    FIXED_TAU,
    NOT_LOGGED,
    UP,
    largest,
    log,
    quantum,
    rev,
    rnd,
    threshold,
    unsigned_zero,
)

__all__ = [
    "DOWN",
    "FIXED_TAU",
    "NOT_LOGGED",
    "UP",
    "largest",
    "log",
    "quantum",
    "rev",
    "rnd",
    "threshold",
    "unsigned_zero",
]
