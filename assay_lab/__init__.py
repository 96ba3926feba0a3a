"""Cheating, for demonstrations and tests on a chain of one's own: no daemon imports it.

faults   the ways to cheat       demo  a job with a liar in it, from start to end
daemons  daemons that cheat      cli   `assay demo`, `assay lab`
"""
