"""Programs: what is to be computed, without any value (docs/protocol.md, sections 3 and 4).

structure   one node: operator, operands, output types
attributes  an operator's attributes as bytes
skeleton    the graph without its tensors, its trees and its file
program     the graph with the hashes of its tensors
plain       reading both files from strangers
validate    the rules that a program from a stranger must keep
playable    whether whoever is right about a node can always conclude
terms       what a job says about its program on-chain
"""

from .plain import MAX_FILE_BYTES
from .program import Program, TensorDescriptor
from .skeleton import Skeleton, SlotSource
from .structure import Kind, Operand, Structure, TensorType
from .terms import MODE_REPOPS_F32, Terms, suggest_strides
from .validate import validate

__all__ = [
    "MAX_FILE_BYTES",
    "MODE_REPOPS_F32",
    "Kind",
    "Operand",
    "Program",
    "Skeleton",
    "SlotSource",
    "Structure",
    "TensorDescriptor",
    "TensorType",
    "Terms",
    "suggest_strides",
    "validate",
]
