"""Capture: a PyTorch training step becomes a program. Nothing of it is needed to run one.

    bundle = build(load_recipe("digits-mlp", steps=200))
    bundle.write(Path("job"))

recipe      what a training job is; `build`
recipes     built-in ones
step        batch, forward, loss, backward, optimizer as one program: `capture`, `sketch`
trace       passes 1 and 2: PyTorch to a functional ATen graph
whole       attention and rms_norm in the form that composites have
lowering    pass 3: ATen to the operator set; its rules are in aten_*
knowledge   what is known of a value before the program runs
builder     the program under construction
draft       a captured program before its tensors are read
optimizers  SGD, Adam, parameter groups; torch_optim converts PyTorch's
sampling    initial weights and data order from a seed
"""

from .draft import Built, Draft, Labels, Source
from .errors import CaptureError, Unsupported
from .lowering import RULES
from .optimizers import SGD, Adam, Groups, Optimizer
from .recipe import Recipe, build, load_recipe
from .recipes import BUILTIN
from .step import capture, sketch

__all__ = [
    "BUILTIN",
    "RULES",
    "SGD",
    "Adam",
    "Built",
    "CaptureError",
    "Draft",
    "Groups",
    "Labels",
    "Optimizer",
    "Recipe",
    "Source",
    "Unsupported",
    "build",
    "capture",
    "load_recipe",
    "sketch",
]
