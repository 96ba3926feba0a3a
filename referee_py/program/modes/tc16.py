"""The mode tc16: repops-f32, but contractions of bf16 have the arithmetic of tensor cores (docs/tensor-cores.md)."""

from __future__ import annotations

from .arithmetic_mode import ArithmeticMode


class Tc16(ArithmeticMode):
    """NOTE: the court judges it, and nothing else knows it yet: no job can have it (`table.JUDGED`)."""

    name = "tc16"
    rule_contracts = (
        *("Elementwise", "Exponentials", "Logarithms", "Trigonometry", "Reductions"),
        *("TensorContractions", "Pooling", "Rows", "Layout", "Sources"),
    )

    @property
    def byte(self) -> int:
        return 3


TC16 = Tc16()
