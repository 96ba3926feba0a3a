"""The fast executor: checks a call, allocates the outputs and passes both to one C function.

The part that depends only on (operator, shapes, attributes) is prepared once and cached, because the steps of a
training run repeat it. A call then costs a few microseconds besides the work itself.
"""

from __future__ import annotations

import ctypes
import math
import os
import struct
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from ..opset import BF16, ITEM_SIZE, MAX_RANK, Arithmetic, Attrs, Spec, lookup
from ..sums import SumMode
from ..tensors import NUMPY_DTYPE, PLAIN, Array, Call, call_of, freeze, specs_of
from .library import BEST_ISA, LIBRARY, isa_code
from .memory import FIELDS_ARE_KNOWN, HEAD, address_of, allocate, check_out, check_overlap

_NDARRAY = np.ndarray
VIEWS = ("reshape",)  # the result shares the input's memory; there is no kernel


class CpuCall(NamedTuple):
    """A prepared call. `signature` is the C struct of kernels/csrc/runtime/repops.h; the plan keeps it alive."""

    kernel: Callable[..., int]
    signature: Array
    address: int
    outputs: tuple[tuple[tuple[int, ...], np.dtype[Any], int], ...]  # shape, dtype, bytes
    pack: Callable[..., bytes]
    """Packs the addresses of inputs and outputs as the C array of pointers."""
    words: Callable[..., bytes] | None
    """Packs threads, instruction set, head and the objects of inputs and outputs as the argument of runtime/call.c."""


class Bound(NamedTuple):
    """A call with fixed memory. Repeating it costs half a microsecond besides the work."""

    kernel: Callable[..., int]
    signature: int | bytes
    data: bytes
    keep: object
    """Owner of the signature's memory."""

    def __call__(self, threads: int, isa: int) -> None:
        if self.kernel(self.signature, self.data, threads, isa):
            raise MemoryError("no memory for a kernel's working space")


_call = LIBRARY.repops_call
_call.argtypes = [ctypes.c_char_p]
_NOT_PLAIN = 2  # what it returns for an array that is not C-contiguous and aligned
_MOST_TENSORS = 64  # that it takes

MAX_PLANS = 16384  # a training run has a few hundred
_plans: dict[Any, CpuCall] = {}

_threads = int(os.environ.get("REPOPS_NUM_THREADS") or len(os.sched_getaffinity(0)))
_isa = isa_code(os.environ["REPOPS_ISA"]) if os.environ.get("REPOPS_ISA") else BEST_ISA


def set_num_threads(count: int) -> None:
    """Set the number of threads that a kernel may use; results do not depend on it. Raise ValueError below 1."""
    global _threads  # the process-wide default, as in every numerical library
    if count < 1:
        raise ValueError(f"at least one thread is needed, got {count}")
    _threads = count


def get_num_threads() -> int:
    return _threads


def get_isa() -> int:
    """Return the code of the instruction set in use."""
    return _isa


def _words(spec: Spec) -> list[int]:
    dtype, shape = spec
    return [int(dtype), len(shape), *shape, *[0] * (MAX_RANK - len(shape))]


def signature_words(call: Call) -> Array:
    """Return the C struct `signature` of kernels/csrc/runtime/repops.h, followed by the attributes."""
    words = [len(call.inputs), len(call.outputs)]
    for spec in (*call.inputs, *call.outputs):
        words += _words(spec)
    for value in call.attrs.values():
        words += [len(value), *value] if isinstance(value, tuple) else [int(value)]
    return np.array(words, dtype=np.uint64)


def output_layout(outputs: Sequence[Spec]) -> tuple[tuple[tuple[int, ...], np.dtype[Any], int], ...]:
    """Return the shape, dtype and bytes of each output."""
    return tuple((shape, NUMPY_DTYPE[dtype], math.prod(shape) * ITEM_SIZE[dtype]) for dtype, shape in outputs)


def bind(
    name: str,
    inputs: Sequence[Spec],
    attrs: Attrs,
    addresses: Sequence[int],
    sums: SumMode = SumMode.REPOPS_F32,
) -> Bound:
    """Bind an operator on contiguous arrays of these specs to fixed memory of its inputs and outputs. Raise OpError.

    SAFETY: nothing checks the addresses. The caller guarantees that the memory is valid, large enough and apart.
    """
    plan = prepare(name, tuple(inputs), freeze(attrs, name), sums)
    return Bound(plan.kernel, plan.address, plan.pack(*addresses), plan)


@lru_cache(maxsize=MAX_PLANS)
def prepare(
    name: str,
    inputs: tuple[Spec, ...],
    attrs: tuple[tuple[str, Any], ...],
    sums: SumMode = SumMode.REPOPS_F32,
) -> CpuCall:
    """Prepare the part of a call that does not depend on its data. Raise OpError."""
    call = call_of(name, inputs, attrs)
    return prepare_kernel(call, kernel_name(call, sums))


def prepare_kernel(call: Call, kernel_name: str) -> CpuCall:
    """Prepare a checked call of that kernel."""
    signature = signature_words(call)
    kernel = getattr(LIBRARY, f"repops_{kernel_name}")
    kernel.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_int]
    tensors, address = len(call.inputs) + len(call.outputs), signature.ctypes.data
    pack = struct.Struct(f"{tensors}P").pack
    words = None
    if FIELDS_ARE_KNOWN and tensors <= _MOST_TENSORS:
        entry = ctypes.cast(kernel, ctypes.c_void_p).value
        words = partial(struct.Struct(f"2P3q{tensors}P").pack, entry, address)
    return CpuCall(kernel, signature, address, output_layout(call.outputs), pack, words)


def _call_with_addresses(plan: CpuCall, inputs: Sequence[Array], outputs: Sequence[Array], *how: int) -> int:
    """As `_call`, for arrays that only numpy can read, or very many."""
    if any(array.flags.num & PLAIN != PLAIN for array in inputs):
        return _NOT_PLAIN
    return plan.kernel(plan.address, plan.pack(*map(address_of, inputs), *map(address_of, outputs)), *how)


def kernel_name(call: Call, sums: SumMode) -> str:
    """Return the name of a call's kernel: sums have one for each mode, contractions one for each dtype."""
    name, first = call.op.name, call.inputs[0][0] if call.inputs else None
    if call.op.arithmetic_of(first, call.attrs) is not Arithmetic.SUM:
        return name
    if sums is SumMode.TC16 and first == BF16:
        return f"tc16_{name}"
    return "exact_" * (sums is SumMode.EXACT) + "bf16_" * (first == BF16) + name


def execute(
    name: str,
    inputs: Sequence[Array],
    attrs: Attrs,
    threads: int | None = None,
    isa: int | None = None,
    out: Sequence[Array] | None = None,
    sums: SumMode = SumMode.REPOPS_F32,
) -> list[Array]:
    """Apply one operator to C-contiguous, aligned arrays of the table's dtypes.

    Outputs are new arrays, but `reshape` returns a view of its input. With `out`, one array for each output, all
    results are written there, that of `reshape` too.

    Raise OpError, which names the argument, or MemoryError.
    """
    if name in VIEWS:
        return _view(name, inputs, attrs, out)
    # The rest is optimised for speed: a training step runs it a few hundred times.
    key: list[Any] = [name, sums]
    for array in inputs:
        if type(array) is not _NDARRAY:
            specs_of(name, inputs)  # raises the error that names the argument
        key += (array.dtype, array.shape)
    frozen = freeze(attrs, name) if attrs else ()
    key.append(frozen)
    at = tuple(key)
    plan = _plans.get(at)
    if plan is None:
        plan = prepare(name, specs_of(name, inputs), frozen, sums)
        if len(_plans) >= MAX_PLANS:
            _plans.clear()
        _plans[at] = plan
    return run(plan, name, inputs, threads, isa, out)


def run(
    plan: CpuCall,
    name: str,
    inputs: Sequence[Array],
    threads: int | None = None,
    isa: int | None = None,
    out: Sequence[Array] | None = None,
) -> list[Array]:
    """Run a prepared call. Raise OpError or MemoryError, as `execute` does."""
    if out is None:
        outputs = [allocate(*layout) for layout in plan.outputs]
    else:
        _check_out(name, plan.outputs, inputs, out)
        outputs = list(out)
    count, code = threads or _threads, _isa if isa is None else isa
    if plan.words is None:
        result = _call_with_addresses(plan, inputs, outputs, count, code)
    else:
        result = _call(plan.words(count, code, HEAD, *map(id, inputs), *map(id, outputs)))
    if result == _NOT_PLAIN:
        specs_of(name, inputs)
    if result:
        raise MemoryError(f"{name}: no memory for the kernel's working space")
    return outputs


def _view(name: str, inputs: Sequence[Array], attrs: Attrs, out: Sequence[Array] | None) -> list[Array]:
    call = call_of(name, specs_of(name, inputs), freeze(attrs, name))
    view = inputs[0].reshape(call.outputs[0][1])
    if out is None:
        return [view]
    _check_out(name, output_layout(call.outputs), inputs, out)
    np.copyto(out[0], view)
    return list(out)


def _check_out(name: str, layout: Any, inputs: Sequence[Array], out: Sequence[Array]) -> None:
    row = lookup(name)
    check_out(name, out, layout)
    check_overlap(name, [(row.argument(i), array) for i, array in enumerate(inputs)], out)
