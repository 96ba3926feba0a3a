"""The frame of every daemon: resources, the loop, its account.

service         resources while it runs; a loop that survives errors
access          from settings to the chain
loop            reads a block, goes through the jobs, looks after the account
job_queue       which jobs each round, and protection from their errors
job_turns       what a role decides in a job, turn by turn, and sends
due             what a decision wants sent
notices         messages to the operator about disputes
remembered      what is known of jobs until they are over
helping         gas that is paid for moves of other parties
open_runner     a node's job runner, from its settings
keys            the key of a process
remote_signer   a key that is elsewhere
single_use      whether the key of a restored directory is in use elsewhere
account_gauges  money, claims and deadlines as metrics
withdrawals     withdraws what the contracts owe
forwarding      sends on what the account does not need
"""
