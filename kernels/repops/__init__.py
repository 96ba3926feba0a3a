"""repops: neural-network operators whose results are defined bit for bit, the same on every machine.

    opset      the table of operators: ids, attributes, shapes (docs/opset.md is the specification)
    reference  what each operator computes, in readable Python
    tensors    which arrays are tensors; `canonical` for commitment

Tensors are plain C-contiguous numpy arrays of float32, int64 or bool.
"""

from . import opset, reference
from .backends import Backend, backend
from .opset import OPSET_VERSION, OpError
from .tensors import canonical

__all__ = ["OPSET_VERSION", "Backend", "OpError", "backend", "canonical", "opset", "reference"]
