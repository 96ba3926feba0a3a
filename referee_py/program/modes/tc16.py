"""The mode tc16: contractions of bf16 in blocks of 16 terms, as tensor cores add (docs/opset.md, section 2)."""

from __future__ import annotations

from .arithmetic_mode import ArithmeticMode


class Tc16(ArithmeticMode):
    """As repops-f32 but for contractions of bf16. On a processor, sums near either end of the range take long: data can
    make a later step slower than the first."""

    name = "tc16"
    rule_contracts = (
        *("Elementwise", "Exponentials", "Logarithms", "Trigonometry", "Reductions"),
        *("TensorContractions", "Pooling", "Rows", "Layout", "Sources"),
    )
    data_slows_sums = True
    for_bf16 = True

    @property
    def byte(self) -> int:
        return 3


TC16 = Tc16()
