"""The operator set: ONE table (`table`), one row an operator. Everything that must agree on operators reads it.

A row says what an operator is called, how many inputs it takes, which attributes it has and in which order,
and which outputs it gives for which inputs. What the outputs CONTAIN is defined in docs/opset.md, readable as
code in `repops.reference`. Operators are total: what `infer` accepts cannot fail, whatever the data.

    OpError
      UnknownOpError  no row of that name
      ArityError      wrong number of inputs
      AttrError       an attribute missing, extra, of the wrong kind or out of range
      DtypeError      an input's dtype is not allowed here
      ShapeError      ranks or dimensions do not fit together, or exceed the limits
      ChainError      an element could take more than MAX_STEPS steps
      ArrayError      (repops.tensors) an input or `out` is not a plain C-contiguous array
      AliasError      (repops.tensors) `out` overlaps an input or another output
      GradientError   (repops.bridge) a tensor requires a gradient where none is given

Messages name the operator and the argument, in the names of the table.
"""

from .rules import broadcast
from .signature import (
    BOOL,
    F32,
    I64,
    ITEM_SIZE,
    MAX_ELEMENTS,
    MAX_RANK,
    MAX_SITES,
    MAX_STEPS,
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
    "BOOL",
    "BY_ID",
    "BY_NAME",
    "F32",
    "I64",
    "ITEM_SIZE",
    "MAX_ELEMENTS",
    "MAX_RANK",
    "MAX_SITES",
    "MAX_STEPS",
    "OPS",
    "OPSET_VERSION",
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
]
