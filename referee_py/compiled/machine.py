"""The machine that runs a compiled step: its kernels, and the memory that they are bound to."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from repops.f64.rounding import MAX_BITS
from repops.fuse.expression import Expression
from repops.fuse.fusion import Fused
from repops.fuse.phases import NotFusibleError
from repops.host import cpu
from repops.host.cpu import Bound
from repops.host.memory import address_of, allocate
from repops.host.strided import Matrices, copy, product
from repops.opset import F32, ITEM_SIZE, Attrs, Shape, Spec
from repops.sums import SumMode
from repops.tensors import NUMPY_DTYPE

from .. import pauses
from ..commit.tensor import DATA, Array, tensor_hash, typed_hash
from .graph import GraphNode
from .unfused import Unfused

Buffer = Any
"""Contiguous memory with a dtype and a shape: a numpy array, or a torch tensor on a GPU."""
Call = Any
"""A `Bound` kernel, or a function without arguments."""
Bind = Callable[[Sequence[int]], Call]
"""Makes a call from the addresses of its inputs, followed by those of its outputs."""


class Matmul(NamedTuple):
    batch: Shape
    m: int
    k: int
    n: int
    operands: list[Matrices]


ROW_BYTES = 1 << 24
"""Maximum bytes of a row that a fused kernel keeps for a later pass over it, in each thread."""


class Machine(Protocol):
    """All machines give the same bits."""

    widens: bool = False
    """True if a product of f32 may read operands of bf16, which it widens."""

    def fused(
        self, expression: Expression, strides: Sequence[Shape], unfused: Unfused
    ) -> tuple[Bind, set[tuple[int, int]]]:
        """Return one kernel for an expression, and the pairs (input, output) that may share memory.

        `unfused` has the same operators one by one. Raises NotFusibleError.
        """
        ...

    def is_alone(self, node: GraphNode, inputs: Sequence[Spec]) -> bool:  # noqa: ARG002
        """Return whether a node with these inputs is a call of its own."""
        return False

    def is_logged(self, node: GraphNode, inputs: Sequence[Spec]) -> bool:  # noqa: ARG002
        """Return whether the node has a log; if so, it is computed in every step, once."""
        return False

    def operator(self, node: GraphNode, inputs: Sequence[Spec]) -> Bind: ...

    def product(self, node: GraphNode, shape: Matmul) -> Bind | None:
        """Return a matrix product of views, or None if this machine wants copies."""
        ...

    def copy(self, shape: Shape, strides: Shape, item_size: int) -> Bind: ...

    def sequence(self, calls: Sequence[Call]) -> Callable[[], None]:
        """Return a function that runs the calls in order."""
        ...

    def begin(self, step: int) -> None:  # noqa: ARG002
        """Prepare for the calls of a step; `end` follows them."""
        return

    def end(self) -> None:
        """Finish a step."""
        return

    def new(self, spec: Spec) -> Buffer: ...

    def part(self, arena: Buffer, offset: int, spec: Spec) -> Buffer:
        """Return a piece of a buffer of bytes."""
        ...

    def address(self, buffer: Buffer) -> int: ...

    def write(self, buffer: Buffer, content: Array | Buffer) -> None:
        """Overwrite a buffer with an array, or with another buffer."""
        ...

    def read(self, buffer: Buffer) -> Array:
        """Return the content as an array, which may be the memory itself."""
        ...

    def copied(self, buffer: Buffer) -> Array:
        """Return the content as an array in memory of its own."""
        ...

    def place(self, array: Array) -> Buffer:
        """Put an array where kernels can read it; may return the array itself."""
        ...

    def hash(self, buffer: Buffer) -> bytes:
        """Return the TENSOR hash of a buffer's content."""
        ...

    def execute(self, name: str, inputs: Sequence[Buffer], attrs: Attrs) -> list[Buffer]:
        """Apply one operator immediately."""
        ...


class Cpu(Machine):
    """The C kernels, on numpy arrays."""

    bits = MAX_BITS
    """Grid that fused kernels round to; with all bits they do not round."""

    def __init__(self, sums: SumMode = SumMode.REPOPS_F32) -> None:
        self._sums = sums
        self.widens = sums is SumMode.REPOPS_F32

    def fused(
        self,
        expression: Expression,
        strides: Sequence[Shape],
        unfused: Unfused,  # noqa: ARG002
    ) -> tuple[Bind, set[tuple[int, int]]]:
        kernel = self.kernel(expression, strides)
        return kernel.bind, kernel.shareable

    def kernel(self, expression: Expression, strides: Sequence[Shape]) -> Fused:
        """Compile an expression. Raises NotFusibleError, also for a kernel that keeps too much of a row."""
        kernel = Fused(expression, strides, self.bits, self._sums is SumMode.EXACT)
        # SAFETY: one by one, operators release such values; a machine with enough memory for that may lack it here.
        if kernel.kept_bytes > ROW_BYTES:
            raise NotFusibleError("too much of a row is kept", nbytes=kernel.kept_bytes, limit=ROW_BYTES)
        return kernel

    def operator(self, node: GraphNode, inputs: Sequence[Spec]) -> Bind:
        return lambda addresses: cpu.bind(node.op, inputs, node.attrs, addresses, self._sums)

    def product(self, node: GraphNode, shape: Matmul) -> Bind | None:  # noqa: ARG002
        return lambda addresses: product(*shape, addresses, self._sums)

    def copy(self, shape: Shape, strides: Shape, item_size: int) -> Bind:
        return lambda addresses: copy(shape, strides, item_size, addresses)

    def sequence(self, calls: Sequence[Call]) -> Callable[[], None]:
        def run() -> None:
            threads, isa, act = cpu.get_num_threads(), cpu.get_isa(), pauses.asked()
            if act is not None:
                act()
            for call in calls:
                if not isinstance(call, Bound):
                    call()
                elif call.kernel(call.signature, call.data, threads, isa):
                    raise MemoryError("no memory for a kernel's working space")
                if act is not None:
                    act()

        return run

    def new(self, spec: Spec) -> Array:
        dtype, shape = spec
        return allocate(shape, NUMPY_DTYPE[dtype], math.prod(shape) * ITEM_SIZE[dtype])

    def part(self, arena: Array, offset: int, spec: Spec) -> Array:
        dtype, shape = spec
        if 0 in shape:
            return np.empty(shape, NUMPY_DTYPE[dtype])
        return np.ndarray(shape, NUMPY_DTYPE[dtype], arena, offset)

    def address(self, buffer: Array) -> int:
        return address_of(buffer)

    def write(self, buffer: Array, content: Array) -> None:
        np.copyto(buffer, content)

    def read(self, buffer: Array) -> Array:
        return buffer

    def copied(self, buffer: Array) -> Array:
        made = allocate(buffer.shape, buffer.dtype, buffer.nbytes)
        np.copyto(made, buffer)
        return made

    def place(self, array: Array) -> Array:
        return array

    def hash(self, buffer: Array) -> bytes:
        return tensor_hash(buffer)

    def execute(self, name: str, inputs: Sequence[Array], attrs: Attrs) -> list[Array]:
        return cpu.execute(name, inputs, attrs, sums=self._sums)


class Cuda(Machine):
    """The CUDA kernels, on torch tensors of the current GPU, in a mode; a step becomes a CUDA graph.

    Raises CudaUnavailable.
    """

    def __init__(self, graph: bool = True, sums: SumMode = SumMode.REPOPS_F32) -> None:
        from repops.cuda import executor

        self._executor = executor
        self._gpu = executor.current()
        self._graph = graph
        self._sums = sums

    def is_alone(self, node: GraphNode, inputs: Sequence[Spec]) -> bool:
        # NOTE: its kernels of the mode exact hold no long sum of f32, so that what is around one can be a kernel.
        from repops.cuda.fusion import KEPT_ROW

        dtype, shape = inputs[0] if node.op == "sum" else (None, ())
        return (
            self._sums is SumMode.EXACT
            and dtype == F32
            and math.prod(shape[d] for d in node.attrs["dims"]) > KEPT_ROW
        )

    def fused(
        self,
        expression: Expression,
        strides: Sequence[Shape],
        unfused: Unfused,  # noqa: ARG002
    ) -> tuple[Bind, set[tuple[int, int]]]:
        from repops.cuda.fusion import FusedKernel

        kernel = FusedKernel(expression, strides, self._sums is SumMode.EXACT)
        self._gpu.load_text(kernel.name, kernel.source)
        return self._bind(kernel.plan(self._gpu.target)), kernel.shareable

    def operator(self, node: GraphNode, inputs: Sequence[Spec]) -> Bind:
        from repops.cuda.bound import BoundPlan
        from repops.cuda.plans import plan_for
        from repops.tensors import freeze

        attrs = freeze(node.attrs, node.op)

        def bind(addresses: Sequence[int]) -> BoundPlan:
            target = self._gpu.target.at(addresses)
            return BoundPlan(plan_for(node.op, tuple(inputs), attrs, target, self._sums), tuple(addresses))

        return bind

    def product(self, node: GraphNode, shape: Matmul) -> Bind | None:  # noqa: ARG002
        return None

    def copy(self, shape: Shape, strides: Shape, item_size: int) -> Bind:
        from repops.cuda.layout import copy_plan

        return self._bind(copy_plan(shape, strides, item_size, self._gpu.target))

    def _bind(self, plan: Any) -> Bind:
        from repops.cuda.bound import BoundPlan

        return lambda addresses: BoundPlan(plan, tuple(addresses))

    def sequence(self, calls: Sequence[Call]) -> Callable[[], None]:
        from repops.cuda.bound import CallSequence

        return CallSequence(self._gpu, calls, self._graph).run

    def new(self, spec: Spec) -> Buffer:
        return self._executor.empty(self._gpu, *spec)

    def part(self, arena: Buffer, offset: int, spec: Spec) -> Buffer:
        dtype, shape = spec
        piece = arena[offset : offset + math.prod(shape) * ITEM_SIZE[dtype]]
        return self._executor.viewed(piece, dtype, shape)

    def address(self, buffer: Buffer) -> int:
        return int(buffer.data_ptr())

    def write(self, buffer: Buffer, content: Array | Buffer) -> None:
        self._executor.write(buffer, content)

    def read(self, buffer: Buffer) -> Array:
        return self._executor.get(buffer)

    copied = read

    def place(self, array: Array) -> Buffer:
        return self._executor.put(array)

    def hash(self, buffer: Buffer) -> bytes:
        spec = self._executor.spec_of(buffer, "hash: tensor")
        root = self._executor.hash_tree(buffer, DATA)[-1]
        return typed_hash(*spec, self._executor.get(root).tobytes())

    def execute(self, name: str, inputs: Sequence[Buffer], attrs: Attrs) -> list[Buffer]:
        return self._executor.execute(name, inputs, attrs, sums=self._sums)
