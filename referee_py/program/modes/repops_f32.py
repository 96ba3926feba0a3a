"""The mode repops-f32: binary32, with a fixed order of all additions (docs/opset.md)."""

from __future__ import annotations

from .arithmetic_mode import ArithmeticMode


class RepopsF32(ArithmeticMode):
    """The mode of programs that ask for no other."""

    name = "repops-f32"
    rule_contracts = (
        *("Elementwise", "Exponentials", "Logarithms", "Trigonometry", "Reductions"),
        *("Contractions", "Pooling", "Rows", "Layout", "Sources"),
    )

    @property
    def byte(self) -> int:
        return 1


REPOPS_F32 = RepopsF32()
