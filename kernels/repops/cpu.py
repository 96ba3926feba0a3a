"""The fast executor: checks a call, allocates the outputs and hands both to one C function.

What depends only on (operator, shapes, attributes) is prepared once and cached, because the steps of a training run
repeat it; a call then costs a few microseconds besides the work itself.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from .library import BEST_ISA, LIBRARY, isa_code
from .opset import MAX_RANK, Attrs, Spec
from .tensors import NUMPY_DTYPE, Array, Call, call_of, freeze, spec_of

VIEWS = ("reshape",)  # the result shares the input's memory; no kernel


class Plan(NamedTuple):
    """A prepared call. `signature` is the C struct of kernels/csrc/repops.h and is kept alive by the plan."""

    kernel: Callable[..., int]
    signature: Array
    address: int
    outputs: tuple[tuple[tuple[int, ...], np.dtype[Any]], ...]
    pointers: Any


_threads = int(os.environ.get("REPOPS_NUM_THREADS") or len(os.sched_getaffinity(0)))
_isa = isa_code(os.environ["REPOPS_ISA"]) if os.environ.get("REPOPS_ISA") else BEST_ISA


def set_num_threads(count: int) -> None:
    """How many threads a kernel may use. The results do not depend on it."""
    global _threads  # the process-wide default, as in every numerical library
    if count < 1:
        raise ValueError(f"at least one thread is needed, got {count}")
    _threads = count


def get_num_threads() -> int:
    return _threads


def get_isa() -> int:
    """The code of the instruction set in use."""
    return _isa


def _words(spec: Spec) -> list[int]:
    dtype, shape = spec
    return [int(dtype), len(shape), *shape, *[0] * (MAX_RANK - len(shape))]


def signature_words(call: Call) -> Array:
    """The C struct `signature` of kernels/csrc/repops.h and the attributes behind it."""
    words = [len(call.inputs), len(call.outputs)]
    for spec in (*call.inputs, *call.outputs):
        words += _words(spec)
    for value in call.attrs.values():
        words += [len(value), *value] if isinstance(value, tuple) else [int(value)]
    return np.array(words, dtype=np.uint64)


@lru_cache(maxsize=16384)
def _plan(name: str, inputs: tuple[Spec, ...], attrs: tuple[tuple[str, Any], ...]) -> Plan:
    call = call_of(name, inputs, attrs)
    signature = signature_words(call)
    kernel = getattr(LIBRARY, f"repops_{name}")
    kernel.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int]
    outputs = tuple((shape, NUMPY_DTYPE[dtype]) for dtype, shape in call.outputs)
    pointers = ctypes.c_void_p * (len(call.inputs) + len(call.outputs))
    return Plan(kernel, signature, signature.ctypes.data, outputs, pointers)


def execute(
    name: str, inputs: Sequence[Array], attrs: Attrs, threads: int | None = None, isa: int | None = None
) -> list[Array]:
    """Apply one operator. Outputs are new arrays, except that `reshape` gives a view of its input."""
    specs = tuple([spec_of(array) for array in inputs])
    if name in VIEWS:
        call = call_of(name, specs, freeze(attrs))
        return [inputs[0].reshape(call.outputs[0][1])]
    plan = _plan(name, specs, freeze(attrs))
    outputs = [np.empty(shape, dtype) for shape, dtype in plan.outputs]
    data = plan.pointers(*[array.ctypes.data for array in (*inputs, *outputs)])
    if plan.kernel(plan.address, data, threads or _threads, _isa if isa is None else isa):
        raise MemoryError(f"{name}: no memory for the kernel's working space")
    return outputs
