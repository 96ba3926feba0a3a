"""Our kernels on a node's device, the processor or a GPU, and libraries for rounded-f64. The bits are the same."""

from __future__ import annotations

import functools
import os

import repops
import structlog
from repops.cuda.errors import CudaUnavailable, RuleBroken

from referee_py.compiled import Cuda
from referee_py.errors import Unavailable, UnknownVersion
from referee_py.rounding.backend import Evaluator

from ..errors import ConfigError

_log = structlog.get_logger(__name__)


def kernels_of(device: str, sums: repops.SumMode = repops.SumMode.REPOPS_F32) -> repops.Backend:
    """Return our kernels of a mode on a device, "cpu" or "cuda".

    Raises ConfigError if this machine has no such device, Unavailable if it does not compute the mode: it is asked
    again, since a job with our stake must not be lost by one comparison.
    """
    try:
        kernels = repops.backend(device, sums)
        if device == "cuda" and sums is repops.SumMode.TC16:
            _keeps_the_rule()
    except CudaUnavailable as error:
        raise ConfigError(f'device = "{device}": {error}; set device = "cpu"') from error
    except RuleBroken as error:
        raise Unavailable(
            f'this GPU does not compute the mode {sums}: {error}; set device = "cpu", or leave the job'
        ) from error
    return kernels


@functools.cache
def _keeps_the_rule() -> None:
    """Compare the GPU's tensor cores with the rule, once for each process. SAFETY: what a stake rests on is the rule in
    integers, which a later chip or driver need not follow."""
    from repops.cuda import rule

    _log.info("device.keeps_rule", blocks=rule.check())


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
