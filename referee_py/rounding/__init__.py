"""The arithmetic mode rounded-f64 (docs/rounding-logs.md).

mode        the parameters, in the mode byte of a program
primitives  rnd, log, rev and threshold of the paper (Srivastava et al. 2024)
entries     what a log says; sparse and dense: how it is written; forms: either
blocks      the tree that a record commits to, which has a path to what is said of each element
bounds      how far an evaluation can be from the exact value; taps: which elements meet in a convolution
evaluate    every operator in binary64, each with its radius
band        which elements have an entry; follow: writing a log, and following one, for whole nodes
thresholds  which have one in the dense form besides
decide_exactly  chosen elements exactly, from `terms` in integers (`grid`) or from MPFR (`elementary`)
truth       what a verifier computes for a whole node
exact       the same for one element, to be read
step_log    the logs of one step in a file; log_source: the logs of a run
backend     what executes a program in this mode
"""

from .band import band, midpoint_distance
from .decide_exactly import decide_exactly
from .entries import Entries, Log
from .evaluate import Evaluation, Kind, Radius, evaluate, kind, single
from .mode import Bounds, Form, Rounding, is_rounded
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
from .truth import truth

__all__ = [
    "DOWN",
    "FIXED_TAU",
    "NOT_LOGGED",
    "UP",
    "Bounds",
    "Entries",
    "Evaluation",
    "Form",
    "Kind",
    "Log",
    "Radius",
    "Rounding",
    "band",
    "decide_exactly",
    "evaluate",
    "is_rounded",
    "kind",
    "largest",
    "log",
    "midpoint_distance",
    "quantum",
    "rev",
    "rnd",
    "single",
    "threshold",
    "truth",
    "unsigned_zero",
]
