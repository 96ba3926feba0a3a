"""The forward graph of an ONNX file as a module, so that ordinary capture can train it or decode with it.

    module = load(Path("model.onnx"))           # initialisers are parameters and buffers
    capture(module, cross_entropy, Adam(), data, order)

model      reads an untrusted file: bounded, nothing outside its folder, known versions only
tensors    its tensors, including those in files next to it
roles      which tensors are parameters, by the evidence in the file
values     the operands of an operator: tensors, and values that are known before tracing
module     the module that runs the graph
operators  the rules, one function for each operator
"""

from .model import read
from .module import OnnxModule, load
from .operators import OPERATORS

__all__ = ["OPERATORS", "OnnxModule", "load", "read"]
