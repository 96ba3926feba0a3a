"""What all parties of a job must agree on: programs, commitments, the game, adjudication (docs/protocol.md)."""
