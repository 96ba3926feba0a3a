"""The sum rule of each arithmetic mode: how the elements that it defines otherwise than repops-f32 are computed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from repops.host.chains import Sums

from ..program.modes import Exact, Parts, RepopsF32, RoundedF64, Tc16
from .case import Case
from .chains import Chain
from .exact import exact_rule
from .rounded import rounded_rule
from .tensor import tensor_rule


@dataclass(frozen=True, slots=True)
class SumRule:
    """The elements of a mode."""

    rule: Callable[[Case], Chain | None]
    """Returns an element's chain, or None if the element is that of repops-f32 (`rules`)."""
    sums: Sums
    """State of a sum that the native chain keeps (`native`)."""


OF_MODES = Parts(
    {
        RepopsF32: SumRule(lambda case: None, Sums.ORDERED),  # noqa: ARG005
        Exact: SumRule(exact_rule, Sums.EXACT),
        RoundedF64: SumRule(rounded_rule, Sums.LOGGED),
        Tc16: SumRule(tensor_rule, Sums.TENSOR),
    }
)
