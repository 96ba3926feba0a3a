"""The dispute game as pure functions (docs/protocol.md, sections 5 to 7)."""
