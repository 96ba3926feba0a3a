"""Decisions whether ether is put at risk, and how much: pure functions, and the book of what we owe. Reasons to leave a
job to others stand with what they are about.

judge           asks a role's reasons (`roles/acceptance.py`) and stops at the first
policy          reasons: the operator's choice of jobs, and the limits of the settings
funds           ether that a job takes; reasons: it cannot be paid, or does not pay
deadlines       reasons: too little time for what was measured
deterrence      what chance of detection a job's terms call for; a reason: a part of its run is not enough
admission       reasons: one more stake or signature cannot be defended beside the others
occupation      the price of the node's time and ether; reasons: what others lose does not pay for it
flood           reasons: all that may be requested at once cannot be sent in time
duty_book       what we have staked on or signed
reserved_ether  ether that open jobs may still take
min_stake       the least stake of a chain, from measured gas
gas_patience    when a party waits for cheaper gas
"""
