"""Calls of the operators that give bf16."""

from __future__ import annotations

from repops.opset import BF16, lookup
from repops.random_calls import Call, random_call
from repops.tensors import specs_of

OPERATORS = (
    *("mm", "bmm", "conv2d", "conv2d_input_grad", "conv2d_weight_grad"),
    *("cast", "cast_stochastic", "where", "take", "full"),
    *("reshape", "permute", "expand", "slice", "cat"),
)


def narrow_call(name: str, seed: object) -> Call:
    """Return a call with elements of bf16."""
    for number in range(200):
        inputs, attrs = random_call(name, f"narrow/{seed}/{number}", "tiny" if number % 5 else "usual")
        ((dtype, shape),) = lookup(name).infer(specs_of(name, inputs), attrs)
        if dtype == BF16 and 0 not in shape:
            return inputs, attrs
    raise AssertionError(f"{name} gives bf16 in one of 200 calls")
