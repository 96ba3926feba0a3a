"""The arithmetic modes, one object each, found by the mode byte that goes on-chain with a job.

arithmetic_mode  what may be asked of any mode, and what holds unless a mode says otherwise
repops_f32       1: every order is fixed
exact            2: sums are real sums, rounded once
tc16             3: contractions of bf16 are chains of tensor-core blocks
rounded_f64      0x80 to 0x9e: sums of binary64 in any order, and logs of how they are rounded
table            the modes, by byte and by name; the parts that other packages add to them

What a mode means to what stands above, such as backends and rules of elements, is in one file of each package
(docs/architecture.md, section 5): a mapping from the modes to its own parts (`Parts`).
"""

from ...params import MAX_BITS, MIN_BITS
from .arithmetic_mode import ArithmeticMode, UnknownMode
from .exact import EXACT, Exact
from .repops_f32 import REPOPS_F32, RepopsF32
from .rounded_f64 import BF16_BITS, Bounds, Form, RoundedF64, Rounding, check_bits
from .table import (
    MODES,
    USUAL,
    Parts,
    mode_named,
    mode_of,
    mode_or_unknown,
)
from .tc16 import TC16, Tc16

__all__ = [
    "BF16_BITS",
    "EXACT",
    "MAX_BITS",
    "MIN_BITS",
    "MODES",
    "REPOPS_F32",
    "TC16",
    "USUAL",
    "ArithmeticMode",
    "Bounds",
    "Exact",
    "Form",
    "Parts",
    "RepopsF32",
    "RoundedF64",
    "Rounding",
    "Tc16",
    "UnknownMode",
    "check_bits",
    "mode_named",
    "mode_of",
    "mode_or_unknown",
]
