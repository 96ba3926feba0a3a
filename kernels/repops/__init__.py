"""Neural-network operators whose results are defined bit for bit and are the same on every machine.

    opset      the table of operators: ids, attributes, shapes (docs/opset.md is the specification)
    reference  each operator in readable Python
    host       the same bits on the processor: C kernels, on several threads
    fuse       softmax, layer_norm, adam ... as expressions of operators, and one kernel of each
    cuda       the same bits on NVIDIA GPUs
    f64        binary64 kernels for the mode rounded-f64: not operators
    tensors    which arrays count as tensors; `canonical` for commitments
    backends   the executors by name
    sums       the modes, which differ in how sums are computed
    torch      operators and composites for eager PyTorch, with autograd: `import repops.torch`
    calls      pseudo-random calls of every operator
    selftest   digests of these calls: `python -m repops.selftest` compares this machine with the reference

Tensors are C-contiguous, aligned numpy arrays of float32, bf16 (ml_dtypes), int64 or bool.
`backend("cpu").execute(name, inputs, attrs)` applies an operator. Each operator is also a function here: `repops.mm(a,
b)`, `repops.sum(x, dims=(0,), keepdim=0)`. These functions take numpy arrays or torch tensors (CPU or GPU), all of one
kind, return the same kind, and write into `out=` if it is given. They have no autograd: a tensor that requires a
gradient is a GradientError (`repops.torch` has the same operators with gradients). Every refusal is an OpError that
names the argument.

    REPOPS_NUM_THREADS   threads per kernel (default: one for each core that this process may use)
    REPOPS_ISA           portable, avx2 or avx512, instead of the best that this machine has
    REPOPS_LIBRARY       another build of the C kernels, such as one with sanitizers
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from numpy import ndarray

from . import opset, reference
from .backends import Backend, backend
from .opset import OPSET_VERSION, Attrs, OpError
from .sums import SumMode
from .tensors import canonical

__all__ = [
    "OPSET_VERSION",
    "Backend",
    "OpError",
    "SumMode",
    "backend",
    "canonical",
    "get_num_threads",
    "opset",
    "reference",
    "set_num_threads",
]


def set_num_threads(count: int) -> None:
    """Set the number of threads that a C kernel may use; results do not depend on it. Raise ValueError below 1."""
    from .host import cpu

    cpu.set_num_threads(count)


def get_num_threads() -> int:
    """Return the number of threads that a C kernel may use."""
    from .host import cpu

    return cpu.get_num_threads()


def _apply(name: str, inputs: Sequence[Any], attrs: Attrs, out: Any) -> list[Any]:
    """Execute the operator on the kind of arrays that the arguments are."""
    torch = sys.modules.get("torch")  # a torch tensor can exist only after torch was imported
    arguments = inputs if out is None else (*inputs, *out)
    if torch is not None and any(isinstance(argument, torch.Tensor) for argument in arguments):
        from . import torch_executor

        return torch_executor.execute(name, inputs, attrs, out)
    from .host import cpu

    return cpu.execute(name, inputs, attrs, out=out)


def _operator(name: str) -> Callable[..., Any]:
    from .host import cpu  # loads the shared library, which the reference does not need

    execute = cpu.execute

    def operator(*inputs: Any, out: Any = None, **attrs: Any) -> Any:
        for array in inputs:
            if type(array) is not ndarray:
                break
        else:
            if out is None and inputs:  # the most frequent case, without a detour
                outputs = execute(name, inputs, attrs)
                return outputs[0] if len(outputs) == 1 else outputs
        given = None if out is None else out if isinstance(out, (tuple, list)) else (out,)
        outputs = _apply(name, inputs, attrs, given)
        return outputs[0] if len(outputs) == 1 else outputs

    row = opset.lookup(name)
    operator.__name__ = operator.__qualname__ = name
    operator.__doc__ = (
        f"Operator {row.id}, {name}({row.args}), attributes {dict(row.attrs)}: see docs/opset.md."
    )
    return operator


def __getattr__(name: str) -> Callable[..., Any]:
    """Return an operator as a function of its inputs and, as keywords, its attributes. Raise AttributeError.

    NOTE: it becomes an attribute, so this is asked once for each operator. Here `sum` and `slice` are then operators.
    """
    if name not in opset.BY_NAME:
        raise AttributeError(f"module 'repops' has no attribute {name!r}")
    made = globals()[name] = _operator(name)
    return made
