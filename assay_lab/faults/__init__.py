"""Lies for demonstrations and tests: the ways in which a trainer may cheat, each a small change to an honest run.

A liar here is consistent: it really computes with its lie, commits to what it computed, and defends that in a dispute
with the same player as everybody. What decides against it is the table `EXPECTED`.
"""

from ..names import Fault
from .executors import executor_of, values_of, watched
from .kinds import EXPECTED, HONEST, Lie, Target, first_narrow_product, fits

__all__ = [
    "EXPECTED",
    "HONEST",
    "Fault",
    "Lie",
    "Target",
    "executor_of",
    "first_narrow_product",
    "fits",
    "values_of",
    "watched",
]
