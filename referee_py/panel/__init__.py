"""Hearings: the contract `Panel` in Python (docs/adjudication.md, section 6).

state     what a hearing is, and the moves        refusals  why a move is refused
rules     what a move does, and what it causes    solver    which move is due
contract  the contracts Panel, Court and VerifierRegistry together, as far as the game goes
"""
