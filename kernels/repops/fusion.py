"""One kernel for a whole expression: the plan that kernels/csrc/fused.c carries out.

What can be fused: elementwise operators, `where`, `cast`, scalar constants, and `sum` or `amax` over the last
dimension with keepdim. All values broadcast to one shape, the domain, whose last dimension is the row; a value has
the row's length there, or 1.

An operator that uses a reduction's result runs in a later phase than the reduction, and a phase goes over the row
once. So what a later phase needs of an earlier one is kept for the whole row; everything else lives in a tile.
"""

from __future__ import annotations

import ctypes
import math
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import Any

import numpy as np

from . import cpu
from .composites import adam
from .expression import Expression, argument_names, live, record
from .library import LIBRARY
from .memory import address_of, allocate, check_out, check_overlap
from .opset import F32, ITEM_SIZE, OPS, ArityError, OpError, Shape, ShapeError, Spec, broadcast
from .segments import Segments
from .tensors import Array, spec_of

MAX_VALUES = 256  # of fused.c
GRAIN = 65536  # elements times instructions, below which a second thread costs more than it gives
REDUCTIONS = ("sum", "amax")
ELEMENTWISE = frozenset(op.name for op in OPS if op.id < 40)


class NotFusibleError(OpError):
    """This expression is no single pass over rows; its operators can be applied one by one."""


class Place(IntEnum):
    """Where a value lives: `enum place` of fused.c."""

    INPUT = 0
    OUTPUT = 1
    TEMPORARY = 2  # a tile, free again after its last use
    KEPT = 3  # a whole row
    ITEM = 4  # one item a row


@dataclass
class Value:
    """A value of the expression as the plan sees it. `phase` is the first in which it can be used."""

    spec: Spec
    varies: bool  # along the row
    phase: int
    place: Place
    index: int = -1


@dataclass(frozen=True)
class Geometry:
    """Rows of `n` elements over outer dimensions; `strides[i]` are input i's over these, in elements."""

    outer: Shape
    n: int
    strides: tuple[tuple[int, ...], ...]
    varies: tuple[bool, ...]
    """Whether an input has stride 1 along the row. INVARIANT: otherwise it has stride 0 there."""


def geometry(domain: Shape, shapes: Sequence[Shape], keep_row: bool) -> Geometry:
    """Merge the dimensions over which every input moves evenly. With `keep_row` the last one stays as it is."""
    strides = []
    for shape in shapes:
        step, own = 1, []
        for dim in reversed((1,) * (len(domain) - len(shape)) + shape):
            own.append(0 if dim == 1 else step)
            step *= dim
        strides.append(own)  # innermost first
    merged: list[tuple[int, list[int]]] = []  # (size, stride of each input)
    for d, size in enumerate(reversed(domain)):
        column = [own[d] for own in strides]
        if size == 1 and (d or not keep_row):
            continue
        if merged and not (keep_row and len(merged) == 1):
            inner, steps = merged[-1]
            if all(outer == step * inner for outer, step in zip(column, steps, strict=True)):
                merged[-1] = inner * size, steps
                continue
        merged.append((size, column))
    (n, row), *rest = merged or [(1, [0] * len(shapes))]
    rest.reverse()
    return Geometry(
        tuple(size for size, _ in rest),
        n,
        tuple(tuple(column[i] for _, column in rest) for i in range(len(shapes))),
        tuple(step != 0 for step in row),
    )


@dataclass
class _Instruction:
    name: str  # of the kernel
    result: int
    operands: tuple[int, ...]
    phase: int
    varies: bool
    """Done for each tile, not once a row."""
    reduces: bool = False


class Plan:
    """The words of a fused program for one instruction set. Raises NotFusibleError."""

    def __init__(self, expression: Expression, isa: int):
        self.expression = expression
        self._nodes = live(expression)
        reduces = any(node.op in REDUCTIONS for _, node in self._nodes)
        shapes = [expression.spec(i)[1] for i in range(len(expression.inputs))]
        try:
            self.domain = broadcast("fusion", *shapes, *(node.spec[1] for _, node in self._nodes), ())
        except ShapeError as error:
            raise NotFusibleError("values do not broadcast to one shape") from error
        if 0 in self.domain or (reduces and self.domain[-1:] in ((), (1,))):
            raise NotFusibleError("nothing to go over", domain=self.domain)
        self.geometry = geometry(self.domain, shapes, keep_row=reduces)
        self._constants: list[tuple[int, int]] = []
        self._values = {
            i: Value(spec, self.geometry.varies[i], 0, Place.INPUT, i)
            for i, spec in enumerate(expression.inputs)
        }
        self._code: list[_Instruction] = []
        self._readers = Counter([*expression.outputs, *(i for _, node in self._nodes for i in node.inputs)])
        for number, node in self._nodes:
            self._add(number, node)
        if len(self._values) > MAX_VALUES:
            raise NotFusibleError(f"more than {MAX_VALUES} values", values=len(self._values))
        self._place_outputs()
        self._place_rest()
        self.shareable = self._shareable()
        self.words = self._encode(isa)

    def _add(self, number: int, node: Any) -> None:
        operands = [self._values[i] for i in node.inputs]
        if node.op == "full" and node.spec[1] == ():
            self._values[number] = Value(node.spec, False, 0, Place.ITEM, len(self._constants))
            self._constants.append((len(self._constants), dict(node.attrs)["bits"]))
            return
        phase = max((operand.phase for operand in operands), default=0)
        varies = any(operand.varies for operand in operands)
        dtypes = [operand.spec[0].name.lower() for operand in operands]
        if node.op in REDUCTIONS:
            (shape,), attrs = [operand.spec[1] for operand in operands], dict(node.attrs)
            if attrs != {"dims": (len(shape) - 1,), "keepdim": 1} or not varies:
                raise NotFusibleError(f"{node.op}: not over the row with keepdim", shape=shape, **attrs)
            self._code.append(_Instruction(f"{node.op}_{dtypes[0]}", number, node.inputs, phase, True, True))
            self._values[number] = Value(node.spec, False, phase + 1, Place.ITEM)
            return
        if node.op not in ELEMENTWISE:
            raise NotFusibleError(f"{node.op} is not elementwise")
        if node.op == "where":
            name = f"where_{ITEM_SIZE[node.spec[0]]}"
        else:
            name = f"{node.op}_{dtypes[0]}" + (f"_{node.spec[0].name.lower()}" if node.op == "cast" else "")
        inputs = node.inputs
        if node.op == "exp" and self._readers[inputs[0]] == 1 and self._code[-1:]:
            # The differences of a softmax need not be stored: exp(a - b) is one kernel.
            before = self._code[-1]
            if before.result == inputs[0] and before.name == "sub_f32":
                name, inputs = "exp_sub_f32", before.operands
                self._code.pop()
                del self._values[before.result]
        self._code.append(_Instruction(name, number, inputs, phase, varies))
        self._values[number] = Value(node.spec, varies, phase, Place.TEMPORARY if varies else Place.ITEM)

    def _place_outputs(self) -> None:
        row = self.domain if self.geometry.n == math.prod(self.domain[-1:]) else None
        for index, number in enumerate(dict.fromkeys(self.expression.outputs)):
            value = self._values[number]
            whole = value.spec[1] == self.domain
            item_a_row = row is not None and value.spec[1] == (*self.domain[:-1], 1) and not value.varies
            if value.place == Place.INPUT or any(number == n for n, node in self._nodes if node.op == "full"):
                raise NotFusibleError("an output is an input or a constant")
            if not (whole and (value.varies or self.geometry.n == 1)) and not item_a_row:
                raise NotFusibleError("an output has another shape", shape=value.spec[1], domain=self.domain)
            value.place, value.index = Place.OUTPUT, index

    def _place_rest(self) -> None:
        """Items, rows that a later phase needs, and tiles, which are used again after their last reader."""
        last: dict[int, int] = {}
        order = sorted(range(len(self._code)), key=lambda i: (self._code[i].phase, self._code[i].varies))
        self._code = [self._code[i] for i in order]
        for at, instruction in enumerate(self._code):
            for operand in instruction.operands:
                last[operand] = at
                value = self._values[operand]
                if value.place == Place.TEMPORARY and instruction.phase > value.phase:
                    value.place = Place.KEPT
        self._kept, self._items, free, self._tiles = 0, len(self._constants), [], 0
        for at, instruction in enumerate(self._code):
            value = self._values[instruction.result]
            if value.place == Place.ITEM:
                value.index, self._items = self._items, self._items + 1
            elif value.place == Place.KEPT:
                value.index, self._kept = self._kept, self._kept + 1
            elif value.place == Place.TEMPORARY:
                if not free:
                    free.append(self._tiles)
                    self._tiles += 1
                value.index = free.pop()
            # INVARIANT: a kernel never writes the tile that it reads, so operands are freed after the result is placed.
            done = {i for i in (*instruction.operands, instruction.result) if last.get(i, at) == at}
            free += [self._values[i].index for i in done if self._values[i].place == Place.TEMPORARY]

    def _shareable(self) -> set[tuple[int, int]]:
        """(input, output): same elements, and none of the input is read after the output is written."""
        pairs = set()
        for o, target in enumerate(dict.fromkeys(self.expression.outputs)):
            if not self._values[target].varies and math.prod(self.domain) != 1:
                continue  # one item for many elements
            written = next(at for at, done in enumerate(self._code) if done.result == target)
            later = {number for done in self._code[written + 1 :] for number in done.operands}
            spec = self.expression.spec(target)
            pairs |= {
                (i, o) for i, other in enumerate(self.expression.inputs) if other == spec and i not in later
            }
        return pairs

    def _encode(self, isa: int) -> Array:
        at = {number: place for place, number in enumerate(self._values)}
        phases, code = [], []
        for p in range(1 + max((i.phase for i in self._code), default=0)):
            begin = sum(i.phase < p for i in self._code)
            tiles = begin + sum(i.phase == p and not i.varies for i in self._code)
            phases.append((begin, tiles, sum(i.phase <= p for i in self._code)))
        for instruction in self._code:
            kind, address = kernel(instruction.name, isa)
            operands = [at[i] for i in instruction.operands]
            code.append((kind, address, at[instruction.result], *(operands + operands[-1:] * 2)[:3]))
        g, reductions = self.geometry, sum(i.reduces for i in self._code)
        words = [
            *(len(g.outer), g.n, len(self.expression.inputs), len(set(self.expression.outputs))),
            *(self._tiles, self._kept, self._items, len(self._constants), len(self._values), len(phases)),
            *(reductions, GRAIN // max(len(self._code), 1) + 1, *g.outer),
            *(stride for strides in g.strides for stride in strides),
            *(word for constant in self._constants for word in constant),
        ]
        for value in self._values.values():
            words += [value.place, value.index, ITEM_SIZE[value.spec[0]], value.varies]
        for row in (*phases, *code):
            words += row
        return np.array(words, dtype=np.uint64)


LIBRARY.repops_kernel.restype = ctypes.c_void_p
LIBRARY.repops_fused.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_int]
LIBRARY.repops_adam.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_int]


def kernel(name: str, isa: int) -> tuple[int, int]:
    """The kind and the address of a kernel over one run of elements."""
    kind = ctypes.c_int64()
    address = LIBRARY.repops_kernel(name.encode(), isa, ctypes.byref(kind))
    if address is None:
        raise NotFusibleError("no such kernel", name=name)
    return kind.value, address


class Fused:
    """An expression as one kernel. Raises NotFusibleError."""

    def __init__(self, expression: Expression):
        self.expression = expression
        distinct = list(dict.fromkeys(expression.outputs))
        self.outputs = cpu.output_layout([expression.spec(number) for number in distinct])
        self._order = [distinct.index(number) for number in expression.outputs]
        self._pack = struct.Struct(f"{len(expression.inputs) + len(distinct)}P").pack
        self._plans: dict[int, tuple[Plan, int]] = {}
        self._plan(cpu.get_isa())  # refuses here what cannot be fused

    def _plan(self, isa: int) -> tuple[Plan, int]:
        """The plan, which keeps its words alive, and their address."""
        if isa not in self._plans:
            plan = Plan(self.expression, isa)
            self._plans[isa] = plan, plan.words.ctypes.data
        return self._plans[isa]

    def __call__(
        self,
        inputs: Sequence[Array],
        threads: int | None = None,
        isa: int | None = None,
        out: Sequence[Array] | None = None,
    ) -> list[Array]:
        """Apply it to arrays of exactly the specs that it was made for.

        `out` has an array for each output. One of them may be an input, if nothing reads that input once the output is
        written: an optimizer's parameters, say. Otherwise an overlap is an AliasError.
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
        """As a call, for inputs that are known to have the specs."""
        isa = cpu.get_isa() if isa is None else isa
        plan, address = self._plan(isa)
        if out is None:
            outputs: Sequence[Array] = [allocate(*layout) for layout in self.outputs]
        else:
            self._check_out(plan, inputs, out)
            outputs = out
        data = self._pack(*map(address_of, inputs), *map(address_of, outputs))
        if self._launch(address, data, threads or cpu.get_num_threads(), isa):
            raise MemoryError(f"{self.expression.name}: no memory for the tiles")
        return [outputs[i] for i in self._order]

    def _launch(self, address: int, data: bytes, threads: int, isa: int) -> int:
        return int(LIBRARY.repops_fused(address, data, threads, isa))

    def _check_out(self, plan: Plan, inputs: Sequence[Array], out: Sequence[Array]) -> None:
        name, names = self.expression.name, self.expression.names
        if len(self._order) != len(self.outputs):
            raise ArityError(f"{name}: two outputs are one value, so `out` cannot be given")
        check_out(name, out, self.outputs)
        check_overlap(name, list(zip(names, inputs, strict=True)), out, plan.shareable)


class FusedAdam(Fused):
    """The composite `adam` of arrays of one shape, for which there is a loop of its own (kernels/csrc/adam.c)."""

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


def _fuse(expression: Expression) -> Fused | None:
    try:
        return Fused(expression)
    except NotFusibleError:
        return None


@lru_cache(maxsize=4096)
def _compiled(
    function: Callable[..., Any], inputs: tuple[Spec, ...], options: tuple[tuple[str, Any], ...]
) -> tuple[Expression, Fused | None, Segments | None]:
    """The expression, and as one kernel or else in segments."""
    expression = record(function, inputs, **dict(options))
    kernel = _fuse(expression)
    return expression, kernel, None if kernel else Segments(expression, _run_of, cpu.execute)


def _run_of(expression: Expression) -> Callable[[Sequence[Array]], list[Array]] | None:
    kernel = _fuse(expression)
    return kernel.run if kernel else None


def fused(function: Callable[..., Any], inputs: Iterable[Spec], **options: Any) -> Fused | None:
    """A composite for these inputs as one kernel, or None if it is no single pass."""
    return _compiled(function, tuple(inputs), tuple(options.items()))[1]


@lru_cache(maxsize=4096)
def _arguments(function: Callable[..., Any], count: int) -> tuple[str, ...]:
    return tuple(f"{function.__name__}: {name}" for name in argument_names(function, count))


def apply(
    function: Callable[..., Any], *inputs: Array, out: Sequence[Array] | None = None, **options: Any
) -> list[Array]:
    """The outputs of a composite on the cpu: fused if it is a single pass, else as few passes as it takes.

    `out` is as for Fused. Raises an OpError that names the argument.
    """
    specs = tuple(map(spec_of, inputs, _arguments(function, len(inputs))))
    expression, kernel, segments = _compiled(function, specs, tuple(options.items()))
    if kernel:
        return kernel.run(inputs, out=out)
    results = segments(inputs)
    if out is None:
        return results
    check_out(expression.name, out, cpu.output_layout([expression.spec(i) for i in expression.outputs]))
    check_overlap(expression.name, (), out)
    for array, result in zip(out, results, strict=True):
        np.copyto(array, result)
    return list(out)
