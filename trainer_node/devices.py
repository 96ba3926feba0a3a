"""Where a node computes: the processor, or a GPU. The bits are the same."""

from __future__ import annotations

import repops
from repops.cuda.errors import CudaUnavailable

from .errors import ConfigError


def backend_of(device: str) -> repops.Backend:
    """The backend of a device, "cpu" or "cuda". Raises ConfigError if this machine has none."""
    try:
        return repops.backend(device)
    except CudaUnavailable as error:
        raise ConfigError(f'device = "{device}": {error}; set device = "cpu"') from error
