"""repops in eager PyTorch: every operator with autograd, on CPU and CUDA tensors.

    import repops.torch as rt

    y = rt.mm(a, b)                          every operator of the table, by name; attributes are keywords
    y = rt.functional.linear(x, weight)      torch.nn.functional's signatures
    rt.optim.AdamW(model.parameters())       torch.optim's

The operators are registered with torch.library as `torch.ops.repops.<name>`; torch.compile, fake tensors and make_fx
see them as opaque. Forward and backward passes consist of repops operators only, so gradients and trained parameters
have the same bits on any machine, with any number of threads and instruction set. Operators are differentiable twice,
`functional` once.

NOTE: PyTorch itself adds up the gradients of a tensor that is used several times: elementwise, in a fixed order.

    operators    schemas, execution and fake tensors, from the table
    autograd     registration of gradients; `gradients` has those of the operators
    composites   composites of repops.fuse.composites as operators
    functional   layers, activations, losses
    optim        SGD, Adam, AdamW
"""

from __future__ import annotations

from typing import Any

from ..opset import BY_NAME
from ..torch_executor import GradientError
from . import composites, functional, gradients, operators, optim

__all__ = ["GradientError", "composites", "functional", "gradients", "operators", "optim"]


def __getattr__(name: str) -> Any:
    """Return the operator `repops::<name>`. `cat` takes a list; `full` and `arange` take a `device`."""
    if name not in BY_NAME:
        raise AttributeError(f"module 'repops.torch' has no attribute {name!r}")
    return operators.overload(name)
