"""A fused expression as one CUDA kernel: writes its source, which NVRTC compiles and the cache keeps like any other.

`fuse.phases` decides which expressions can be fused and in which phase an operator runs. In a pointwise expression one
thread computes an element in registers, from its loads to its stores. With reductions a warp computes a row and goes
over it once for each phase. It keeps a value that a later phase needs in registers if the row is short; otherwise it
recomputes the value from the inputs, which gives the same bits. The warp's lanes are the lanes of docs/opset.md.

A row of several blocks has up to WARPS warps, each with some of the blocks, whose results are joined in their order.

In the mode exact a sum of f32 is a compensated one. If that is not exact, the warp goes over the row again, recomputes
the terms, and adds them in digits.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from ..fuse.expression import Expression
from ..fuse.phases import NotFusibleError, Place, Schedule
from ..opset import F32, ITEM_SIZE, MAX_RANK, Dtype, Shape, ShapeError
from . import executor
from .plan import LaunchPlan, Ref, Target, Word, ceil_div, divisor, elements, grid, launch
from .pointwise import ELEMENTARY
from .sources import expanded

THREADS = 128
BLOCK, LANES = 4096, 32
WARPS = 16  # most for a row
RESULTS = 48 << 10  # bytes of the blocks' results of a row
KEPT_ROW = 1024  # longest row that is kept in registers, or has an exact sum
C_TYPE = {Dtype.F32: "float", Dtype.I64: "i64", Dtype.BOOL: "u8", Dtype.BF16: "bf16"}
REDUCTION = {"sum": "Sum", "amax": "Largest"}


class FusedKernel:
    """The source of an expression's kernel and its plan, for inputs with these strides. Raises NotFusibleError.

    In the mode exact long sums of f32 are not fused: by themselves they have more than a warp for a row.
    """

    def __init__(self, expression: Expression, strides: Sequence[Shape | None] = (), exact: bool = False):
        self._exact = exact and any(node.op == "sum" and node.spec[0] == F32 for node in expression.nodes)
        self.expression = expression
        self.outputs = list(dict.fromkeys(expression.outputs))
        schedule = Schedule(expression, strides=strides)
        self._code, self._values, self._shareable = schedule.code, schedule.values, schedule.shareable
        self._geometry = schedule.geometry
        self._reduces = any(instruction.reduces for instruction in self._code)
        if self._reduces and self._geometry.n > BLOCK * BLOCK:
            raise NotFusibleError("rows of more than two levels of blocks", n=self._geometry.n)
        if self._exact and self._geometry.n > KEPT_ROW:
            raise NotFusibleError("long sums of the mode exact", n=self._geometry.n)
        self._blocks = ceil_div(self._geometry.n, BLOCK) if self._reduces else 1
        self._threads = LANES * min(WARPS, self._blocks) if self._blocks > 1 else THREADS
        reductions = [instruction for instruction in self._code if instruction.reduces]
        sizes = [ITEM_SIZE[self._values[instruction.result].spec[0]] for instruction in reductions]
        if self._blocks > 1 and self._blocks * sum(sizes) > RESULTS:
            raise NotFusibleError("long rows with many reductions", n=self._geometry.n)
        self._keeps = self._reduces and self._geometry.n <= KEPT_ROW
        self._plans: dict[Target, LaunchPlan] = {}
        body = self._rows() if self._reduces else self._elements()
        key = hashlib.sha256("\n".join(body).encode()).hexdigest()[:16]
        self.name = f"fused_{key}"
        self._body = body

    @cached_property
    def source(self) -> str:
        """The kernel's source as one self-contained text."""
        inputs, outputs = max(1, len(self.expression.inputs)), len(self.outputs)
        struct = [
            f"struct {self.name}_words {{",
            "    i64 rows;",
            "    Divisor n;",
            f"    Rows<{inputs}> at;",
            f"    const void *in[{inputs}];",
            f"    void *out[{outputs}];",
            "};",
        ]
        resident = max(1, 4 * THREADS // self._threads) if self._reduces else 8
        lines = [*struct, f"KERNEL({self.name}, {self.name}_words, {self._threads}, {resident}) {{"]
        lines += [*["    " + line for line in self._body], "}"]
        common = "exact_fused.cuh" if self._exact else "fused.cuh"
        return expanded(common) + "\n" + "\n".join(lines) + "\n"

    @property
    def shareable(self) -> set[tuple[int, int]]:
        """Pairs (input, output) that may be the same memory. NOTE: later phases of a row read the inputs again."""
        return set() if self._reduces else self._shareable

    def plan(self, target: Target) -> LaunchPlan:
        """Return the plan. Its buffers are the inputs, then the distinct outputs."""
        if target not in self._plans:
            self._plans[target] = self._plan(target)
        return self._plans[target]

    def _plan(self, target: Target) -> LaunchPlan:
        g, count = self._geometry, len(self.expression.inputs)
        gap = [0] * (MAX_RANK - len(g.outer))
        rows = elements(g.outer)
        words: list[Word] = [rows, *divisor(g.n), len(g.outer)]
        for size in (*g.outer, *[1] * len(gap)):
            words += divisor(size)
        for strides in g.strides or ((0,) * len(g.outer),):
            words += [*strides, *gap]
        words += [Ref(i) for i in range(count)] or [0]
        words += [Ref(count + i) for i in range(len(self.outputs))]
        items, per_block = (rows, THREADS // LANES) if self._reduces else (rows * g.n, THREADS)
        blocks = grid(items, per_block if self._blocks == 1 else 1, target, 64)
        return LaunchPlan((launch(f"{self.name}.{self.name}", blocks, self._threads, words),))

    # ------------------------------------------------------------------------------------------------ the body

    def _type(self, number: int) -> str:
        return C_TYPE[self._values[number].spec[0]]

    def _constants(self) -> list[str]:
        first, lines = len(self.expression.inputs), []
        for number, node in enumerate(self.expression.nodes, first):
            if node.op == "full" and number in self._values:
                bits = dict(node.attrs)["bits"]
                value = f"f32_of((int)0x{bits:08X}u)" if node.spec[0] == F32 else f"(i64)0x{bits:X}ull"
                lines.append(f"const {self._type(number)} v{number} = {value};")
        return lines

    def _load(self, number: int) -> str:
        place = f"at[{number}]" + (" + i" if self._geometry.varies[number] else "")
        kind = self._type(number)
        return f"const {kind} v{number} = ((const {kind} *)p.in[{number}])[{place}];"

    def _apply(self, instruction: Any) -> str:
        """Return the C expression of an instruction's operator on v<operand>."""
        name, *_ = instruction.name.split("_")
        a, b, c = ([f"v{i}" for i in instruction.operands] + ["None()"] * 2)[:3]
        source, result = (self._values[i].spec[0] for i in (instruction.operands[0], instruction.result))
        if name == "where":
            return f"{a} ? {b} : {c}"
        if name == "cast" and source == result:
            return a
        prefix = "map_" if name in ELEMENTARY else ""
        return f"{prefix}{instruction.name}_of()({a}, {b}, {c})"

    def _store(self, number: int, place: str) -> str:
        return f"(({self._type(number)} *)p.out[{self.outputs.index(number)}])[{place}] = v{number};"

    def _define(self, instruction: Any) -> str:
        return f"const {self._type(instruction.result)} v{instruction.result} = {self._apply(instruction)};"

    def _elements(self) -> list[str]:
        lines = self._constants()
        lines += ["for (i64 e = global_thread(); e < p.rows * p.n.d; e += global_threads()) {"]
        inner = ["const i64 row = quotient(e, p.n), i = e - row * p.n.d;", *self._offsets()]
        inner += [self._load(i) for i in range(len(self.expression.inputs))]
        for instruction in self._code:
            inner.append(self._define(instruction))
            number = instruction.result
            if number in self.outputs:
                whole = instruction.varies or self._geometry.n == 1
                inner.append(
                    self._store(number, "e") if whole else f"if (i == 0) {self._store(number, 'row')}"
                )
        return [*lines, *["    " + line for line in inner], "}"]

    def _offsets(self) -> list[str]:
        return [f"i64 at[{max(1, len(self.expression.inputs))}];", "offsets_of(p.at, row, at);"]

    def _rows(self) -> list[str]:
        lines = ["const int lane = thread_index() % WARP;", f"constexpr i64 N = {self._geometry.n};"]
        lines += self._constants()
        rows = "for (i64 row = global_thread() / WARP; row < p.rows; row += global_threads() / WARP) {"
        if self._blocks > 1:
            fields = [f"{self._type(i.result)} r{i.result}[{self._blocks}];" for i in self._code if i.reduces]
            lines += ["struct Results {", *["    " + field for field in fields], "};"]
            lines += ["SHARED(Results, results);", "const int warp = thread_index() / WARP;"]
            rows = "for (i64 row = block_index(); row < p.rows; row += grid_blocks()) {"
        lines.append(rows)
        inner = self._offsets()
        inner += [self._load(i) for i in range(len(self.expression.inputs)) if not self._geometry.varies[i]]
        kept = [i for i in self._values if self._keeps and self._values[i].place == Place.KEPT]
        inner += [f"{self._type(i)} k{i}[(N + WARP - 1) / WARP];" for i in kept]
        for phase in range(1 + max(instruction.phase for instruction in self._code)):
            inner += self._phase(phase, kept)
        if self._blocks > 1:
            inner.append("sync_block(); // before the next row's results")
        return [*lines, *["    " + line for line in inner], "}"]

    def _phase(self, phase: int, kept: Sequence[int]) -> list[str]:
        here = [instruction for instruction in self._code if instruction.phase == phase]
        lines = []
        for instruction in here:
            if not instruction.varies:
                lines.append(self._define(instruction))
                if instruction.result in self.outputs:
                    lines.append(f"if ({self._first}) {self._store(instruction.result, 'row')}")
        reductions = [instruction for instruction in here if instruction.reduces]
        for instruction in reductions:
            op = REDUCTION[instruction.name.split("_")[0]]
            kind = self._type(instruction.operands[0])
            reducer = "Total" if self._is_total(instruction) else f"Reducer<{op}, {kind}>"
            lines += [f"{reducer} r{instruction.result};", f"r{instruction.result}.begin();"]
        wanted = [
            i for i in here if i.reduces or (i.varies and (i.result in self.outputs or i.result in kept))
        ]
        if not wanted:
            return lines
        one = self._blocks == 1
        loop = self._loop(phase, wanted, kept)
        ends = [f"r{i.result}.end_block(results.r{i.result}[b]);" for i in reductions]
        if one:
            head = "#pragma unroll" if self._keeps else "#pragma unroll 4"
            lines += [head, "for (int i = lane; i < (int)N; i += WARP) {", *loop, "}"]
        else:
            lines += [
                f"for (i64 b = warp; b < {self._blocks}; b += {self._threads // LANES}) {{",
                f"    const i64 end = min_i64((b + 1) * {BLOCK}, N);",
                "    #pragma unroll 4",
                f"    for (i64 i = b * {BLOCK} + lane; i < end; i += WARP) {{",
                *["    " + line for line in loop],
                "    }",
                *["    " + line for line in ends],
                "}",
            ]
            if reductions:
                lines.append("sync_block();")
        for instruction in reductions:
            number = instruction.result
            how = "of_one_block()" if one else f"of_blocks(results.r{number}, {self._blocks})"
            if self._is_total(instruction):
                lines += self._in_digits(phase, instruction)
            lines.append(f"const {self._type(number)} v{number} = r{number}.{how};")
            if number in self.outputs:
                lines.append(f"if ({self._first}) {self._store(number, 'row')}")
        return lines

    @property
    def _first(self) -> str:
        """Return whether this thread stores the values that a row has once."""
        return "lane == 0" if self._blocks == 1 else "thread_index() == 0"

    def _is_total(self, instruction: Any) -> bool:
        return self._exact and bool(instruction.name == "sum_f32")

    def _in_digits(self, phase: int, instruction: Any) -> list[str]:
        """Return the code that adds a sum's terms again if it is open. NOTE: a loop that is not unrolled would put
        values that are kept in registers into memory, so the terms are recomputed."""
        head = f"if (r{instruction.result}.is_open()) {{"
        loop = ["#pragma unroll 1", "for (int i = lane; i < (int)N; i += WARP) {"]
        add = f"digits.add(v{instruction.operands[0]});"
        inner = ["Digits digits;", "digits.begin();", *loop, *self._loop(phase, [instruction], [], add), "}"]
        return [head, *["    " + line for line in [*inner, f"r{instruction.result}.set(digits);"]], "}"]

    def _loop(self, phase: int, wanted: Sequence[Any], kept: Sequence[int], take: str = "") -> list[str]:
        """Return the code for an element in this phase: loads, earlier phases' values (kept or recomputed), its own.

        `take`: what is done with a term of a reduction, if it is not what its reducer does.
        """
        made = {i.result: i for i in self._code if i.varies and not i.reduces}
        known: set[int] = set()
        lines: list[str] = []

        def need(number: int) -> None:
            value = self._values[number]
            if number in known or not value.varies:
                return
            known.add(number)
            if value.place == Place.INPUT:
                lines.append(self._load(number))
            elif number in kept and made[number].phase < phase:
                lines.append(f"const {self._type(number)} v{number} = k{number}[i / WARP];")
            else:
                for operand in made[number].operands:
                    need(operand)
                lines.append(self._define(made[number]))

        for instruction in wanted:
            number = instruction.result
            if instruction.reduces:
                need(instruction.operands[0])
                lines.append(take or f"r{number}.take(v{instruction.operands[0]});")
                continue
            need(number)
            if number in kept:
                lines.append(f"k{number}[i / WARP] = v{number};")
            if number in self.outputs:
                lines.append(self._store(number, "row * N + i"))
        return ["    " + line for line in lines]


class Fused:
    """An expression on torch's CUDA tensors of exactly the specs that it was made for. Raises NotFusibleError."""

    def __init__(self, expression: Expression, exact: bool = False):
        self.kernel = FusedKernel(expression, exact=exact)
        self._order = [self.kernel.outputs.index(number) for number in expression.outputs]

    def __call__(self, inputs: Sequence[executor.Tensor]) -> list[executor.Tensor]:
        expression = self.kernel.expression
        names = [f"{expression.name}: {name}" for name in expression.names]
        named = list(zip(names, inputs, strict=True))
        found = tuple(executor.spec_of(tensor, what) for what, tensor in named)
        if found != expression.inputs:
            raise ShapeError(
                f"{expression.name}: not what it was made for", got=found, want=expression.inputs
            )
        gpu = executor.same_device(named)
        outputs = [executor.empty(gpu, *expression.spec(number)) for number in self.kernel.outputs]
        gpu.load_text(self.kernel.name, self.kernel.source)
        gpu.run(self.kernel.plan(gpu.target), [tensor.data_ptr() for tensor in (*inputs, *outputs)])
        return [outputs[i] for i in self._order]
