"""Optimizers: what a step does with the gradients, as nodes of the program.

builtin       SGD, Adam, parameter groups, averages of weights; clipping; what an optimizer is
update_rules  optimizers as functions of tensors, traced like the module
torch_optim   PyTorch's optimizers and schedulers as these: `from_torch`
"""

from .builtin import (
    SGD,
    Adam,
    Averaged,
    Groups,
    LearningRate,
    Maximized,
    Optimizer,
    Parameter,
    clip,
    clip_values,
    step_index,
)
from .torch_optim import as_optimizer, from_torch
from .update_rules import UpdateRule, like_parameter, lion

__all__ = [
    "SGD",
    "Adam",
    "Averaged",
    "Groups",
    "LearningRate",
    "Maximized",
    "Optimizer",
    "Parameter",
    "UpdateRule",
    "as_optimizer",
    "clip",
    "clip_values",
    "from_torch",
    "like_parameter",
    "lion",
    "step_index",
]
