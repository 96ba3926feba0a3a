"""How long liars can delay the end of a job, and what that costs them (docs/economics.md)."""
