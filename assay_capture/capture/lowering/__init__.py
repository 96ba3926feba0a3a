"""Pass 3: each ATen operator of a traced step becomes nodes of the operator set.

rules       the table of rules, what a rule is given, and the pass: `lowers`, `Context`, `lower`
knowledge   facts about a value before the program runs
bf16        what is stored in bfloat16 and computed in f32

Rules, one function for each operator:

pointwise   arithmetic, comparison, selection            rounding    to integers, and divisions that round
composites  activations, softmax, dropout                norm        of rows, groups and channels
nn          products, convolution, pooling               loss        losses
index       ranges, embeddings, indexing                 shape       reductions, layout
strided     views by strides                             random      random numbers
"""

from . import (  # noqa: F401  (they register their rules)
    composites,
    index,
    loss,
    nn,
    norm,
    pointwise,
    random,
    rounding,
    shape,
    strided,
)
from .rules import RULES, Context, Noise, Uninitialised, dtype_of, lower, lowers, source_of

__all__ = ["RULES", "Context", "Noise", "Uninitialised", "dtype_of", "lower", "lowers", "source_of"]
