"""The forward graph of an ONNX file as a module, so that the ordinary capture trains it or decodes with it.

    module = load(Path("model.onnx"))           # initialisers are parameters and buffers
    capture(module, cross_entropy, Adam(), data, order)

model      reading a file of a stranger: bounded, nothing outside its folder, known versions only
tensors    its tensors, also those in files beside it
values     what an operator works on: tensors, and values that are known before anything is traced
module     the module that runs the graph
operators  the rules, one function an operator: `math`, `shape`, `nn`
training   loss and optimizer by name, and a recipe from a file
"""

from .model import Graph, read
from .module import OnnxModule, load
from .operators import OPERATORS

__all__ = ["OPERATORS", "Graph", "OnnxModule", "load", "read"]
