"""Files of `torch.export.save`, as a module that capture takes: without the model's source, and without running it.

    module = load(Path("model.pt2"))            # parameters and buffers, by the names of the exported module
    capture(module, cross_entropy, Adam(), data, order)

SAFETY: PyTorch's own reader unpickles, and evaluates text of the file. So the file, which is JSON and raw tensors, is
read here, and only operators of ATen on tensors and numbers are executed.

archive    the parts of an untrusted file: bounded, of known versions
arguments  operators and their arguments
module     the module that runs the graph
"""

from .archive import read
from .module import ExportedModule, load

__all__ = ["ExportedModule", "load", "read"]
