"""Capture: turns a PyTorch training step into a program. Running a program needs nothing of this package.

    bundle = build(load_recipe("digits-mlp", steps=200))
    bundle.write(Path("job"))

recipe      the definition of a training job; `build`
recipes     recipes by name: `load_recipe`, and the built-in ones
step        batch, forward, loss, backward, optimizer as one program: `capture`, `sketch`
trace       passes 1 and 2: PyTorch to a functional ATen graph; modules keeps the module, phases says which one runs
guard       the first step beside eager PyTorch's
replacements    PyTorch's functions in forms that the operator set has
lowering    pass 3: ATen to the operator set; the rules are in aten_*
knowledge   facts about a value before the program runs
builder     the program under construction
draft       a captured program before its tensors are read
optimizers  SGD, Adam, parameter groups, averages of weights
update_rules    optimizers as functions of tensors; torch_optim converts PyTorch's: `from_torch`
sampling    initial weights and data order from a seed
"""

from .draft import Built
from .errors import CaptureError, Unsupported
from .lowering import RULES
from .optimizers import SGD, Adam, Averaged, Groups, Optimizer
from .recipe import Recipe, build
from .recipes import BUILTIN, load_recipe
from .step import capture, sketch
from .torch_optim import from_torch
from .update_rules import UpdateRule, like_parameter, lion

__all__ = [
    "BUILTIN",
    "RULES",
    "SGD",
    "Adam",
    "Averaged",
    "Built",
    "CaptureError",
    "Groups",
    "Optimizer",
    "Recipe",
    "Unsupported",
    "UpdateRule",
    "build",
    "capture",
    "from_torch",
    "like_parameter",
    "lion",
    "load_recipe",
    "sketch",
]
