"""The arithmetic mode rounded-f64 (docs/rounding-logs.md).

primitives  rnd, log, rev and threshold of the paper (Srivastava et al. 2024)
entries     the content of a log; sparse and dense: its two forms; forms: either form
blocks      the tree that a record commits to, with a path to every element's entry
bounds      bounds on the distance of evaluations from the exact value; taps: elements that meet in a convolution
evaluate    every operator in binary64, each with its radius
band        the elements that have an entry; follow: writing and following the log of a whole node
thresholds  the elements that have an entry in the dense form besides
decide_exactly  chosen elements exactly, from `summands` in integers (`grid`) or from MPFR (`elementary`)
truth       the result that a verifier computes for a whole node
step_log    the logs of one step in a file; log_source: the logs of a run
backend     the executor of a program in this mode
"""

from ..program.modes import Bounds, Form, Rounding
from .band import band, midpoint_distance
from .decide_exactly import decide_exactly
from .entries import Entries, Log
from .evaluate import Evaluation, Radius, arithmetic, evaluate, single
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
    "Log",
    "Radius",
    "Rounding",
    "arithmetic",
    "band",
    "decide_exactly",
    "evaluate",
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
