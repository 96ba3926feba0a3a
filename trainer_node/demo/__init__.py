"""`assay demo`: a whole job on a chain of its own, with a liar in it.

cast       who takes part in which scenario, and what must decide
stage      the chain, the contracts, the processes
story      what happens, told as it happens
reckoning  who has what at the end, and whether that is just
play       one scenario from start to end
"""

from .cast import Scenario, middle
from .play import Result, digits, play

__all__ = ["Result", "Scenario", "digits", "middle", "play"]
