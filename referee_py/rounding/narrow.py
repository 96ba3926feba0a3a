"""Operands and results of bf16: evaluated as f32, and rounded to grid(16), whose values are those of bf16.

Values are arrays, or tensors of a library.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from repops.opset import BF16
from repops.tensors import NUMPY_DTYPE


def is_bf16(value: Any) -> bool:
    # NOTE: the dtype of an array is "bfloat16", of a tensor "torch.bfloat16".
    return str(value.dtype).endswith("bfloat16")


def as_f32(value: Any) -> Any:
    """Return the same values as f32; integers are returned as they are."""
    if not is_bf16(value):
        return value
    return value.astype(np.float32) if isinstance(value, np.ndarray) else value.float()


def as_bf16(value: Any) -> Any:
    """Return f32 values of grid(16) as bf16."""
    return value.astype(NUMPY_DTYPE[BF16]) if isinstance(value, np.ndarray) else value.bfloat16()
