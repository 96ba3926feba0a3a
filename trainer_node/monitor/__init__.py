"""Watches all jobs of a deployment from outside: it has no key, runs nothing, and serves nobody.

reading      one job at one block: claims, matches, hearings, trials, requests; or why they are not known
forecast     what happens if nobody moves: how each match ends, and what the job accepts, and when
accounts     named accounts, and whether the contracts hold what they owe
trusted      roots that somebody has computed, against which claims are compared
alerts       what a person should look at, by fixed rules; pure functions of readings
rounds       all jobs in turn, with what is remembered between rounds: since when an alert has stood
gauges       the same as metrics
"""
