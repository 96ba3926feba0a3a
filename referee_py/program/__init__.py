"""Programs: the computation, without any value (docs/protocol.md, sections 3 and 4).

structure   one node: operator, operands, output types
attributes  an operator's attributes as bytes
skeleton    the graph without its tensors, its trees and its file
program     the graph with the hashes of its tensors
modes       the arithmetic that a program asks for
validate    the rules that a program from a stranger must keep
read        both files from strangers: `read_program`, `read_skeleton`
playable    the rule that an honest party can always conclude about every node
terms       a job's on-chain description of its program
"""

from .program import Program, TensorDescriptor
from .read import MAX_FILE_BYTES
from .skeleton import Skeleton, SlotSource
from .structure import Kind, Operand, Structure, TensorType
from .validate import validate

__all__ = [
    "MAX_FILE_BYTES",
    "Kind",
    "Operand",
    "Program",
    "Skeleton",
    "SlotSource",
    "Structure",
    "TensorDescriptor",
    "TensorType",
    "validate",
]
