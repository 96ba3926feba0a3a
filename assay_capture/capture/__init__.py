"""Capture: turns a PyTorch training step into a program. Running a program needs nothing of this package.

    bundle = build(load_recipe("digits-mlp", steps=200))
    bundle.write(Path("job"))

recipe        the definition of a training job; `build`
recipes       recipes by name: `load_recipe`, and the built-in ones
definition    what is known of a training step: the arguments of `capture`
part_sum      sums over the parts of a batch: as a tree, or one after the other
step          batch, forward, loss, backward, optimizer as one program: `capture`, `sketch`
trace         passes 1 and 2: PyTorch to a functional ATen graph
modules       what is inside a module's wrappers, and how it is left as it was
process       what a capture leaves as it was in the process: generators, modes, caches
phases        which module runs while a step is traced, and in which pass
python_state  what a step may change in Python (python_values, python_places, own_code, watched)
tensors_outside  tensors that are no argument of a step, which it must not change
given_data    types and parts in which data is given, compared between steps of eager PyTorch
replacements  PyTorch's functions in forms that the operator set has
lowering      pass 3: ATen to the operator set
optimizers    SGD, Adam, parameter groups, averages of weights, PyTorch's: `from_torch`
builder       the program under construction
draft         a captured program before its tensors are read
guard         the first step compared with eager PyTorch's
seeded        initial weights and data order from a seed
remedies      what to write instead of what no program can have
errors        `CaptureError`, `Unsupported`, `Unexpected`
"""

from .draft import Built
from .errors import CaptureError, Unexpected, Unsupported
from .lowering import RULES
from .optimizers import (
    SGD,
    Adam,
    Averaged,
    Groups,
    Optimizer,
    UpdateRule,
    from_torch,
    like_parameter,
    lion,
)
from .recipe import Recipe, build
from .recipes import BUILTIN, load_recipe
from .step import capture, sketch

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
    "Unexpected",
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
