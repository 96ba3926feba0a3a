"""A machine whose memory is not numpy's: torch tensors on the processor, like those of `Cuda` on a GPU."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from repops.host import cpu
from repops.opset import ITEM_SIZE, Attrs, Spec
from repops.tensors import NUMPY_DTYPE
from repops.torch_arrays import from_numpy, to_numpy

from referee_py.commit import tensor_hash
from referee_py.commit.tensor import Array
from referee_py.compiled import Cpu


class TensorMachine(Cpu):
    """The C kernels on tensors. As on a GPU, `reshape` gives a tensor that shares its operand's memory."""

    def new(self, spec: Spec) -> Any:
        return from_numpy(super().new(spec))

    def part(self, arena: Any, offset: int, spec: Spec) -> Any:
        dtype, shape = spec
        piece = to_numpy(arena)[offset : offset + math.prod(shape) * ITEM_SIZE[dtype]]
        return from_numpy(piece.view(NUMPY_DTYPE[dtype]).reshape(shape))

    def address(self, buffer: Any) -> int:
        return int(buffer.data_ptr())

    def write(self, buffer: Any, content: Array | torch.Tensor) -> None:
        buffer.copy_(from_numpy(content) if isinstance(content, np.ndarray) else content)

    def read(self, buffer: Any) -> Array:
        return np.array(to_numpy(buffer))

    def copied(self, buffer: Any) -> Array:
        return np.array(to_numpy(buffer))

    def place(self, array: Array) -> Any:
        return from_numpy(np.array(array))

    def hash(self, buffer: Any) -> bytes:
        return tensor_hash(to_numpy(buffer))

    def execute(self, name: str, inputs: Sequence[Any], attrs: Attrs) -> list[Any]:
        assert all(isinstance(value, torch.Tensor) for value in inputs), "values stay where they are"
        return [from_numpy(v) for v in cpu.execute(name, [to_numpy(v) for v in inputs], attrs)]
