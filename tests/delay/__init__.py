"""How long liars can put the end of a job off, and what that costs them (docs/economics.md)."""
