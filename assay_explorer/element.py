"""One number that two sides differ in, and the chain of steps that leads to it, from tensors that somebody serves.

Every tensor is checked against the hash in a record, and the records against the chain. So what is shown as the right
value is right, whoever has served it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from repops.opset import Dtype

from referee_py.commit import Record
from referee_py.commit.tensor import LEAF_BYTES, Array
from referee_py.element import NO_ENTRY, Case, Entry, rule_of
from referee_py.element.positions import digits
from referee_py.element.scalar import order_key, signed, widened
from referee_py.errors import InvalidInput, Unavailable
from referee_py.program import Structure, TensorType
from referee_py.program.describe import value_of
from referee_py.program.modes import mode_or_unknown
from referee_py.rounding.entries import WRITTEN
from referee_py.rounding.primitives import DOWN, UP
from referee_py.trial.chain_states import ChainStates
from trainer_node.network.sources import Source
from trainer_node.run.package import MAX_HEADER_BYTES

from .tensor_block import Block, block_of, first_step, has_blocks

NEAR = 4
"""Steps shown on each side of the judged one, and at both ends of the chain."""
MAX_STEPS = 1 << 26
"""Steps of a chain that a page computes: a few seconds."""


@dataclass(frozen=True)
class Number:
    """An element's bits in every notation."""

    bits: int
    dtype: Dtype

    @property
    def decimal(self) -> str:
        return value_of(self.bits, self.dtype)

    @property
    def width(self) -> int:
        return {Dtype.F32: 32, Dtype.I64: 64, Dtype.BOOL: 8, Dtype.BF16: 16}[self.dtype]

    @property
    def hex(self) -> str:
        return f"0x{self.bits:0{self.width // 4}x}"

    @property
    def parts(self) -> list[tuple[str, str]]:
        """The bits from the highest, by what they mean: sign, exponent, fraction."""
        text = f"{self.bits:0{self.width}b}"
        if not self.dtype.is_float:
            return [("value", text)]
        return [("sign", text[0]), ("exponent", text[1:9]), ("fraction", text[9:])]


def ulps(first: Number, second: Number) -> int:
    """Return how many numbers of their type the second is away from the first."""
    if not first.dtype.is_float:
        return abs(signed(first.bits) - signed(second.bits))
    apart = abs(order_key(widened(first.bits, first.dtype)) - order_key(widened(second.bits, second.dtype)))
    return apart >> 16 if first.dtype == Dtype.BF16 else apart


@dataclass(frozen=True)
class Read:
    """An operand element that a step reads: its place in the input, its leaf of the input's data, and its value."""

    input: int
    index: tuple[int, ...]
    leaf: int
    number: Number


@dataclass(frozen=True)
class Step:
    """A step of a chain, counted from 1. ``after`` is the value if the chain ended here; None where that says nothing.
    ``gap``: steps that are left out before it."""

    number: int
    reads: tuple[Read, ...]
    state: bytes
    after: Number | None
    judged: bool
    gap: int


@dataclass(frozen=True)
class Shown:
    """Content of the page. ``what``: output or input, with its number; ``values``: those of the sides. ``right`` and
    ``steps`` are of outputs only."""

    what: str
    number: int
    type: TensorType
    element: int
    index: tuple[int, ...]
    values: tuple[Number, Number]
    right: Number | None
    steps: tuple[Step, ...]
    length: int
    judged: int | None
    entry: str
    differing: int
    count: int
    block: Block | None = None
    """In a chain of blocks: the one with the judged step, or else the last one."""

    @property
    def ulps(self) -> int:
        return ulps(*self.values)


@dataclass(frozen=True)
class Question:
    """The question: the disputed node in both records. ``at``: the finding of a trial: output, element, entry, and the
    step that it judged, counted from 1."""

    structure: Structure
    records: tuple[Record, Record]
    mode: int
    input_types: tuple[TensorType, ...]
    output: int | None = None
    element: int | None = None
    entry: Entry | None = None
    judged: int | None = None


def shown(question: Question, source: Source, memory: int) -> Shown:
    """Fetch what is needed, and compute. Raises Unavailable, HashMismatch; InvalidInput if it would take too much."""
    first, second = question.records
    types = question.input_types
    needed = sum(t.nbytes for t in types) + 2 * sum(t.nbytes for t in question.structure.outputs)
    if needed > memory:
        raise InvalidInput(f"the operator's tensors take {needed} bytes; the limit is {memory}")

    def tensor(hash_: bytes, type_: TensorType) -> Array:
        array = source.tensor(hash_, type_.nbytes + MAX_HEADER_BYTES)
        if TensorType.of(array) != type_:
            raise Unavailable(f"a record names a tensor of {TensorType.of(array)}; the program says {type_}")
        return array

    pairs = [(a, b) for a, b in zip(first.inputs, second.inputs, strict=False)]
    differs = next((k for k, (a, b) in enumerate(pairs) if a != b), None)
    if differs is not None:
        sides = [tensor(hash_, types[differs]) for hash_ in pairs[differs]]
        return _difference(question, "input", differs, types[differs], sides, None)
    output = question.output
    if output is None:
        names = zip(first.outputs, second.outputs, strict=False)
        output = next((k for k, (a, b) in enumerate(names) if a != b), None)
    if output is None:
        raise InvalidInput("both records have the same inputs and outputs: no number is in dispute")
    inputs = [tensor(hash_, type_) for hash_, type_ in zip(first.inputs, types, strict=True)]
    sides = []
    for record in question.records:
        sides.append(tensor(record.outputs[output], question.structure.outputs[output]))
    return _difference(question, "output", output, question.structure.outputs[output], sides, inputs)


def _difference(
    question: Question,
    what: str,
    number: int,
    type_: TensorType,
    sides: Sequence[Array],
    inputs: Sequence[Array] | None,
) -> Shown:
    bits = [_bits(array) for array in sides]
    unlike = np.flatnonzero(bits[0] != bits[1])
    element = question.element if what == "output" and question.element is not None else None
    if element is None:
        if not len(unlike):
            raise InvalidInput(f"the two {what}s have the same elements")
        element = int(unlike[0])
    values = Number(int(bits[0][element]), type_.dtype), Number(int(bits[1][element]), type_.dtype)
    index = tuple(digits(element, type_.shape))
    steps: tuple[Step, ...] = ()
    right, length, block = None, 0, None
    if inputs is not None:
        case = Case(
            question.structure.name,
            question.input_types,
            question.structure.outputs,
            question.structure.attrs,
            number,
            element,
            question.mode,
        )
        steps, right, length = _chain(case, question, inputs)
        block = _block(case, question, inputs) if steps else None
    return Shown(
        what, number, type_, element, index, values, right, steps, length, question.judged,
        _entry(question), len(unlike), type_.count, block,
    )  # fmt: skip


def _chain(
    case: Case, question: Question, inputs: Sequence[Array]
) -> tuple[tuple[Step, ...], Number | None, int]:
    rule = rule_of(case)
    length = rule.length(case)
    if length > MAX_STEPS:
        return (), None, length
    judged = question.judged
    wanted = {*range(1, NEAR), *range(length - NEAR + 2, length + 1)}
    if judged is not None:
        wanted |= set(range(judged - NEAR, judged + NEAR + 1))
    numbers = sorted(t for t in wanted if 1 <= t <= length)
    flat = [_bits(array) for array in inputs]
    if length == 1:  # the rule itself takes the only step; there is no native chain of it
        begun = rule.begin(case)
        by_place = {0: begun, 1: rule.step(case, 0, begun, lambda place, at: int(flat[place][at]))}
    else:
        places = sorted({*(t - 1 for t in numbers), *numbers, length})
        states = ChainStates().states(case, inputs, question.records[0].inputs, places)
        by_place = dict(zip(places, states, strict=True))
    steps, before = [], 0
    for t in numbers:
        reads: list[Read] = []

        def read(place: int, at: int, reads: list[Read] = reads) -> int:
            bits = int(flat[place][at])
            type_ = case.inputs[place]
            leaf = at * (type_.nbytes // max(1, type_.count)) // LEAF_BYTES
            reads.append(Read(place, tuple(digits(at, type_.shape)), leaf, Number(bits, type_.dtype)))
            return bits

        rule.step(case, t - 1, by_place[t - 1], read)
        after = _so_far(case, by_place[t], t == length)
        steps.append(Step(t, tuple(reads[:6]), by_place[t], after, t == judged, t - before - 1))
        before = t
    follows_logs = mode_or_unknown(case.mode).follows_logs
    # NOTE: in a mode with logs the element depends on its entry in the log, which only a trial shows on the chain.
    known = question.entry is not None or not follows_logs
    entry = question.entry or NO_ENTRY
    right = Number(rule.finish(case, by_place[length], entry), case.dtype) if known else None
    return tuple(steps), right, length


def _block(case: Case, question: Question, inputs: Sequence[Array]) -> Block | None:
    rule = rule_of(case)
    if not has_blocks(rule):
        return None
    flat = [_bits(array) for array in inputs]
    step = first_step(case, (question.judged or rule.length(case)) - 1)
    (state,) = ChainStates().states(case, inputs, question.records[0].inputs, [step])
    return block_of(case, step, state, lambda place, at: int(flat[place][at]))


def _so_far(case: Case, state: bytes, last: bool) -> Number | None:
    """Return the element if its chain ended in this state. NOTE: an f32 `sum` folds lanes, so it says nothing early."""
    if case.name == "sum" and len(state) > 8 and not last and len(state) % 24 == 0 and len(state) < 96:
        return None
    try:
        return Number(rule_of(case).finish(case, state), case.dtype)
    except InvalidInput:
        return None


def _bits(array: Array) -> np.ndarray:
    kind = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[array.itemsize]
    return np.ascontiguousarray(array).reshape(-1).view(kind)


def _entry(question: Question) -> str:
    """Return the rounding log's entry of the element in words; empty in a mode without logs, or if it is not known."""
    entry = question.entry
    if entry is None or not mode_or_unknown(question.mode).follows_logs:
        return ""
    if entry.kind == WRITTEN:
        return f"written: {Number(entry.written, Dtype.F32).decimal}"
    return {UP: "up", DOWN: "down"}.get(entry.kind, "none: not near a midpoint, so rounded to nearest")
