"""`assay demo`: a whole job with a liar in it, on its own chain.

roles      the parties of each scenario, and the case that must decide
network    the chain, the contracts, the processes
narrator   reports the events while they happen
declined   a party that leaves the job to others, and what to do
truth      the result of honest execution
checks     the balances at the end, and whether they are just
play       one scenario from start to end
"""

from ..names import Scenario
from .network import BY
from .play import MANY, STRIDES, Result, digits, play
from .roles import check, middle

__all__ = ["BY", "MANY", "STRIDES", "Result", "Scenario", "check", "digits", "middle", "play"]
