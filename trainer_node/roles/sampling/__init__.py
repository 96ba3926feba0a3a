"""Challengers who check a part of a job and can dispute with it.

draw             which intervals are checked, from randomness that the claimant could not know
budget           how long the claimants' data are waited for, in the chain's time
checks           how far the checks of a job have come; the search for an interval that the claim's own data prove wrong
beside           replays in a root's second thread what its first has brought
interval_runner  brings and replays one drawn interval
part             the run of one interval, as the solver plays it in a refutation's match
runner           checks the drawn intervals of every claimed root, and keeps all that is to be refuted
decide           which of that is refuted now
"""
