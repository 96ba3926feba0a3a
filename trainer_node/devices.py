"""Where a node computes: the processor, or a GPU; and with what library in rounded-f64. The bits are the same."""

from __future__ import annotations

import repops
from repops.cuda.errors import CudaUnavailable

from referee_py.errors import UnknownVersion
from referee_py.rounding.backend import Evaluator

from .errors import ConfigError


def backend_of(device: str) -> repops.Backend:
    """The backend of a device, "cpu" or "cuda". Raises ConfigError if this machine has none."""
    try:
        return repops.backend(device)
    except CudaUnavailable as error:
        raise ConfigError(f'device = "{device}": {error}; set device = "cpu"') from error


def evaluator_of(name: str) -> Evaluator:
    """What computes in rounded-f64, by its name in `rounded.variations`. Raises UnknownVersion without torch."""
    try:
        from .rounded.variations import evaluator_of as find
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != "torch":
            raise
        raise UnknownVersion(
            "rounded-f64 needs torch, which is not installed; install it, or leave the job"
        ) from error
    return find(name)
