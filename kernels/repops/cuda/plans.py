"""The plan of any call."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from ..opset import Arithmetic, Spec
from ..tensors import Call, call_of
from . import (  # noqa: F401 - each registers its planners
    conv,
    exact_contraction,
    exact_int8,
    exact_sums,
    layout,
    matmul,
    pointwise,
    reduce,
    scatter,
    select,
)
from .plan import EXACT_PLANNERS, PLANNERS, LaunchPlan, Target


def differs(call: Call) -> bool:
    """Return whether the mode exact computes a call differently."""
    first = call.inputs[0][0] if call.inputs else None
    return call.op.arithmetic_of(first, call.attrs) is Arithmetic.SUM


def plan_of(call: Call, target: Target, exact: bool = False) -> LaunchPlan:
    planners = EXACT_PLANNERS if exact and differs(call) else PLANNERS
    return planners[call.op.name](call, target)


@lru_cache(maxsize=16384)
def plan_for(
    name: str,
    inputs: tuple[Spec, ...],
    attrs: tuple[tuple[str, Any], ...],
    target: Target,
    exact: bool = False,
) -> LaunchPlan:
    """Return the plan of a call by its parts, cached because a training step repeats its calls."""
    return plan_of(call_of(name, inputs, attrs), target, exact)
