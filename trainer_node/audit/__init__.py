"""Audits: anyone checks the intervals of a published run that he can afford.

selection  which intervals are checked, and how likely a lie must be among them
address    where the bytes of a published run are: a folder, a web server or a bucket
published  a published run, every byte of it checked against its claim
job        the run of a job on a chain, served by its claimants
interval   one interval replayed: MATCH, UNCHECKED, or the place where the two runs part
pool       intervals in several processes
engine     what checks them: processes, or a Ray cluster (engine_ray); reports of findings
receipt    what an auditor says about an interval, under his key; as a file (receipt_file); with what (receipt_kernels)
coverage   what the receipts of many auditors say about a run
certificate  what was checked of a run or a job, in words, as a statement and as a badge
run_diff   two runs, claims or bundles side by side; parting finds where two runs part
"""
