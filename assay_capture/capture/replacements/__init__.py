"""Functions of PyTorch in forms that the operator set has, put in their place while a step is traced.

    @replaces(aten.sort.default)            # before autograd: PyTorch differentiates the new form
    @decomposes(aten.cumsum.default)        # after autograd: PyTorch's own gradient, then the new form

The place is PyTorch's dispatcher, so it does not matter which Python function, layer or library makes the call.
Outside of a trace nothing is changed.
"""

from . import (  # noqa: F401  (they register their functions)
    assignment,
    attention,
    checkpointing,
    distances,
    elementary,
    experts,
    losses,
    order,
    scans,
    shapes,
    windows,
)
from .registry import DECOMPOSED, REPLACED, in_place

__all__ = ["DECOMPOSED", "REPLACED", "in_place"]
