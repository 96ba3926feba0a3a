"""The operator set: ONE table (`table`), one row per operator, read by all code that must agree on operators.

A row has an operator's id, name, inputs, attributes in order, and the rule for dtypes and shapes of outputs. The
contents of outputs are defined in docs/opset.md and, as readable code, in `repops.reference`. Operators are total: a
call that `infer` accepts cannot fail.

    OpError
      UnknownOpError  no row of that name
      ArityError      wrong number of inputs
      AttrError       an attribute missing, extra, of the wrong kind or out of range
      DtypeError      an input's dtype is not allowed here
      ShapeError      ranks or dimensions do not fit together, or exceed the limits
      ChainError      an element could take more than MAX_STEPS steps
      ArrayError      (repops.tensors) an input or `out` is not a plain C-contiguous array
      AliasError      (repops.tensors) `out` overlaps an input or another output
      GradientError   (repops.torch_executor) a tensor requires a gradient where none is computed

Messages name the operator and the argument, with the names of the table.
"""

from .rules import broadcast, window_positions
from .signature import (
    BF16,
    BOOL,
    F32,
    I64,
    ITEM_SIZE,
    MAX_ELEMENTS,
    MAX_RANK,
    MAX_STEPS,
    Arithmetic,
    ArityError,
    AttrError,
    Attrs,
    ChainError,
    Dtype,
    DtypeError,
    Op,
    OpError,
    Shape,
    ShapeError,
    Spec,
    UnknownOpError,
    check_spec,
)
from .table import BY_ID, BY_NAME, OPS, OPSET_VERSION, lookup

__all__ = [
    "BF16",
    "BOOL",
    "BY_ID",
    "BY_NAME",
    "F32",
    "I64",
    "ITEM_SIZE",
    "MAX_ELEMENTS",
    "MAX_RANK",
    "MAX_STEPS",
    "OPS",
    "OPSET_VERSION",
    "Arithmetic",
    "ArityError",
    "AttrError",
    "Attrs",
    "ChainError",
    "Dtype",
    "DtypeError",
    "Op",
    "OpError",
    "Shape",
    "ShapeError",
    "Spec",
    "UnknownOpError",
    "broadcast",
    "check_spec",
    "lookup",
    "window_positions",
]
