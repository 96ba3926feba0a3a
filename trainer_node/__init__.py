"""Software of a party: trainer daemon, challenger bot, verifier service, artifact store, server, chain client, CLI.

Rooms, from above; each imports only those below it (each room's docstring says what its files are):

cli       the assay command
monitor   all jobs from outside, without a key
operate   commands for those who run a node
client    a client's side of a job
roles     the daemons: which moves each of them makes, and on what it stakes
play      the moves of a node, by contract
daemon    the frame of every daemon: resources, the loop, its account
audit     intervals of a published run, checked by anybody
local     bundles and runs on this machine, without a chain
compute   what a node computes, when, and for whom
stake     ether at risk: whether, and how much
run       a run of a job: its package, its computation, what it shows in a dispute, what it costs
rounded   libraries for rounded-f64
settings  settings of a node
network   bytes from and for other parties over HTTP
limits    the two tables of bounds: waits on strangers, works that strangers can cause
chain     the chain as a daemon sees it
storage   artifacts by hash, a database, room on the disk
observe   logs, metrics, problems, progress
"""
