"""Computations of a node: which, when and for whom. Strangers' jobs never keep our own from their time.

job_runner     a job from its package to its finished run
run_execution  how a whole run is computed: backend, logs, progress
outcomes       a result, a refusal for good, or a delay before the next attempt
packages       packages are fetched and measured, in lanes and turns
runs           whole runs side by side
processors     who computes the next step
lanes          works that wait for strangers, in turns
ordered        one thread that does works in their order
mending        makes good what the disk has refused
"""
