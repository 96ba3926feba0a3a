"""Code shared by matches, trials, hearings and data requests: two sides walk down two trees under chess clocks.

refusals  reasons for refusing a move, and `require`
sides     the two sides, and sets of them
clock     the sides that owe a move, and the late ones
descent   the way down two trees to the first difference: its rules, and the next move of a side
proof     checks of Merkle paths
dispute   an operator that two sides disagree on, the terms of its trial, and their hashes
"""
