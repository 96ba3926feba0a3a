"""Decisions to put ether at risk, and how much: pure functions, and the book of what we owe.

funds           ether that a job takes, and reasons not to stake
reserved_ether  ether that open jobs may still take
min_stake       the least stake of a chain, from measured gas
gas_patience    when a party waits for cheaper gas
policy          the operator's choice of jobs
admission       whether one more stake or signature can be defended with the others
duty_book       what we have staked on or signed
flood           what it takes to send all that may be requested at once
"""
