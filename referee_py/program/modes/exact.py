"""The mode exact: sums and contractions are real sums, rounded once (docs/opset.md, section 2)."""

from __future__ import annotations

from .arithmetic_mode import ArithmeticMode


class Exact(ArithmeticMode):
    """As repops-f32 but for sums. Terms that cancel take long: data can make a later step slower than the first."""

    name = "exact"
    rule_contracts = (
        *("Elementwise", "Exponentials", "Logarithms", "Trigonometry", "ExactReductions"),
        *("ExactContractions", "Pooling", "ExactRows", "Layout", "Sources"),
    )
    data_slows_sums = True

    @property
    def byte(self) -> int:
        return 2


EXACT = Exact()
