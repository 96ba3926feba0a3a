"""Products in the mode exact by a chosen way: by bytes or by sums of f64, wherever the plans' own choice lies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from repops.backends import Backend
from repops.cuda import executor
from repops.cuda.plans import plan_for
from repops.sums import SumMode
from repops.tensors import Array, call_of, freeze

BY_BYTES, BY_F64 = 1, 1 << 62
"""Least rows and columns of a product of bf16 that is made of products of bytes (`Target.least_by_bytes`)."""


def prepared(
    name: str, inputs: Sequence[Any], attrs: Any, least_by_bytes: int
) -> tuple[list[Any], Callable[[], None]]:
    """Return new outputs on the GPU, and a function that computes them without waiting."""
    named = [(f"{name}: input {i}", tensor) for i, tensor in enumerate(inputs)]
    gpu, specs = executor.same_device(named), tuple(executor.spec_of(tensor, what) for what, tensor in named)
    frozen = freeze(attrs, name)
    outputs = [executor.empty(gpu, *spec) for spec in call_of(name, specs, frozen).outputs]
    plan = plan_for(name, specs, frozen, gpu.target._replace(least_by_bytes=least_by_bytes), SumMode.EXACT)
    addresses = [tensor.data_ptr() for tensor in (*inputs, *outputs)]
    return outputs, lambda: gpu.run(plan, addresses)


def on_gpu_by(least_by_bytes: int) -> Backend:
    """Return the mode exact of this GPU, with numpy arrays as inputs and outputs."""

    def run(name: str, inputs: Sequence[Array], attrs: Any) -> list[Array]:
        tensors = [executor.put(array) for array in inputs]
        outputs, compute = prepared(name, tensors, attrs, least_by_bytes)
        compute()
        return [executor.get(output) for output in outputs]

    return Backend("cuda", run, SumMode.EXACT)
