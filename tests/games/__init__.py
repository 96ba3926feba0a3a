"""Games of the daemons' own decisions: what they decide is what the nodes run, on the contracts' rules in Python.

job_views  a job of the model, as the chain shows it to a daemon
runs       the runs of a job by their names, and what can be said of them
board      a job from its post on, and what everybody can do in it
roles      the honest party: the functions that its daemon runs, and what it does with their answers
search     all games from given beginnings: each state once
hearings   all hearings of a verifier, judged by the rules of the panel
crowd      games at random, of many strangers
arena      the same games on the contracts
"""
