"""Programs: what is to be computed, without any value (docs/protocol.md, sections 3 and 4).

structure   one node: operator, operands, output types
attributes  an operator's attributes as bytes
program     the graph, its trees and its file
validate    the rules that a program from a stranger must keep
terms       what a job says about its program on-chain
"""

from .program import MAX_FILE_BYTES, Program, SlotSource, TensorDescriptor
from .structure import Kind, Operand, Structure, TensorType
from .terms import MODE_REPOPS_F32, Terms, suggest_strides
from .validate import validate

__all__ = [
    "MAX_FILE_BYTES",
    "MODE_REPOPS_F32",
    "Kind",
    "Operand",
    "Program",
    "SlotSource",
    "Structure",
    "TensorDescriptor",
    "TensorType",
    "Terms",
    "suggest_strides",
    "validate",
]
