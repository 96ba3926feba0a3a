"""Bundles and runs on this machine, without a chain: what a client has before and after a job.

bundle           a folder with all that a job needs
local_run        a bundle's run here
session          what is noted and shown while it runs, and when it stops
run_folder       its folder, from which it resumes
claim_file       claim.json of a run that is published
evaluation       a state evaluated by another program
provenance       what is known about a result
metrics_file     metrics as JSON lines
metric_warnings  numbers that say that training has gone wrong
tensorboard      metrics for TensorBoard
"""
