"""Two parties that differ in one element of an operator, and a driver of their trial."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from repops import reference
from repops.opset import BF16, Arithmetic, Attrs, lookup
from repops.tensors import canonical

from referee_py.commit import NO_LOG, Record, tensor_hash
from referee_py.commit.tensor import Array, dtype_of
from referee_py.element import Case, scalar
from referee_py.program import Operand, Structure, TensorType
from referee_py.program.modes import EXACT, REPOPS_F32, TC16
from referee_py.program.structure import Kind
from referee_py.rounding import Log, Rounding
from referee_py.rounding.blocks import digest_of_block, log_digest
from referee_py.rounding.truth import truth as truth_of
from referee_py.trial import NO_BLOCK, LogBlock, NodesReveal, ShowLeaf, Stage, TrialState, apply, open_trial
from referee_py.trial.solver import Operator, plan
from referee_py.walk.dispute import Dispute
from tests.referee_py.element import tensor_reference
from tests.support.planned import moves_of

PLAYERS = ("0x" + "11" * 20, "0x" + "22" * 20)


def structure_of(name: str, inputs: Sequence[Array], attrs: Attrs) -> Structure:
    row = lookup(name)
    specs = [(t.dtype, t.shape) for t in map(TensorType.of, inputs)]
    outputs = [TensorType(*spec) for spec in row.infer(specs, attrs)]
    return Structure.make(name, [Operand(Kind.SLOT, i) for i in range(len(inputs))], outputs, **attrs)


def outputs_of(
    name: str, inputs: Sequence[Array], attrs: Attrs, mode: int, log: Log | None = None
) -> list[Array]:
    """Return the outputs of an operator, under a log with as many elements as the output."""
    if mode == REPOPS_F32.byte:
        return reference.execute(name, inputs, attrs)
    if mode == EXACT.byte:
        return reference.execute_exact(name, inputs, attrs)
    if mode == TC16.byte:
        narrow = bool(inputs) and dtype_of(inputs[0]) == BF16
        if narrow and lookup(name).arithmetic is Arithmetic.SUM:
            return [tensor_reference.execute(name, inputs, attrs)]
        return reference.execute(name, inputs, attrs)
    return truth_of(name, inputs, attrs, log, Rounding.of(mode))


def one_ulp(array: Array, element: int) -> Array:
    """Return the array with the last bit of one element flipped; NaN becomes infinity."""
    found = canonical(np.asarray(array, order="C")).copy()
    flat = found.reshape(-1)
    dtype = dtype_of(found)
    if dtype.is_float:
        bits = flat.view(f"u{found.itemsize}")
        infinity = scalar.narrowed(0x7F800000, dtype)
        bits[element] = infinity if np.isnan(flat[element]) else bits[element] ^ 1
    else:
        flat[element] = ~flat[element] if found.dtype == np.bool_ else flat[element] ^ 1
    return found


@dataclass
class Liar(Operator):
    """A side with a false element, and with false states after step ``turn``, in this byte."""

    turn: int = 0
    byte: int = 0

    def states(self, case: Case, at: Sequence[int]) -> list[bytes]:
        true = super().states(case, at)
        return [s if t <= self.turn else self._false(s) for t, s in zip(at, true, strict=True)]

    def _false(self, state: bytes) -> bytes:
        return bytes([*state[: self.byte], state[self.byte] ^ 0x40, *state[self.byte + 1 :]])


@dataclass
class Shown(Operator):
    """A side that has a block to show, but no log."""

    shown: LogBlock = NO_BLOCK

    def block(self, number: int, element: int) -> LogBlock:  # noqa: ARG002
        return self.shown


@dataclass
class Known:
    """Data that a side knows of the other: its outputs if they are served, and its moves on-chain."""

    outputs: Sequence[Array] | None = None
    revealed: Sequence[bytes] | None = None
    shown: bytes | None = None

    def output(self, number: int) -> Array | None:
        return None if self.outputs is None else self.outputs[number]

    def children(self) -> Sequence[bytes] | None:
        return self.revealed

    def leaf(self) -> bytes | None:
        return self.shown


@dataclass
class Setting:
    """An operator of which one side has the true outputs, and the other side one element wrong."""

    dispute: Dispute
    sides: tuple[Operator, Operator]
    honest: int

    @classmethod
    def lied(
        cls,
        name: str,
        inputs: Sequence[Array],
        attrs: Attrs,
        outputs: tuple[Sequence[Array], Sequence[Array]],
        honest: int,
        turn: int = 0,
        mode: int = REPOPS_F32.byte,
        log: Log | None = None,
    ) -> Setting:
        """Return a setting with these true and false outputs."""
        sides: list[Operator] = [
            Operator(inputs, outputs[0], log),
            Liar(inputs, outputs[1], log, turn=turn),
        ]
        structure = structure_of(name, inputs, attrs)
        agreed = structure.hash(), tuple(map(tensor_hash, inputs))
        committed = NO_LOG if log is None else log_digest(log)
        records = [Record(*agreed, tuple(map(tensor_hash, side.outputs)), committed) for side in sides]
        if honest:
            sides, records = sides[::-1], records[::-1]
        dispute = Dispute((records[0], records[1]), structure.encode(), mode)
        return cls(dispute, (sides[0], sides[1]), honest)

    def with_block(self, elements: int, entries: bytes) -> Setting:
        """Return the setting with another agreed log: this block alone, which may be one that no log can have."""
        log = digest_of_block(elements, 0, entries, ())
        one, other = (replace(record, log=log) for record in self.dispute.records)
        shown = LogBlock(elements, entries, ())
        sides = tuple(Shown(side.inputs, side.outputs, shown=shown) for side in self.sides)
        return Setting(replace(self.dispute, records=(one, other)), (sides[0], sides[1]), self.honest)

    @classmethod
    def of(
        cls,
        name: str,
        inputs: Sequence[Array],
        attrs: Attrs,
        place: float,
        honest: int,
        turn: int = 0,
        mode: int = REPOPS_F32.byte,
        logged: bool = False,
    ) -> Setting | None:
        """Return a setting with the element at `place` (0 to 1) of one output wrong; None if no output has elements.

        If `logged`, the agreed log rounds that element and every third one up.
        """
        inputs = [canonical(np.asarray(array, order="C")) for array in inputs]
        truth = [canonical(np.asarray(v, order="C")) for v in outputs_of(name, inputs, attrs, mode)]
        filled = [n for n, output in enumerate(truth) if output.size]
        if not filled:
            return None
        number = filled[int(place * 1000) % len(filled)]
        element = min(int(place * truth[number].size), truth[number].size - 1)
        log = None
        if logged:
            places = np.union1d(np.arange(0, truth[number].size, 3), [element])
            none = np.zeros(0, np.int64)
            log = Log(truth[number].size, places, np.ones(places.size, np.bool_), none, np.zeros(0))
            if len(truth) == 1:  # NOTE: operators of several outputs have no log
                outputs = outputs_of(name, inputs, attrs, mode, log)
                truth = [canonical(np.asarray(v, order="C")) for v in outputs]
        false = list(truth)
        false[number] = one_ulp(truth[number], element)
        return cls.lied(name, inputs, attrs, (truth, false), honest, turn, mode, log)


def play(setting: Setting, served: bool) -> tuple[TrialState, int]:
    """Play a trial to the end. Return its state and the number of transactions."""
    state = open_trial(setting.dispute, PLAYERS, (1000, 1000), 100)
    known = [Known(setting.sides[1 - side].outputs if served else None) for side in (0, 1)]
    batches = 0
    while state.stage is not Stage.DONE:
        before = state
        for side in (0, 1):
            moves = moves_of(plan(state, setting.dispute, side, setting.sides[side], known[side], 100))
            for move in moves:
                state = apply(state, setting.dispute, move, PLAYERS[side], 100)
                if isinstance(move, NodesReveal):
                    known[1 - side].revealed = move.children
                if isinstance(move, ShowLeaf):
                    known[1 - side].shown = move.leaf
            batches += bool(moves)
        assert state != before, "somebody can always move"
    return state, batches
