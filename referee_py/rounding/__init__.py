"""The arithmetic of rounding logs (docs/rounding-logs.md).

primitives  rnd, log, rev and threshold of the paper (Srivastava et al. 2024)
dense       the paper's log: an entry for every element
sparse      a log of the elements in a proven band only
band        which elements those are; writing such a log, and following one
packing     zstd and digests, for both formats
bounds      how far two evaluations of an operator can be apart
taps        which elements meet in a convolution
exact       one element, exactly: what a verifier accepts
"""

from .band import ForgedLog, band, follow, midpoint_distance, write
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
from .sparse import SparseLog

__all__ = [
    "DOWN",
    "FIXED_TAU",
    "NOT_LOGGED",
    "UP",
    "ForgedLog",
    "SparseLog",
    "band",
    "follow",
    "largest",
    "log",
    "midpoint_distance",
    "quantum",
    "rev",
    "rnd",
    "threshold",
    "unsigned_zero",
    "write",
]
