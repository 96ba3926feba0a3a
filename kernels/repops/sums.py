"""The modes whose operators are computed here (docs/opset.md, section 2): they differ in how sums are computed."""

from __future__ import annotations

from enum import StrEnum


class SumMode(StrEnum):
    """A mode, by its name."""

    REPOPS_F32 = "repops-f32"
    """In a fixed order."""
    EXACT = "exact"
    """Real sums, rounded once."""
    TC16 = "tc16"
    """Contractions of bf16 as chains of tensor-core blocks; all others as in repops-f32."""

    @classmethod
    def of(cls, exact: bool) -> SumMode:
        """Return exact or else repops-f32."""
        return cls.EXACT if exact else cls.REPOPS_F32
