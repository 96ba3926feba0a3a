"""`assay demo`: a whole job on a chain of its own, with a liar in it.

cast       who takes part in which scenario, and what must decide
stage      the chain, the contracts, the processes
story      what happens, told as it happens
truth      what honest execution gives
reckoning  who has what at the end, and whether that is just
play       one scenario from start to end
"""

from .cast import Scenario, check, middle
from .play import Result, digits, play

__all__ = ["Result", "Scenario", "check", "digits", "middle", "play"]
