"""Software of a party: trainer daemon, challenger bot, verifier service, artifact store, server, chain client, CLI.

Rooms, from above; each imports only those below it:

cli       the assay command
monitor   all jobs from outside, without a key
operate   Commands for those who run a node: none of them is part of a daemon
client    A client's side of a job
roles     The daemons: which of the moves each of them makes, and on what it stakes
play      The moves of a node: each file decides what is due in one contract
daemon    The frame of every daemon: resources, the loop, its account
audit     intervals of a published run, checked by anybody
local     Bundles and runs on this machine, without a chain: what a client has before and after a job
work      What a node computes, when, and for whom: strangers' jobs never keep our own from their time
stake     Whether ether is put at risk, and how much: pure functions, and the book of what we owe
run       A run of a job: its package, its computation, what it shows in a dispute, and what it costs
rounded   libraries for rounded-f64
settings  Settings of a node
network   Bytes from and for other parties over HTTP: nothing is believed, everything is bounded
limits    The two tables of bounds: waits on strangers, and works that strangers can cause
chain     the chain as a daemon sees it
storage   What a node keeps on its disk: artifacts by hash, a database, and room for what it stakes on
observe   What a node lets be seen of itself: events, metrics, problems, progress
"""
