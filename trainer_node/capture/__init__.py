"""Capture: turns a PyTorch training step into a program. Running a program needs nothing of this package.

    bundle = build(load_recipe("digits-mlp", steps=200))
    bundle.write(Path("job"))

recipe      the definition of a training job; `build`
recipes     recipes by name: `load_recipe`, and the built-in ones
step        batch, forward, loss, backward, optimizer as one program: `capture`, `sketch`
trace       passes 1 and 2: PyTorch to a functional ATen graph
whole       attention and rms_norm in the form of the composites
lowering    pass 3: ATen to the operator set; the rules are in aten_*
knowledge   facts about a value before the program runs
builder     the program under construction
draft       a captured program before its tensors are read
optimizers  SGD, Adam, parameter groups; torch_optim converts PyTorch's optimizers: `from_torch`
sampling    initial weights and data order from a seed
"""

from .draft import Built
from .errors import CaptureError, Unsupported
from .lowering import RULES
from .optimizers import SGD, Adam, Groups, Optimizer
from .recipe import Recipe, build
from .recipes import BUILTIN, load_recipe
from .step import capture, sketch
from .torch_optim import from_torch

__all__ = [
    "BUILTIN",
    "RULES",
    "SGD",
    "Adam",
    "Built",
    "CaptureError",
    "Groups",
    "Optimizer",
    "Recipe",
    "Unsupported",
    "build",
    "capture",
    "from_torch",
    "load_recipe",
    "sketch",
]
