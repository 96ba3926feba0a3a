"""One CPU kernel for a whole expression: builds the plan that kernels/csrc/elementwise/fused.c executes."""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ..f64.rounding import MAX_BITS
from ..host import cpu
from ..host.cpu import Bound
from ..host.library import LIBRARY
from ..host.memory import address_of, allocate, check_out, check_overlap
from ..opset import F32, ITEM_SIZE, ArityError, Shape, ShapeError, Spec
from ..tensors import Array, spec_of
from .composites import adam
from .expression import Expression, argument_names, record
from .phases import NotFusibleError, Place, Schedule
from .segments import Segments

MAX_VALUES = 256  # as in fused.c
TILE = 1024  # elements, as in fused.c
STREAM_BYTES = 1 << 25  # bytes of results from which outputs bypass the caches, which cannot hold them
GRAIN = 1 << 19  # elements times instructions below which a second thread does not pay


ARITHMETIC = ("add_f32", "sub_f32", "mul_f32", "div_f32", "sqrt_f32")
FUNCTIONS = ("exp_f32", "log_f32", "log1p_f32", "erf_f32", "tanh_f32", "sin_f32", "cos_f32", "rsqrt_f32")
"""ARITHMETIC and FUNCTIONS have kernels that round to a grid (csrc/f64/grid.h)."""
IN_DOUBT = 2
"""Return code of a fused kernel whose results are unusable: a function's value is too near to a midpoint of the grid.
NOTE: the caller then computes the results another way from the operands, so no output may overwrite an operand."""


class FusionPlan(Schedule):
    """A schedule encoded as the words of fused.c for one instruction set. Raises NotFusibleError.

    Below 32 bits each result of arithmetic and of a function is computed in binary64 and rounded to grid(bits). With
    `exact` sums of f32 are those of the mode exact.
    """

    def __init__(
        self,
        expression: Expression,
        isa: int,
        strides: Sequence[Shape | None] = (),
        bits: int = MAX_BITS,
        exact: bool = False,
    ):
        super().__init__(expression, bits == MAX_BITS, strides)
        self.bits, self.exact = bits, exact
        if bits < MAX_BITS and any(done.name in FUNCTIONS for done in self.code):
            self.shareable = set()
        if len(self.values) > MAX_VALUES:
            raise NotFusibleError(f"more than {MAX_VALUES} values", values=len(self.values))
        self.streams = self.geometry.n > TILE and 4 * math.prod(self.domain) >= STREAM_BYTES
        if not self.streams:
            self._keep_in_outputs()
        self.words = self._encode(isa)

    def _keep_in_outputs(self) -> None:
        """Keep a row in an output's memory if its last reader writes that output: softmax's exponentials, say."""
        last = {number: at for at, done in enumerate(self.code) for number in done.operands}
        for at, done in enumerate(self.code):
            output = self.values[done.result]
            kept = [i for i in done.operands if self.values[i].place == Place.KEPT and last[i] == at]
            if output.place != Place.OUTPUT or not output.varies or not kept or self.reads_again(at):
                continue
            value = self.values[kept[0]]
            made = next(i for i, before in enumerate(self.code) if before.result == kept[0])
            whole = value.spec == output.spec
            # An output that may share an input's memory must not be written before that input has been read.
            read = {number for later in self.code[self.first_read_after(made) :] for number in later.operands}
            shared = {(i, o) for i, o in self.shareable if o == output.index and i in read}
            if whole and not shared:
                value.place, value.index = Place.OUTPUT, output.index

    def _encode(self, isa: int) -> Array:
        at = {number: place for place, number in enumerate(self.values)}
        phases, code = [], []
        for p in range(1 + max((i.phase for i in self.code), default=0)):
            begin = sum(i.phase < p for i in self.code)
            tiles = begin + sum(i.phase == p and not i.varies for i in self.code)
            phases.append((begin, tiles, sum(i.phase <= p for i in self.code)))
        for instruction in self.code:
            kind, address = kernel(self._name(instruction.name), isa)
            operands = [at[i] for i in instruction.operands]
            code.append((kind, address, at[instruction.result], *(operands + operands[-1:] * 2)[:3]))
        g, reductions = self.geometry, sum(i.reduces for i in self.code)
        words = [
            *(len(g.outer), g.n, len(self.expression.inputs), len(set(self.expression.outputs))),
            *(self.tiles, self.kept, self.items, len(self.constants), len(self.values), len(phases)),
            *(reductions, GRAIN // max(len(self.code), 1) + 1, self.streams, self.bits, *g.outer),
            *(stride for strides in g.strides for stride in strides),
            *(word for constant in self.constants for word in constant),
        ]
        for value in self.values.values():
            words += [value.place, value.index, ITEM_SIZE[value.spec[0]], value.varies]
        for row in (*phases, *code):
            words += row
        return np.array(words, dtype=np.uint64)

    def _name(self, name: str) -> str:
        if self.bits == MAX_BITS:
            return "exact_sum_f32" if self.exact and name == "sum_f32" else name
        if name in ("pow_f32", "cast_i64_f32", "sum_f32"):
            raise NotFusibleError("no kernel that rounds to a grid", name=name, bits=self.bits)
        return f"grid_{name.removesuffix('_f32')}" if name in ARITHMETIC + FUNCTIONS else name


LIBRARY.repops_kernel.restype = ctypes.c_void_p
LIBRARY.repops_fused.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_int]
LIBRARY.repops_adam.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_int]


def kernel(name: str, isa: int) -> tuple[int, int]:
    """Return the kind and the address of a kernel over one run of elements. Raise NotFusibleError."""
    kind = ctypes.c_int64()
    address = LIBRARY.repops_kernel(name.encode(), isa, ctypes.byref(kind))
    if address is None:
        raise NotFusibleError("no such kernel", name=name)
    return kind.value, address


class InDoubt(ArithmeticError):
    """A function's value is too near to a midpoint of the grid; the results are unusable."""


class Fused:
    """An expression as one kernel, for inputs with these strides, rounded to `bits` bits, in the mode `exact` or not
    (see Schedule and FusionPlan). Raises NotFusibleError."""

    def __init__(
        self,
        expression: Expression,
        strides: Sequence[Shape | None] = (),
        bits: int = MAX_BITS,
        exact: bool = False,
    ):
        self.expression = expression
        self._strides = strides
        self._bits = bits
        self._exact = exact
        distinct = list(dict.fromkeys(expression.outputs))
        self.outputs = cpu.output_layout([expression.spec(number) for number in distinct])
        self._order = [distinct.index(number) for number in expression.outputs]
        self._pack = struct.Struct(f"{len(expression.inputs) + len(distinct)}P").pack
        self._plans: dict[int, tuple[FusionPlan, int]] = {}
        self._plan(cpu.get_isa())  # raises if the expression cannot be fused

    def _plan(self, isa: int) -> tuple[FusionPlan, int]:
        """Return the plan, which keeps its words alive, and the address of these words."""
        if isa not in self._plans:
            plan = FusionPlan(self.expression, isa, self._strides, self._bits, self._exact)
            self._plans[isa] = plan, plan.words.ctypes.data
        return self._plans[isa]

    def __call__(
        self,
        inputs: Sequence[Array],
        threads: int | None = None,
        isa: int | None = None,
        out: Sequence[Array] | None = None,
    ) -> list[Array]:
        """Apply the kernel to arrays of exactly the specs that it was made for.

        `out` has one array for each output. It may be an input that nothing reads after the output is written: an
        optimizer's parameters, say. Raise an OpError for anything else, InDoubt, or MemoryError.
        """
        name, names = self.expression.name, self.expression.names
        if len(inputs) != len(names):
            raise ArityError(f"{name}: takes the inputs ({' '.join(names)})", got=len(inputs))
        for array, spec, argument in zip(inputs, self.expression.inputs, names, strict=True):
            if spec_of(array, f"{name}: {argument}") != spec:
                raise ShapeError(
                    f"{name}: {argument} is not what the expression was made for",
                    got=(str(array.dtype), array.shape),
                    expected=(spec[0].name, spec[1]),
                )
        return self.run(inputs, threads, isa, out)

    def run(
        self,
        inputs: Sequence[Array],
        threads: int | None = None,
        isa: int | None = None,
        out: Sequence[Array] | None = None,
    ) -> list[Array]:
        """Apply the kernel to inputs that are known to have the right specs."""
        isa = cpu.get_isa() if isa is None else isa
        plan, address = self._plan(isa)
        if out is None:
            outputs: Sequence[Array] = [allocate(*layout) for layout in self.outputs]
        else:
            self._check_out(plan, inputs, out)
            outputs = out
        data = self._pack(*map(address_of, inputs), *map(address_of, outputs))
        failed = self._launch(address, data, threads or cpu.get_num_threads(), isa)
        if failed == IN_DOUBT:
            raise InDoubt(f"{self.expression.name}: a value is too near to a midpoint of grid({self._bits})")
        if failed:
            raise MemoryError(f"{self.expression.name}: no memory for the tiles")
        return [outputs[i] for i in self._order]

    def _launch(self, address: int, data: bytes, threads: int, isa: int) -> int:
        return int(LIBRARY.repops_fused(address, data, threads, isa))

    def bind(self, addresses: Sequence[int]) -> Bound:
        """Bind to memory of inputs and distinct outputs. SAFETY: the caller guarantees valid addresses."""
        plan, words = self._plan(cpu.get_isa())
        return Bound(LIBRARY.repops_fused, words, self._pack(*addresses), plan)

    @property
    def shareable(self) -> set[tuple[int, int]]:
        """Pairs (input, output) that may be the same memory."""
        return self._plan(cpu.get_isa())[0].shareable

    @property
    def kept_bytes(self) -> int:
        """Working memory of a thread for the values of a row that later phases need: `frame_make` of fused.c."""
        plan = self._plan(cpu.get_isa())[0]
        return plan.kept * 8 * plan.geometry.n

    def _check_out(self, plan: FusionPlan, inputs: Sequence[Array], out: Sequence[Array]) -> None:
        name, names = self.expression.name, self.expression.names
        if len(self._order) != len(self.outputs):
            raise ArityError(f"{name}: two outputs are one value, so `out` cannot be given")
        check_out(name, out, self.outputs)
        check_overlap(name, list(zip(names, inputs, strict=True)), out, plan.shareable)


class FusedAdam(Fused):
    """The composite `adam` of arrays of one shape, which has a loop of its own (kernels/csrc/elementwise/adam.c)."""

    def __init__(
        self, expression: Expression, betas: Sequence[float], eps: float, decay: float, decoupled: bool
    ):
        super().__init__(expression)
        mode = 0 if not decay else 2 if decoupled else 1
        n = math.prod(expression.inputs[0][1])
        self._options = struct.pack("qq4f", n, mode, *betas, eps, decay)

    @staticmethod
    def fits(function: Callable[..., Any], inputs: Sequence[Spec]) -> bool:
        return function is adam and len(set(inputs[:4])) == 1 and inputs[4:] == ((F32, ()), (F32, ()))

    def _launch(self, _address: int, data: bytes, threads: int, isa: int) -> int:
        return int(LIBRARY.repops_adam(self._options, data, threads, isa))

    def bind(self, addresses: Sequence[int]) -> Bound:
        return Bound(LIBRARY.repops_adam, self._options, self._pack(*addresses), self)


def _fuse(expression: Expression) -> Fused | None:
    try:
        return Fused(expression)
    except NotFusibleError:
        return None


@lru_cache(maxsize=4096)
def _compiled(
    function: Callable[..., Any], inputs: tuple[Spec, ...], options: tuple[tuple[str, Any], ...]
) -> tuple[Expression, Fused | Segments]:
    """Return the expression, and either one kernel for it or its segments."""
    expression = record(function, inputs, **dict(options))
    if FusedAdam.fits(function, inputs) and 0 not in inputs[0][1]:
        return expression, FusedAdam(expression, **dict(options))
    return expression, _fuse(expression) or Segments(expression, _run_of, cpu.execute)


def _run_of(expression: Expression) -> Callable[[Sequence[Array]], list[Array]] | None:
    kernel = _fuse(expression)
    return kernel.run if kernel else None


def fused(function: Callable[..., Any], inputs: Iterable[Spec], **options: Any) -> Fused | None:
    """Return a composite for these inputs as one kernel, or None if it is not a single pass."""
    _, kernel = _compiled(function, tuple(inputs), tuple(options.items()))
    return kernel if isinstance(kernel, Fused) else None


@lru_cache(maxsize=4096)
def _arguments(function: Callable[..., Any], count: int) -> tuple[str, ...]:
    return tuple(f"{function.__name__}: {name}" for name in argument_names(function, count))


def apply(
    function: Callable[..., Any], *inputs: Array, out: Sequence[Array] | None = None, **options: Any
) -> list[Array]:
    """Return the outputs of a composite on the CPU: fused if it is a single pass, else in as few passes as possible.

    `out` is as for Fused. Raise OpError, which names the argument, or MemoryError.
    """
    specs = tuple(map(spec_of, inputs, _arguments(function, len(inputs))))
    expression, kernel = _compiled(function, specs, tuple(options.items()))
    if isinstance(kernel, Fused):
        return kernel.run(inputs, out=out)
    results = kernel(inputs)
    if out is None:
        return results
    check_out(expression.name, out, cpu.output_layout([expression.spec(i) for i in expression.outputs]))
    check_overlap(expression.name, (), out)
    # NOTE: a result may be an input, or a view of one, and an output may be where that input is.
    results = [x.copy() if any(np.may_share_memory(x, array) for array in out) else x for x in results]
    for array, result in zip(out, results, strict=True):
        np.copyto(array, result)
    return list(out)
