"""The operators on NVIDIA GPUs, with the bits of the other backends.

    executor    `execute` on torch's CUDA tensors, `hash_tree`
    plans       the launches of a call; one module a family (pointwise, matmul, conv, reduce, ...), on `plan`
    compiler    NVRTC, with a cache on disk; `sources` finds kernels/cuda/*.cu
    device      loads and launches kernels through the CUDA driver
    rule        whether this GPU's tensor cores compute the mode tc16

Needs a GPU, PyTorch with CUDA, and the extra: pip install 'assay-referee[cuda]'. Plans and compilation need no GPU, so
the tests run every kernel on the host (tests/kernels/cuda) and compile it for several architectures.

    REPOPS_CACHE    folder of compiled kernels (default: repops in the user's cache folder)
"""

from __future__ import annotations

from ..host.hashing import TreeKind
from .device import driver, torch_with_cuda
from .errors import CompileError, CudaUnavailable, LaunchError
from .executor import execute, hash_tree

__all__ = ["CompileError", "CudaUnavailable", "LaunchError", "TreeKind", "execute", "hash_tree", "require"]


def require() -> None:
    """Raise CudaUnavailable, which says what is missing, unless operators can run on a GPU here."""
    torch_with_cuda()
    driver()
