"""`assay explorer`: web pages over the chain and over published runs, for people. Keyless; nothing depends on it.

index      the contracts' events in SQLite: follows the chain, survives reorganisations, continues where it was
chain      one look at the chain: jobs, matches, hearings and trials, read through the index
history    the moments of a dispute: who sent what, and what the Python rules say of each
ladder     a dispute as rungs, from run roots down to an element, at any of its moments
money      what every party paid in and got, from post to payment
artifacts  program, labels and tensors from the servers that a job names, fetched in the background
operator   the graph around a node, and the rest of a program by module
element    both values of an element, and the chain of steps that leads to it
running    what trainers report of a job's runs while they compute them
published  a published run without a chain; unfinished is one that is still computed
run_metrics  the published metrics of a run, and their downloads
drawing    SVG
text       strangers' words made safe, numbers made readable
web        the pages; export writes them to files
"""
