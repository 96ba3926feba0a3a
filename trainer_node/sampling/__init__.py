"""Challengers who check a part of a job and can dispute with it.

terms   what chance of detection a job's terms call for, and whether a part of its run is enough
draw    which intervals are checked, from randomness that the claimant could not know
part    the run of one interval, as the solver plays it in a refutation's match
runner  checks the drawn intervals of every claimed root, and finds what to refute
"""
