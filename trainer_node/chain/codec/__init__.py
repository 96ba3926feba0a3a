"""Messages of the contracts as values: encoding and decoding side by side, one module for each kind of message.

match         a match: its moves and its state           Referee
hearing       a hearing: its moves and its state         Panel
trial         a trial: its moves and its state           Court
availability  requests of data, and the responses        DataAvailability
job           a job: its terms, its state, its claims    Jobs
watch         bounties                                   Watch
clock         pauses                                     Timekeeper

base has what they share: calls, events and views, whose names and types are compared with the contracts' ABIs at
import.
"""
