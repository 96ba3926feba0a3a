"""Capture: a PyTorch training step becomes a program. The only part of Assay that imports torch.

    bundle = build(load_recipe("digits-mlp", steps=200))
    bundle.write(Path("job"))

recipe     what a training job is; `build`
recipes    built-in ones
step       batch, forward, loss, backward, optimizer as one program: `capture`
trace      passes 1 and 2: PyTorch to a functional ATen graph
lowering   pass 3: ATen to the operator set; its rules are in aten_*
builder    the program under construction
optimizers SGD, Adam
sampling   initial weights and data order from a seed
"""

from .builder import Built, Labels
from .errors import CaptureError, Unsupported
from .lowering import RULES
from .optimizers import SGD, Adam, Optimizer
from .recipe import Recipe, build, load_recipe
from .recipes import BUILTIN
from .step import capture

__all__ = [
    "BUILTIN",
    "RULES",
    "SGD",
    "Adam",
    "Built",
    "CaptureError",
    "Labels",
    "Optimizer",
    "Recipe",
    "Unsupported",
    "build",
    "capture",
    "load_recipe",
]
