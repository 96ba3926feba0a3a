"""repops: neural-network operators whose results are defined bit for bit, the same on every machine.

    opset      the table of operators: ids, attributes, shapes (docs/opset.md is the specification)
    reference  what each operator computes, in readable Python
    cpu        the same bits from C kernels, on several threads
    tensors    which arrays are tensors; `canonical` for commitment
    calls      pseudo-random calls of every operator
    selftest   digests of them: `python -m repops.selftest` compares this machine with the reference

Tensors are plain C-contiguous numpy arrays of float32, int64 or bool. `backend("cpu").execute(name, inputs, attrs)`
applies an operator; each is also a function here: `repops.mm(a, b)`, `repops.sum(x, dims=(0,), keepdim=0)`.

    REPOPS_NUM_THREADS   threads of a kernel (default: one for each core this process may use)
    REPOPS_ISA           portable, avx2 or avx512, instead of the best there is
    REPOPS_LIBRARY       another build of the C kernels, such as one with sanitizers
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import opset, reference
from .backends import Backend, backend
from .opset import OPSET_VERSION, OpError
from .tensors import Array, canonical

__all__ = [
    "OPSET_VERSION",
    "Backend",
    "OpError",
    "backend",
    "canonical",
    "get_num_threads",
    "opset",
    "reference",
    "set_num_threads",
]


def set_num_threads(count: int) -> None:
    """How many threads a C kernel may use. Results do not depend on it."""
    from . import cpu

    cpu.set_num_threads(count)


def get_num_threads() -> int:
    """How many threads a C kernel may use."""
    from . import cpu

    return cpu.get_num_threads()


def __getattr__(name: str) -> Callable[..., Any]:
    """Each operator as a function of its inputs and attributes, on the cpu backend."""
    if name not in opset.BY_NAME:
        raise AttributeError(f"module 'repops' has no attribute {name!r}")

    def operator(*inputs: Array, **attrs: Any) -> Array | list[Array]:
        outputs = backend("cpu").execute(name, inputs, attrs)
        return outputs[0] if len(outputs) == 1 else outputs

    operator.__name__ = name
    return operator
