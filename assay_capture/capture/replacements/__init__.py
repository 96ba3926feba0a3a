"""Functions of PyTorch in forms that the operator set has, put in their place while a step is traced.

    @replaces(aten.sort.default)            # before autograd: PyTorch differentiates the new form
    @decomposes(aten.cumsum.default)        # after autograd: PyTorch's own gradient, then the new form

The place is PyTorch's dispatcher, so it does not matter which Python function, layer or library makes the call.
Outside of a trace nothing is changed.

registry    the tables, and the context in which they apply: `replaces`, `decomposes`, `in_place`
attention   one scale, one mask, one softmax             experts      mixtures, with fixed places for each expert
elementary  functions as expressions of ours             losses       whose decomposition by PyTorch is wrong
order       sorting, by comparing every two elements     scans        running sums, products, maxima
shapes      layout and padding, by tables of places      windows      pooling, convolutions of volumes
assignment  reductions of elements sent to places        distances    between rows; quantisation
factors     factors of matrices, and solutions        gamma      the gamma function's logarithm
checkpointing    activations are not computed twice      recurrent   dropout between layers
"""

from . import (  # noqa: F401  (they register their functions)
    assignment,
    attention,
    checkpointing,
    distances,
    elementary,
    experts,
    factors,
    gamma,
    losses,
    order,
    recurrent,
    scans,
    shapes,
    windows,
)
from .registry import DECOMPOSED, REPLACED, in_place

__all__ = ["DECOMPOSED", "REPLACED", "in_place"]
