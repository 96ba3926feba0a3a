"""Our kernels on a node's device, the processor or a GPU, and libraries for rounded-f64. The bits are the same."""

from __future__ import annotations

import os

import repops
from repops.cuda.errors import CudaUnavailable

from referee_py.compiled import Cuda
from referee_py.errors import UnknownVersion
from referee_py.rounding.backend import Evaluator

from ..errors import ConfigError


def kernels_of(device: str, sums: repops.SumMode = repops.SumMode.REPOPS_F32) -> repops.Backend:
    """Return our kernels of a mode on a device, "cpu" or "cuda".

    Raises ConfigError if this machine has no such device.
    """
    try:
        return repops.backend(device, sums)
    except CudaUnavailable as error:
        raise ConfigError(f'device = "{device}": {error}; set device = "cpu"') from error


EMULATED = "CUBLAS_EMULATE_DOUBLE_PRECISION"
"""With it a GPU's library may build binary64 products from narrower ones, which rounded-f64 does not permit."""


def evaluator_of(name: str, device: str = "cpu") -> Evaluator:
    """Return the evaluator for rounded-f64 on a device, by its name in `rounded.evaluators`.

    Raises UnknownVersion without torch, ConfigError if this machine has no such device or it has no such evaluator.
    """
    if device == "cuda":
        return _on_gpu(name)
    try:
        from ..rounded.evaluators import evaluator_of as find
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != "torch":
            raise
        raise UnknownVersion(
            "rounded-f64 needs torch, which is not installed; install it, or leave the job"
        ) from error
    return find(name)


def _on_gpu(name: str) -> Evaluator:
    if name != "torch":
        raise ConfigError(
            f'evaluator = "{name}" runs on the processor; set evaluator = "torch", or device = "cpu"'
        )
    if os.environ.get(EMULATED, "0") != "0":
        raise ConfigError(f'{EMULATED} is set: sums have to be of binary64; unset it, or set device = "cpu"')
    kernels_of("cuda")
    from ..rounded.device import TensorEvaluator

    return TensorEvaluator(Cuda(), "cuda")
