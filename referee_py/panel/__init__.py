"""Hearings: the contract `Panel` in Python (docs/adjudication.md, section 6).

state     a hearing and its moves                 refusals  reasons for refusing a move
rules     the result and the effects of a move    solver    the move that is due
"""
