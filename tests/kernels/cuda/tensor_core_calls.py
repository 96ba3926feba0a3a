"""Calls in the mode tc16 by the emulated kernels of a device, with results that are not rounded to bf16."""

from __future__ import annotations

from repops.opset import F32
from repops.sums import SumMode
from repops.tensors import check

from .emulation import execute_call


def widened(name, inputs, attrs):
    """Return the call with a result of f32."""
    call = check(name, inputs, attrs)
    return call._replace(outputs=tuple((F32, shape) for _, shape in call.outputs))


def in_binary32(name, inputs, attrs, **options):
    (got,) = execute_call(widened(name, inputs, attrs), inputs, sums=SumMode.TC16, **options)
    return got
