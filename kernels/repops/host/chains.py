"""An element's chain of steps (docs/adjudication.md, section 2), computed by kernels/csrc/chain at about 10^8 steps per
second; the readable rules reach 10^4 to 10^5.

Only the operators whose chains can be long are here. Every other operator has a single step.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from enum import IntEnum

import numpy as np

from ..opset import BF16, Attrs, OpError
from ..tensors import Array, check
from .cpu import signature_words
from .library import LIBRARY
from .memory import address_of

_CONTRACTIONS = {"mm": 0, "bmm": 0, "conv2d": 1, "conv2d_input_grad": 2, "conv2d_weight_grad": 3}
KINDS = {**_CONTRACTIONS, "sum": 4, "amax": 5, "argmax": 6, "max_pool2d": 7, "scatter_add": 8}
"""Numbers of `chain_kind` in kernels/csrc/chain/chain.h."""

BLOCK, LEVEL_BYTES = 4096, 24
EXACT_BYTES = 96
BLOCK_BYTES = 16


class Sums(IntEnum):
    """Kinds of state of a sum of floats, which depend on the arithmetic. Numbers of `chain_sums` in chain.h."""

    ORDERED = 0
    """repops-f32: rounded sums, in a fixed order."""
    EXACT = 1
    """exact: the exact sum."""
    LOGGED = 2
    """rounded-f64: the exact sum, its magnitude, the number of terms, and of values the smallest."""
    TENSOR = 3
    """tc16: as ordered, but contractions of bf16 are chains of blocks."""


_advance, _length = LIBRARY.repops_chain, LIBRARY.repops_chain_length
_advance.restype = None
_advance.argtypes = [
    *(ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_int),
    *(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_char_p),
]
_length.restype = ctypes.c_int64
_length.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_int64]


class Chain:
    """The chain of element `element` (flat index) of one output of an operator.

    Raises OpError for a refused call, an operator without long chains, or an output or element that does not exist.
    """

    def __init__(
        self,
        name: str,
        inputs: Sequence[Array],
        attrs: Attrs,
        element: int,
        *,
        output: int = 0,
        sums: Sums = Sums.ORDERED,
    ) -> None:
        call = check(name, inputs, attrs)
        if name not in KINDS:
            raise OpError(f"{name}: elements are one step each, there is no chain to compute")
        if not 0 <= output < len(call.outputs):
            raise OpError(f"{name}: no such output", output=output, outputs=len(call.outputs))
        count = int(np.prod(call.outputs[output][1], dtype=object))
        if not 0 <= element < count:
            raise OpError(f"{name}: no such element", element=element, elements=count)
        self._kind, self._element = KINDS[name], element
        adds = call.inputs[0][0].is_float and name not in ("amax", "argmax", "max_pool2d")
        self._sums = sums if adds else Sums.ORDERED
        self._narrow = call.inputs[0][0] == BF16
        self._signature = signature_words(call)
        self._inputs = list(inputs)
        self._data = np.array([address_of(array) for array in inputs], dtype=np.uintp).tobytes()
        self.length: int = _length(self._signature.ctypes.data, self._kind, self._sums, element)
        self.state_bytes = self._state_bytes(name)

    def advance(self, state: bytes, start: int, stop: int) -> bytes:
        """Return the state before step `stop`, given the state before step `start`. Other threads run meanwhile.

        Raise ValueError for steps outside the chain or a state of another size.
        """
        if not 0 <= start <= stop <= self.length:
            raise ValueError(f"steps {start} to {stop} of a chain of {self.length}")
        if len(state) != self.state_bytes:
            raise ValueError(f"a state of {len(state)} bytes; this chain's have {self.state_bytes}")
        # SAFETY: no bytes of a state select a place in an operand, so a forged state cannot cause a read elsewhere.
        after = ctypes.create_string_buffer(state, self.state_bytes)
        place = self._signature.ctypes.data, self._data, self._kind, self._sums
        _advance(*place, self._element, start, stop, after)
        return after.raw

    def _state_bytes(self, name: str) -> int:
        if self._sums is Sums.EXACT:
            return EXACT_BYTES
        if self._sums is Sums.LOGGED:
            return 2 * EXACT_BYTES + (8 if name in _CONTRACTIONS else 12)
        if name in _CONTRACTIONS:
            return BLOCK_BYTES if self._sums is Sums.TENSOR and self._narrow else 8
        if name == "sum" and self._inputs[0].dtype == np.float32:
            items, levels = self.length, 1
            while items > BLOCK:
                items, levels = -(-items // BLOCK), levels + 1
            return LEVEL_BYTES * levels
        return {"argmax": 16, "max_pool2d": 16, "scatter_add": 4}.get(name, 8)
