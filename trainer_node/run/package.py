"""A job's package, fetched and checked: its program and every tensor that the program names."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass

import repops
from repops.opset import MAX_RANK

from referee_py.commit.tensor import Array
from referee_py.errors import InvalidProgram
from referee_py.execute.plan import StepPlan
from referee_py.program import MAX_FILE_BYTES, Program, Structure
from referee_py.program.modes import USUAL
from referee_py.program.read import read_program
from referee_py.program.terms import Terms

from ..errors import DiskFull
from ..network.sources import Source
from ..reason import Reason
from ..rounded import UNFOLDED_BYTES
from ..storage.artifacts import Kind, Name
from ..storage.disk import on_disk
from ..storage.store import Store
from .tensors import Takes, Tensors

MAX_HEADER_BYTES = 2 + 8 * MAX_RANK
"""Largest header of a served tensor: dtype, rank and dims."""
MAX_SEARCHES = 1 << 26
"""Limit on the blocks of 256 taps that the gradient of a strided convolution looks through, some 50 ns each."""
MAX_RUN_LEAVES = 1 << 20
"""Limit on the leaves of a run tree at any level: 32 MiB of hashes, served and fetched whole in a dispute."""
LEAF_BYTES = 256
"""Bytes in memory for each leaf of a run tree, while it is made: 64 once it is packed, and before that the hashes."""


MAX_NODES, MAX_TENSORS = 1 << 17, 1 << 16
"""Limits on the nodes of a program, and on its constants and slots: each takes kilobytes once it is read. The largest
captured program so far, a Llama of 8 billion parameters with adapters, has 9,462 nodes."""
NODE_BYTES, OPERAND_BYTES, TENSOR_BYTES = 2048, 256, 512
"""Bytes in memory for each node of a program that a run has, each of its operands, and each constant or slot besides
its numbers: 130,000 products of two took 1,050 each, 10,000 up to 2,500, and 65,000 tensors 300 (CPython 3.11)."""
MAX_PROGRAM_BYTES = 1 << 26
"""Limit on a program's file: it takes some ten times as much once it is read."""
_READING = threading.Lock()
"""SAFETY: programs that strangers serve are read one at a time: none but its own thread counts what one takes."""


@dataclass(frozen=True)
class Package:
    """A program with its tensors, as the on-chain terms name them."""

    terms: Terms
    program: Program
    constants: tuple[Array, ...]
    initial: tuple[Array, ...]


def load_program(source: Source, terms: Terms, file_hash: bytes) -> Program:
    """Fetch the program file of a job, checked against the job's terms on the chain.

    Raises Unavailable if nobody serves it, UnknownVersion for another opset or mode, InvalidEncoding or InvalidProgram
    if the file is not a sound program with the roots of the job: such a job must be refused.
    """
    check_size(terms)
    data = source.blob(file_hash, min(MAX_PROGRAM_BYTES, MAX_FILE_BYTES))
    with _READING:
        program = read_program(data)
    terms.check(program)
    return program


def package_names(program: Program, file_hash: bytes) -> list[Name]:
    """Return the artifacts of a package."""
    tensors = (*program.constants, *program.initial)
    return [Name(Kind.BLOB, file_hash), *(Name(Kind.TENSOR, tensor.hash) for tensor in tensors)]


def fetch(
    source: Source,
    terms: Terms,
    file_hash: bytes,
    max_memory: float,
    fits: Callable[[Program, int], Reason | None] | None = None,
) -> Program:
    """Fetch the whole package into the store, where it stays; nothing but the program is in memory then.

    Raises as :func:`load_program`. ``max_memory`` (bytes) bounds the tensors and one step; a program that needs more is
    refused before its tensors are fetched. ``fits`` is given the program and the bytes that are lacking, and returns
    why they should not be written to the disk; then DiskFull is raised before that.
    """
    check_leaves(terms)
    program = load_program(source, terms, file_hash)
    check_strides(program)
    descriptors = (*program.constants, *program.initial)
    sizes = [descriptor.type.nbytes for descriptor in descriptors]
    needed = memory_needed(program, terms)
    if needed > max_memory:
        raise InvalidProgram(
            f"the program needs {needed} bytes of memory, limits.memory_bytes is {max_memory}; "
            "raise it or leave the job to others"
        )
    names = [Name(Kind.TENSOR, descriptor.hash) for descriptor in descriptors]
    missing = [size for name, size in zip(names, sizes, strict=True) if not source.store.has(name)]
    full = fits(program, sum(on_disk(size) for size in missing)) if fits is not None else None
    if full is not None:
        raise DiskFull(f"the package is not fetched: {full}")
    source.fetch_all(names, max(sizes, default=0) + MAX_HEADER_BYTES)
    return program


def read(store: Store, terms: Terms, file_hash: bytes, tensors: Tensors) -> Package:
    """Read a package that was fetched from the disk into memory; what other jobs have there is shared.

    Raises Unavailable for what the disk has lost, Corrupt for what it has damaged, DiskFailed, and HashMismatch for a
    tensor of another type than the program says.
    """
    check_size(terms)
    program = read_program(store.get_blob(file_hash))
    terms.check(program)
    constants = tensors.read(store, (constant.hash for constant in program.constants))
    initial = tensors.read(store, (slot.hash for slot in program.initial))
    program.check_tensors(constants, initial)
    return Package(terms, program, tuple(constants), tuple(initial))


def load(source: Source, terms: Terms, file_hash: bytes, max_memory: int) -> Package:
    """Fetch a package, and read it into memory. Raises as `fetch` and `read`."""
    fetch(source, terms, file_hash, max_memory)
    return read(source.store, terms, file_hash, Tensors(max_memory))


def takes(program: Program, terms: Terms) -> Takes:
    """Return what a job takes in memory, of what `memory_needed` is the sum."""
    descriptors = (*program.constants, *program.initial)
    tensors = {descriptor.hash: descriptor.type.nbytes for descriptor in descriptors}
    step = memory_needed(program, terms) - sum(descriptor.type.nbytes for descriptor in descriptors)
    return Takes(tensors, step, sum(slot.type.nbytes for slot in program.initial))


def check_strides(program: Program) -> None:
    """Raise InvalidProgram for a convolution whose stride makes its gradient look for taps that are hardly ever there.

    SAFETY: a kernel cannot be interrupted, and such a search has no multiply-adds that the first step would show.
    """
    for number, node in enumerate(program.nodes):
        if node.name != "conv2d_input_grad":
            continue
        size, stride = node.outputs[0].shape[2:], node.attrs["stride"]
        taps = math.prod(program.type_of(node.inputs[1]).shape) // max(1, node.outputs[0].shape[1])
        parts = math.prod(min(step, side) for step, side in zip(stride, size, strict=True))
        if parts * (1 + taps // 256) > MAX_SEARCHES:
            raise InvalidProgram(
                f"node {number} has {parts} positions with taps of their own, of {taps} each to look through: "
                f"their product is limited to {256 * MAX_SEARCHES}; leave the job to others"
            )


def check_size(terms: Terms) -> None:
    """Raise InvalidProgram for a program with more nodes or tensors than are read: on the chain they are numbers."""
    for what, count, most in (
        ("nodes", terms.node_count, MAX_NODES),
        ("constants and slots", terms.constant_count + terms.slot_count, MAX_TENSORS),
    ):
        if count > most:
            raise InvalidProgram(
                f"the program has {count} {what}, and no node reads more than {most}; the client must post fewer"
            )


def check_leaves(terms: Terms) -> None:
    """Raise InvalidProgram for steps and strides whose run trees are too large: on the chain they are only numbers."""
    if terms.arithmetic.follows_logs and terms.steps > MAX_RUN_LEAVES:
        raise InvalidProgram(
            f"{terms.steps} steps with rounding logs are a tree of as many leaves, the limit is {MAX_RUN_LEAVES}; "
            f"the client must post fewer, or choose the mode {USUAL.name}"
        )
    if min(terms.strides, default=0) < 1:
        raise InvalidProgram(f"strides {list(terms.strides)}: there are some, and each is at least 1")
    spans = (terms.steps, *terms.strides)
    for span, stride in zip(spans, terms.strides, strict=False):
        leaves = -(-min(span, terms.steps) // stride)
        if leaves > MAX_RUN_LEAVES:
            raise InvalidProgram(
                f"{span} steps at stride {stride} are a tree of {leaves} leaves, the limit is {MAX_RUN_LEAVES}; "
                "the client must post coarser strides"
            )


def memory_needed(program: Program, terms: Terms) -> int:
    """Return the bytes that the job's tensors, one step of it, and the program and the trees of one run take.

    SAFETY: a program of many nodes and small tensors is all that such a job takes, and anybody can post it many times.
    """
    tensors = sum(descriptor.type.nbytes for descriptor in (*program.constants, *program.initial))
    nodes = range(len(program.nodes))
    beside = max(
        (max(_binary64(program, k, terms), _frames(program.nodes[k], program)) for k in nodes), default=0
    )
    read = sum(NODE_BYTES + OPERAND_BYTES * len(node.inputs) for node in program.nodes)
    read += TENSOR_BYTES * (len(program.constants) + len(program.initial))
    return tensors + StepPlan(program).peak_bytes + beside + read + trees_bytes(terms)


def trees_bytes(terms: Terms) -> int:
    """Return the bytes of a run's trees: that of its claim, one at each finer stride, and that of its rounding logs.

    SAFETY: a stranger chooses the number of leaves, up to `MAX_RUN_LEAVES` in each.
    """
    spans = (terms.steps, *terms.strides)
    leaves = sum(
        -(-min(span, terms.steps) // stride) for span, stride in zip(spans, terms.strides, strict=False)
    )
    return LEAF_BYTES * (leaves + (terms.steps if terms.arithmetic.follows_logs else 0))


def _frames(structure: Structure, program: Program) -> int:
    """Return the bytes of the framed planes of a depthwise convolution, on each core (kernels/csrc/contractions)."""
    if not structure.name.startswith("conv2d") or structure.attrs["groups"] == 1:
        return 0
    types = [*map(program.type_of, structure.inputs), *structure.outputs]
    planes = max(math.prod(type_.shape[2:]) for type_ in types)
    return repops.get_num_threads() * (24 * 2 * planes + (1 << 16))


def _binary64(program: Program, node: int, terms: Terms) -> int:
    """Return the extra bytes of a mode in binary64: an operator's inputs, result and radius, two more such values while
    it rounds, and unfolded images."""
    if not terms.arithmetic.in_binary64:
        return 0
    structure = program.nodes[node]
    inputs = sum(program.type_of(operand).nbytes for operand in structure.inputs)
    results = sum(type_.nbytes for type_ in structure.outputs)
    return 2 * inputs + 8 * results + _unfolded(program, structure)


def _unfolded(program: Program, structure: Structure) -> int:
    """Return the bytes of unfolded images: some at once, or a single one if they are large (rounded/images.py)."""
    if not structure.name.startswith("conv2d"):
        return 0
    first, second = (program.type_of(operand).shape for operand in structure.inputs)
    result = structure.outputs[0].shape
    channels, kernel, plane = {
        "conv2d": (first[1], second[2:], result[2:]),
        "conv2d_input_grad": (result[1], second[2:], first[2:]),
        "conv2d_weight_grad": (second[1], result[2:], first[2:]),
    }[structure.name]
    return max(UNFOLDED_BYTES, 16 * channels * math.prod(kernel) * math.prod(plane))


def check_operator(program: Program, terms: Terms, node: int, max_memory: float) -> int:
    """Return the bytes of a node's largest input. Raises InvalidProgram if execution needs more than `max_memory`."""
    structure = program.nodes[node]
    inputs = [program.type_of(operand).nbytes for operand in structure.inputs]
    needed = sum(inputs) + sum(type_.nbytes for type_ in structure.outputs) + _binary64(program, node, terms)
    if needed > max_memory:
        raise InvalidProgram(
            f"node {node} needs {needed} bytes of memory, limits.memory_bytes is {max_memory}; raise it"
        )
    return max(inputs, default=0)
