"""A client's side of a job.

posting        posts a job, and serves its artifacts
posting_costs  what that costs, before
watched_job    its progress
result         the trained state, proven against the accepted root
dispute_words  a dispute in words, for all who show it
"""
