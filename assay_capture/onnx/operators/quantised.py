"""Rules: quantised numbers. Integers of all sizes are i64 here, so a rule asks the file which range they have.

A product of integers is exact: it is a sum of f32 products of at most 256 pairs of bytes, each below 2^24, and these
sums are added as i64.
"""

from __future__ import annotations

from typing import Any

import torch

from ..values import Call, Given
from .registry import operator

Tensor = torch.Tensor

_RANGES = {2: (0, 255), 3: (-128, 127), 4: (0, (1 << 16) - 1), 5: (-(1 << 15), (1 << 15) - 1)}
"""Least and largest number of u8, i8, u16 and i16, by their numbers in ONNX."""
_PAIRS = 256


def _aligned(c: Call, value: Given, x: Tensor) -> Tensor:
    """Return a scale or zero point so that it broadcasts with x: one number, one for each place of an axis or block."""
    given, axis = c.tensor(value), c.get("axis", 1)
    if block := c.get("block_size", 0):
        return torch.repeat_interleave(given, block, axis).narrow(axis, 0, x.shape[axis])
    if given.ndim != 1 or given.numel() == 1:
        return given.reshape(()) if given.numel() == 1 else given
    return given.reshape([-1 if d == axis % x.ndim else 1 for d in range(x.ndim)])


def _range(c: Call, place: int) -> tuple[int, int]:
    """Return the range of the integers that the zero point at that place has the type of."""
    name = c.node.inputs[place] if len(c.node.inputs) > place else ""
    kind = c.types.get(name, 2) if name else c.get("output_dtype", 0) or 2
    if kind not in _RANGES:
        raise c.unsupported(f"{c.node.op} to element type {kind}", "quantise to 8 or 16 bits")
    return _RANGES[kind]


def _quantised(c: Call, x: Tensor, scale: Tensor, zero: Tensor | int, place: int) -> Tensor:
    if c.training:
        raise c.unsupported(f"{c.node.op} in a job that trains", "train the model before it is quantised")
    low, high = _range(c, place)
    return torch.clamp(torch.round(x / scale) + zero, low, high).to(torch.int64)


@operator("QuantizeLinear", folds=True)
def quantize(c: Call, x: Given, scale: Given, zero: Given = None) -> Tensor:
    value = c.tensor(x)
    return _quantised(c, value, _aligned(c, scale, value), 0 if zero is None else _aligned(c, zero, value), 2)


@operator("DequantizeLinear", folds=True)
def dequantize(c: Call, x: Given, scale: Given, zero: Given = None) -> Tensor:
    value, factor = c.tensor(x), None
    factor = _aligned(c, scale, value)
    return (value if zero is None else value - _aligned(c, zero, value)).to(factor.dtype) * factor


@operator("DynamicQuantizeLinear")
def dynamic_quantize(c: Call, x: Given) -> Any:
    """Quantise to u8 over the range of the elements and 0. Returns numbers, scale and zero point."""
    value = c.tensor(x)
    low, high = torch.clamp(value.amin(), max=0.0), torch.clamp(value.amax(), min=0.0)
    span = high - low
    scale = torch.where(span == 0, 1.0, span / 255)
    zero = torch.clamp(torch.round(-low / scale), 0, 255)
    return _quantised(c, value, scale, zero, 3), scale, zero.to(torch.int64)


def _product(a: Tensor, b: Tensor) -> Tensor:
    total = torch.zeros((), dtype=torch.int64)
    for left, right in zip(a.split(_PAIRS, -1), b.split(_PAIRS, -2), strict=True):
        total = total + torch.matmul(left.float(), right.float()).to(torch.int64)
    return total


def _less(c: Call, x: Given, zero: Given, rows: bool) -> Tensor:
    """Return the integers less their zero point: one, or one for each row (of A) or column (of B)."""
    value = c.tensor(x)
    if zero is None:
        return value
    shift = c.tensor(zero)
    return value - (shift.unsqueeze(-1) if rows and shift.ndim == 1 and shift.numel() > 1 else shift)


@operator("MatMulInteger")
def matmul_integer(c: Call, a: Given, b: Given, a_zero: Given = None, b_zero: Given = None) -> Tensor:
    return _product(_less(c, a, a_zero, True), _less(c, b, b_zero, False))


@operator("QLinearMatMul")
def qlinear_matmul(
    c: Call,
    a: Given,
    a_scale: Given,
    a_zero: Given,
    b: Given,
    b_scale: Given,
    b_zero: Given,
    scale: Given,
    zero: Given,
) -> Tensor:
    product = _product(_less(c, a, a_zero, True), _less(c, b, b_zero, False)).float()
    left = c.tensor(a_scale)
    left = left.unsqueeze(-1) if left.ndim == 1 and left.numel() > 1 else left
    return _quantised(c, product * (left * c.tensor(b_scale)), c.tensor(scale), c.tensor(zero), 7)
