"""The moves of a node: each file decides what is due in one contract.

actions         decisions about a job: pure functions
jobs            the Jobs contract: slot, commitment, result, claim, end
disputes        which of a job's matches and hearings are ours, and have a turn
dispute_turns   one turn in a match or a hearing
matches         what is due in a match
match_moves     our moves in a match, computed outside the loop
hearings        moves in a hearing and its trials
drafts          moves of matches and trials, computed outside the loop
right_records   right records of disputed operators, computed outside the loop
judgement       a verifier's execution of the operator
verdicts        what a verifier does about a hearing
ends            ends of jobs, as enough endpoints confirm them
open_duties     matches and hearings in which we still owe something
answers         answers to data requests, computed outside the loop
answer_order    whose answers are computed next
data_requests   requests logs that nobody serves
data_responses  sends the answers that are due
late_requests   closes requests that are late
salts           salts of commitments, and the secret of draws
"""
