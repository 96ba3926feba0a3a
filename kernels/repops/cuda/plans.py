"""The plan of any call."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from ..opset import Spec
from ..tensors import Call, call_of
from . import conv, layout, matmul, pointwise, reduce, scatter, select  # noqa: F401 - each registers its planners
from .plan import PLANNERS, LaunchPlan, Target


def plan_of(call: Call, target: Target) -> LaunchPlan:
    return PLANNERS[call.op.name](call, target)


@lru_cache(maxsize=16384)
def plan_for(
    name: str, inputs: tuple[Spec, ...], attrs: tuple[tuple[str, Any], ...], target: Target
) -> LaunchPlan:
    """Return the plan of a call by its parts, cached because a training step repeats its calls."""
    return plan_of(call_of(name, inputs, attrs), target)
