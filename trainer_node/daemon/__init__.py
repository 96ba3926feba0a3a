"""The frame of every daemon: resources, the loop, its account.

service         resources while it runs; a loop that survives errors
access          from settings to the chain
loop            reads a block, asks the role, sends
job_queue       which jobs each round, and protection from their errors
due             what a decision wants sent
remembered      what is known of jobs until they are over
helping         moves for other parties, and the gas paid for them
open_runner     a node's job runner, from its settings
keys            the key of a process
remote_signer   a key that is elsewhere
single_use      whether the key of a restored directory is in use elsewhere
account_gauges  money, claims and deadlines as metrics
withdrawals     withdraws what the contracts owe
forwarding      sends on what the account does not need
"""
