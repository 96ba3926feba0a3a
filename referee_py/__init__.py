"""The rules that all parties of a job must agree on: programs, commitments, game, adjudication (docs/protocol.md)."""
