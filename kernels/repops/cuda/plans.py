"""The plan of any call."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from ..opset import BF16, Arithmetic, Spec
from ..sums import SumMode
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
    tensor_core,
)
from .plan import PLANNERS, LaunchPlan, Target


def differs(call: Call, sums: SumMode) -> bool:
    """Return whether a mode computes a call differently than repops-f32 does."""
    first = call.inputs[0][0] if call.inputs else None
    if sums is SumMode.TC16:
        return call.op.name in PLANNERS[sums] and first == BF16
    return sums is SumMode.EXACT and call.op.arithmetic_of(first, call.attrs) is Arithmetic.SUM


def plan_of(call: Call, target: Target, sums: SumMode = SumMode.REPOPS_F32) -> LaunchPlan:
    return PLANNERS[sums if differs(call, sums) else SumMode.REPOPS_F32][call.op.name](call, target)


@lru_cache(maxsize=16384)
def plan_for(
    name: str,
    inputs: tuple[Spec, ...],
    attrs: tuple[tuple[str, Any], ...],
    target: Target,
    sums: SumMode = SumMode.REPOPS_F32,
) -> LaunchPlan:
    """Return the plan of a call by its parts, cached because a training step repeats its calls."""
    return plan_of(call_of(name, inputs, attrs), target, sums)
