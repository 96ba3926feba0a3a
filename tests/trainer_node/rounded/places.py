"""Devices for these tests: torch tensors on the processor everywhere, and on a GPU if there is one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import torch
from repops.host import cpu
from repops.torch_arrays import from_numpy, to_numpy

from referee_py.commit import tensor_hash
from referee_py.commit.tensor import Array
from referee_py.compiled import Cuda
from referee_py.device import Device

GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
PLACES = ["cpu", pytest.param("cuda", marks=[pytest.mark.gpu, GPU])]


class CpuTensors:
    """A device that is the processor: tensors in its memory, operators of repops-f32 by the C kernels."""

    def place(self, array: Array) -> torch.Tensor:
        return from_numpy(array.copy())

    def read(self, buffer: torch.Tensor) -> Array:
        return to_numpy(buffer).copy()

    def hash(self, buffer: torch.Tensor) -> bytes:
        return tensor_hash(to_numpy(buffer))

    def execute(
        self, name: str, inputs: Sequence[torch.Tensor], attrs: Mapping[str, Any]
    ) -> list[torch.Tensor]:
        assert all(isinstance(value, torch.Tensor) for value in inputs), "values stay where they are"
        return [from_numpy(v) for v in cpu.execute(name, [to_numpy(v) for v in inputs], attrs)]


def device_of(place: str) -> Device:
    """Return the device that has tensors there, and executes repops-f32 on them."""
    return CpuTensors() if place == "cpu" else Cuda()
