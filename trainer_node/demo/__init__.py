"""`assay demo`: a whole job on a chain of its own, with a liar in it.

roles      who takes part in which scenario, and what must decide
network    the chain, the contracts, the processes
narrator   what happens, told as it happens
truth      what honest execution gives
checks     who has what at the end, and whether that is just
play       one scenario from start to end
"""

from .play import Result, digits, play
from .roles import Scenario, check, middle

__all__ = ["Result", "Scenario", "check", "digits", "middle", "play"]
