"""The daemons: which of the moves each of them makes, and on what it stakes.

participant  what trainers and challengers share: what is due in a job
refutes      lies that a role has it refute
trainer      takes slots, trains, claims
challenger   disputes claims that it cannot reproduce
pursuer      plays one job as both, for its client
acceptance   what each role asks before it stakes on a job or signs in it: a table for each
whole_runs   challenges by a replay of the whole run
sampling     challenges by a check of drawn intervals (folder)
watcher      watches jobs for their clients' bounties
verifier     executes one disputed operator, and signs
"""
