"""Rules of ONNX operators in terms of PyTorch (https://onnx.ai/onnx/operators), one function for each operator.

math       element by element, comparisons, reductions
shape      layout, indexing, new tensors
nn         products, convolutions, pooling, norms, activations
registry   the table of operators
quantised  integers that stand for fractions
resize     padding and resizing
recurrent  layers with a state: LSTM, GRU, RNN
"""

from . import math, nn, quantised, recurrent, resize, shape
from .registry import OPERATORS

__all__ = ["OPERATORS", "math", "nn", "quantised", "recurrent", "resize", "shape"]
