"""The mode `tc16` on the CPU (docs/opset.md, section 2): contractions of bf16 as chains of tensor-core blocks.

The kernels are csrc/tensorcore/tc16_*.c. Everything else is that of the mode repops-f32.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ..opset import BF16, F32, Attrs, DtypeError, Spec
from ..sums import SumMode
from ..tensors import Array, call_of, freeze, specs_of
from . import cpu
from .cpu import CpuCall
from .library import LIBRARY

TERMS = 16
"""Products of a block."""
NANOSECONDS_A_TERM = 24.0
"""Highest cost of a term of a contraction of bf16 on one core, where the operands are chosen so that no block is of the
quick kind: 7 to 9 measured on a quiet core, by each instruction set (products below the normal range). A limit of
effort must allow for it. A GPU's tensor cores take the same time for any data."""


def execute(
    name: str,
    inputs: Sequence[Array],
    attrs: Attrs,
    threads: int | None = None,
    isa: int | None = None,
    out: Sequence[Array] | None = None,
) -> list[Array]:
    """Apply one operator, as `cpu.execute` does. Raise OpError or MemoryError."""
    return cpu.execute(name, inputs, attrs, threads, isa, out, SumMode.TC16)


def in_binary32(
    name: str, inputs: Sequence[Array], attrs: Attrs, threads: int | None = None, isa: int | None = None
) -> Array:
    """Return a contraction of bf16 that is not rounded to bf16: f32. Raise OpError or MemoryError."""
    plan = _in_binary32(name, specs_of(name, inputs), freeze(attrs, name))
    (result,) = cpu.run(plan, name, inputs, threads, isa)
    return result


def blocks(a: Array, b: Array, c: Array, isa: int | None = None) -> Array:
    """Return the blocks of rows of 16 factors (uint16, bits of bf16) and accumulators (uint32, bits of binary32).

    The kernels of contractions compute them. Raise MemoryError.
    """
    left, right = (np.ascontiguousarray(x, np.uint16).reshape(-1, TERMS) for x in (a, b))
    before = np.ascontiguousarray(c, np.uint32).reshape(len(left))
    after = np.empty_like(before)
    places = [ctypes.c_void_p(array.ctypes.data) for array in (left, right, before, after)]
    code = cpu.get_isa() if isa is None else isa
    if LIBRARY.repops_tc16_blocks(ctypes.c_int64(len(left)), *places, code):
        raise MemoryError("no memory for a kernel's working space")
    return after


@lru_cache(maxsize=cpu.MAX_PLANS)
def _in_binary32(name: str, inputs: tuple[Spec, ...], attrs: tuple[tuple[str, Any], ...]) -> CpuCall:
    call = call_of(name, inputs, attrs)
    if call.inputs[0][0] != BF16:
        raise DtypeError(f"{name}: factors are not bf16", got=call.inputs[0][0].name)
    wide = call._replace(outputs=tuple((F32, shape) for _, shape in call.outputs))
    return cpu.prepare_kernel(wide, cpu.kernel_name(call, SumMode.TC16))
