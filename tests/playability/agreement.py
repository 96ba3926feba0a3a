"""Cases that both twins must take or refuse alike: `validate` and the rules of operators, with every size and count.

For a case that is taken, chains are no longer than a trial permits, tensors have the same sizes and leaves in both, a
step of an element reads the same operands, and every move fits a transaction. Every deviation is a `Finding`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from repops.opset import BY_ID, MAX_STEPS, Dtype, OpError, Spec, lookup

from referee_py.commit import depth_of
from referee_py.commit.structs import words
from referee_py.commit.tensor import LEAF_BYTES
from referee_py.element import Case, rule_of
from referee_py.errors import InvalidInput, Unplayable
from referee_py.game.calldata import PROGRAM
from referee_py.program import Kind, Operand, Skeleton, Structure, TensorType, validate
from referee_py.program.attributes import encode_attributes
from referee_py.program.modes import TC16
from referee_py.program.structure import MAX_CONSTANTS, MAX_NODES, MAX_SLOTS
from referee_py.program.terms import Terms, check_steps, check_strides, leaf_count
from tests.support.solidity import compiled
from tests.twins.element.chain import CASE, Given, Refusal, Rules, decode, encode_call, packed
from tests.twins.element.large import anywhere
from tests.twins.element.twin import piece

from .limits import Limits, outputs_of
from .worst import worst_moves

NAMED = {
    *("NotMine", "WrongCounts", "NoSuchElement", "RankTooHigh", "TooManyElements", "ShapesUnfit"),
    *("AttributesEnd", "AttributesFollow", "AttributeUnfit", "ChainTooLong"),
}
"""Errors that may refuse a case. A panic, or a revert without a reason, is none of them."""
COUNTS = "0x" + "00" * 18 + "c0de"


@dataclass(frozen=True)
class Finding:
    """A deviation."""

    what: str
    name: str
    mode: int
    detail: str


@dataclass
class Tally:
    """Counts of all that was checked."""

    cases: Counter[tuple[str, int]] = field(default_factory=Counter)
    taken: Counter[tuple[str, int]] = field(default_factory=Counter)
    unplayable: Counter[tuple[str, int]] = field(default_factory=Counter)
    steps: int = 0
    tensors: int = 0
    bytes: dict[tuple[str, int], tuple[int, str]] = field(default_factory=dict)
    """By operator and mode: the most bytes of a move, and its name."""
    chain: dict[tuple[str, int], int] = field(default_factory=dict)
    programs: int = 0
    findings: list[Finding] = field(default_factory=list)

    def said(self, what: str, about: object, answer: object) -> None:
        """Note a finding about no operator."""
        self.findings.append(Finding(what, "", 0, f"{answer!r}; {about}"[:1500]))

    def found(self, what: str, given: Given, detail: object) -> None:
        self.findings.append(Finding(what, BY_ID[given.op].name, given.mode, f"{detail}; {given}"[:1500]))


class Agreement:
    """Compares the twins on one chain."""

    def __init__(self, rules: Rules, tally: Tally) -> None:
        self.rules, self.tally = rules, tally
        code = compiled("tests/contracts/playability/Counts.sol", "Counts").runtime
        rules._rpc("anvil_setCode", [COUNTS, "0x" + code.hex()])

    def check(self, name: str, mode: int, count: int, seed: object) -> None:
        """Check `count` cases of an operator in a mode."""
        limits = Limits((seed, name, mode))
        cases = [self._case(limits, name, mode) for _ in range(count)]
        self._rules(limits, cases)
        self._counts(cases)
        for case in cases:
            if case.taken:
                self._bytes(case)

    def _case(self, limits: Limits, name: str, mode: int) -> Proposed:
        specs, attrs = limits.call(name)
        case = Proposed.of(name, specs, attrs, mode, limits)
        key = name, mode
        self.tally.cases[key] += 1
        self.tally.taken[key] += case.taken
        self.tally.unplayable[key] += case.unplayable
        return case

    # ------------------------------------------------------------------ rules of operators

    def _rules(self, limits: Limits, cases: Sequence[Proposed]) -> None:
        calls = [
            (self.rules.rule_of(case.given), encode_call("begin", [CASE], [case.given.words]))
            for case in cases
        ]
        steps = list[tuple[Proposed, Any, tuple[str, bytes]]]()
        for case, answer in zip(cases, self.rules.calls(calls), strict=True):
            if isinstance(answer, Refusal):
                if answer.name not in NAMED:
                    self.tally.found("refused without a name", case.given, answer)
                elif case.taken and case.elements:
                    self.tally.found("taken by validate, refused by the rule", case.given, answer)
            elif not case.taken:
                if not case.unplayable:
                    self.tally.found("refused by validate, taken by the rule", case.given, case.why)
            else:
                steps += self._begun(limits, case, *decode(["uint64", "bytes"], answer))
        for (case, want, _), answer in zip(
            steps, self.rules.calls([call for *_, call in steps]), strict=True
        ):
            self.tally.steps += 1
            if isinstance(answer, Refusal) or decode(["uint256", "bytes"], answer)[0] != 1:
                self.tally.found("another step", case.given, f"{want}: {answer!r}")

    def _begun(self, limits: Limits, case: Proposed, length: int, first: bytes) -> list[Any]:
        """Return a step to be compared, if there is one."""
        which = case.case()
        rule = rule_of(which)
        key = case.name, case.given.mode
        self.tally.chain[key] = max(self.tally.chain.get(key, 0), length)
        if (length, first) != (rule.length(which), rule.begin(which)):
            self.tally.found("another chain", case.given, (length, first.hex(), rule.length(which)))
            return []
        # NOTE: a term of a block is two steps.
        if length > MAX_STEPS * (2 if case.given.mode == TC16.byte else 1):
            self.tally.found("a chain that nobody computes in time", case.given, length)
        if not length:
            return []
        t = limits.choose(0, length - 1, limits.random.randrange(length))
        one = piece(which, anywhere(which), t, first, 1)
        return [(case, one, self.rules.steps_call(case.given, t, one.states, one.opened))]

    # ------------------------------------------------------------------ counts

    def _counts(self, cases: Sequence[Proposed]) -> None:
        taken = [case for case in cases if case.taken]
        tensors = {
            (case.given.mode, spec): case for case in taken for spec in case.given.inputs + case.given.outputs
        }
        calls = [(COUNTS, encode_call("tensor", ["bytes"], [packed([spec])])) for _, spec in tensors]
        for ((_, spec), case), answer in zip(tensors.items(), self.rules.calls(calls), strict=True):
            self.tally.tensors += 1
            kind = TensorType(Dtype(spec[0]), tuple(spec[1]))
            leaves = -(-kind.nbytes // LEAF_BYTES)
            want = kind.count, kind.nbytes, leaves, depth_of(leaves)
            if isinstance(answer, Refusal):
                self.tally.found("a tensor that is taken has no size", case.given, (answer, kind))
            elif (got := decode(["uint256", "uint256", "uint256", "uint8"], answer)) != want:
                self.tally.found("another size", case.given, (got, want))
        calls = [(COUNTS, encode_call("structure", ["bytes"], [case.structure.encode()])) for case in taken]
        for case, answer in zip(taken, self.rules.calls(calls), strict=True):
            want_of = case.given.op, packed(case.given.outputs), case.given.attributes
            if isinstance(answer, Refusal) or decode(["uint16", "bytes", "bytes"], answer) != want_of:
                self.tally.found("a structure is read otherwise", case.given, answer)

    def programs(self, count: int, seed: object) -> None:
        """Compare counts of checkpoints, and the counts, steps and strides that a program may have."""
        random = Random(repr(("programs", seed)))
        runs = [(_number(random, 48), max(_number(random, 64), 1)) for _ in range(count)]
        calls = [(COUNTS, encode_call("checkpoints", ["uint64", "uint64"], list(run))) for run in runs]
        for run, answer in zip(runs, self.rules.calls(calls), strict=True):
            leaves = leaf_count(0, *run)
            if isinstance(answer, Refusal) or decode(["uint64", "uint8"], answer) != (
                leaves,
                depth_of(leaves),
            ):
                self.tally.said("other checkpoints", run, answer)
        headers = [_header(random) for _ in range(count)]
        calls = [(COUNTS, encode_call("program", [PROGRAM], [words(header)])) for header in headers]
        for header, answer in zip(headers, self.rules.calls(calls), strict=True):
            if isinstance(answer, Refusal) != (not _sound(header)):
                self.tally.said("a program that one takes and the other does not", header, answer)
            elif isinstance(answer, Refusal) and not answer.name.startswith("Bad"):
                self.tally.said("refused without a name", header, answer)
        self.tally.programs += count

    def _bytes(self, case: Proposed) -> None:
        key = case.name, case.given.mode
        types = [TensorType(Dtype(dtype), tuple(dims)) for dtype, dims in case.given.inputs]
        for move, size, bound, most in worst_moves(case.structure, tuple(types), case.given.mode):
            self.tally.bytes[key] = max(self.tally.bytes.get(key, (0, "")), (size, move))
            if size > bound:
                self.tally.found("a move longer than its bound", case.given, (move, size, bound))
            if size > most:
                self.tally.found("a move that no transaction holds", case.given, (move, size, most))


@dataclass
class Proposed:
    """A call as in a program, with the verdict of `validate`."""

    name: str
    given: Given
    attrs: dict[str, Any]
    structure: Structure
    why: str = ""
    unplayable: bool = False

    @classmethod
    def of(
        cls, name: str, specs: Sequence[Spec], attrs: dict[str, Any], mode: int, limits: Limits
    ) -> Proposed:
        op = lookup(name)
        outputs = outputs_of(name, specs, attrs)
        output = limits.random.randrange(len(outputs))
        count = math.prod(outputs[output][1])
        element = limits.choose(0, max(count - 1, 0), limits.random.randrange(max(count, 1))) % (1 << 64)
        taken, given_out = (
            tuple((int(d), tuple(dim % (1 << 64) for dim in s)) for d, s in some) for some in (specs, outputs)
        )
        given = Given(op.id, taken, given_out, encode_attributes(op, attrs), output, element, mode)
        made = cls(name, given, attrs, Structure(op.id, (), (), given.attributes))
        try:
            made.structure = made._validated()
        except Unplayable as error:
            made.why, made.unplayable = str(error), True
        except (InvalidInput, OpError) as error:
            made.why = str(error)
        return made

    def _validated(self) -> Structure:
        """Validate it as the only node of a program, with its inputs as constants."""
        types = [TensorType(Dtype(dtype), tuple(dims)) for dtype, dims in self.given.inputs]
        outputs = tuple(TensorType(Dtype(dtype), tuple(dims)) for dtype, dims in self.given.outputs)
        constants = {kind: i for i, kind in enumerate(dict.fromkeys(types))}
        operands = tuple(Operand(Kind.CONSTANT, constants[kind]) for kind in types)
        structure = Structure(self.given.op, operands, outputs, self.given.attributes)
        validate(Skeleton((structure,), (), tuple(constants), ()))
        return structure

    @property
    def taken(self) -> bool:
        return not self.why

    @property
    def elements(self) -> int:
        """Number of elements of the chosen output."""
        return math.prod(self.given.outputs[self.given.output][1])

    def case(self) -> Case:
        """Return the element as the twin's case."""
        types = tuple(TensorType(Dtype(dtype), tuple(dims)) for dtype, dims in self.given.inputs)
        attrs, where = self.structure.attrs, (self.given.output, self.given.element)
        return Case(self.name, types, self.structure.outputs, attrs, *where, self.given.mode)


def _number(random: Random, bits: int) -> int:
    """Return a number below 2^bits: random, a power of two or its neighbour."""
    power = 1 << random.randrange(bits)
    limit = (1 << bits) - 1
    return min(max(random.choice((random.randrange(1 << bits), power - 1, power, power + 1)), 0), limit)


def _header(random: Random) -> Terms:
    """Return terms of a program, a third with counts at their limits, and mostly correct strides."""
    strides = [1]
    while random.random() < 0.8 and strides[0] < 1 << 44:
        strides.insert(0, strides[0] * random.choice((1, 2, 2, 3, 8, (1 << 20) - 1)))
    if random.random() < 0.3:
        strides[random.randrange(len(strides))] = _number(random, 64)
    strides = strides if random.random() < 0.95 else strides[:-1]
    nodes, slots, constants = (
        random.choice((0, 1, 5, limit - 1, limit, limit + 1))
        for limit in (MAX_NODES, MAX_SLOTS, MAX_CONSTANTS)
    )
    steps = random.choice((0, 1, 100, 100, (1 << 48) - 1, 1 << 48, (1 << 64) - 1))
    roots = (bytes(32),) * 4
    return Terms(1, 1, nodes, slots, constants, steps, *roots, tuple(strides))


def _sound(header: Terms) -> bool:
    counts = 1 <= header.node_count < MAX_NODES and header.slot_count < MAX_SLOTS
    try:
        check_steps(header.steps)
        check_strides(header.strides)
    except InvalidInput:
        return False
    return counts and header.constant_count < MAX_CONSTANTS
