"""Torch's dtypes, and torch tensors as numpy arrays. Imported only where torch has been imported already."""

from __future__ import annotations

import numpy as np
import torch

from .opset import BF16, BOOL, F32, I64, Dtype
from .tensors import NUMPY_DTYPE, Array

TORCH_DTYPE: dict[Dtype, torch.dtype] = {
    F32: torch.float32,
    I64: torch.int64,
    BOOL: torch.bool,
    BF16: torch.bfloat16,
}
DTYPE_OF: dict[torch.dtype, Dtype] = {dtype: code for code, dtype in TORCH_DTYPE.items()}


def to_numpy(tensor: torch.Tensor) -> Array:
    """Return a contiguous CPU tensor of the operator set as an array that shares its memory."""
    tensor = tensor.detach()
    if tensor.dtype is not torch.bfloat16:
        return tensor.numpy()
    return tensor.view(torch.int16).numpy().view(NUMPY_DTYPE[BF16])


def from_numpy(array: Array) -> torch.Tensor:
    """Return an array as a CPU tensor that shares its memory."""
    if array.dtype != NUMPY_DTYPE[BF16]:
        return torch.from_numpy(array)
    return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
