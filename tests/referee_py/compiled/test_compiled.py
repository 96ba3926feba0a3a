"""A compiled step gives the interpreter's bits: for random programs, at any number of threads, step after step."""

from __future__ import annotations

import numpy as np
import pytest
from repops.opset import BF16, F32
from repops.tensors import NUMPY_DTYPE

from referee_py.commit.tensor import Array
from referee_py.compiled import Compiled
from referee_py.program import Kind, Operand, SlotSource

from .equality import check
from .random_bf16 import RandomBf16
from .random_program import RandomProgram
from .random_slots import RandomSlots


def _check(seed: int, size: int, kind: type[RandomProgram] = RandomProgram) -> None:
    made = kind(seed, size)
    check(made.program, made.constants, made.initial, seed)


@pytest.mark.parametrize("part", range(8))
def test_random_programs(part: int) -> None:
    for seed in range(part, 400, 8):
        _check(seed, size=8 + seed % 60)


@pytest.mark.parametrize("part", range(8))
def test_random_programs_of_two_precisions(part: int) -> None:
    for seed in range(part, 400, 8):
        _check(seed, 8 + seed % 60, RandomBf16)


@pytest.mark.parametrize("part", range(4))
def test_random_programs_that_cast_slots_and_pass_them_on(part: int) -> None:
    for seed in range(part, 400, 4):
        _check(seed, 4 + seed % 30, RandomSlots)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(20))
def test_many_random_programs(part: int) -> None:
    for seed in range(1000 + part, 11000, 20):
        _check(seed, size=8 + seed % 150)
        _check(seed, 8 + seed % 150, RandomBf16)
        _check(seed, 4 + seed % 60, RandomSlots)


class _Widened(RandomProgram):
    """Heads of 8 rows and columns, which a product of f32 reads in another order: q k^T, as attention has it."""

    def _grow(self) -> None:
        whole = self.full(0.25, (8, 4, 8))
        step = self.made("cast", (Operand(Kind.STEP), self.pool[0][1]), dtype=F32)
        logits = self.made("mul", whole, step)
        heads = []
        for x in (logits, self.made("exp", logits)):
            turned = self.made("permute", self.made("cast", x, dtype=BF16), dims=(1, 0, 2))
            heads.append(self.made("cast", turned, dtype=F32))
        self.made("bmm", heads[0], self.made("permute", heads[1], dims=(0, 2, 1)))


def test_a_product_reads_what_is_widened_for_it_before_the_cast() -> None:
    _check(0, 1, _Widened)
    made = _Widened(0, 1)
    compiled = Compiled(made.program, made.constants)
    (product,) = (task for task in compiled.tasks if task.name == "bmm")
    specs = [compiled._graph.specs[view.base][0] for view in product.reads]
    assert specs == [BF16, BF16]


class _SavedForLater(RandomProgram):
    """A value that is rounded to bf16 and widened, read at once and again after a product."""

    def _grow(self) -> None:
        matrix = next(x for x in self.pool if x[1][0] == F32 and len(x[1][1]) == 2)
        x = matrix
        for _ in range(4):  # too much to compute again
            x = self.made("erf", x)
        saved = self.made("cast", self.made("cast", x, dtype=BF16), dtype=F32)
        change = self.made("tanh", saved)
        square = self.made("mm", change, self.made("permute", change, dims=(1, 0)))
        self.made("mul", self.made("mm", square, change), saved)


def test_what_is_widened_is_stored_before() -> None:
    _check(0, 1, _SavedForLater)
    made = _SavedForLater(0, 1)
    last = next(i for i, node in enumerate(made.program.nodes) if node.name == "mul")
    compiled = Compiled(made.program, made.constants, [SlotSource(last, 0)])
    graph = compiled._graph
    casts = {node.outputs[0] for node in graph.nodes if node.op == "cast"}
    stored = [value for task in compiled.tasks for value in task.writes if value in casts]
    assert [graph.specs[value][0] for value in stored] == [BF16]


class _Trained(RandomProgram):
    """Two weights in f32 that a step uses in bf16. The update of the first comes late; the second never changes."""

    def _grow(self) -> None:
        weight, fixed = self.pool[1], self.pool[2]
        wide = [self.made("cast", self.made("cast", w, dtype=BF16), dtype=F32) for w in (weight, fixed)]
        flat = [self.made("sum", w, dims=tuple(range(len(w[1][1]))), keepdim=0) for w in wide]
        self.trained = self.made("sub", weight, self.made("mul", *flat))
        self.fixed = self.made("reshape", fixed, shape=fixed[1][1])

    def _update(self, slot: int) -> SlotSource:
        if slot > 1:
            return super()._update(slot)
        operand = (self.trained, self.fixed)[slot][0]
        return SlotSource(operand.index, operand.output)


def test_the_update_of_a_weight_also_casts_it() -> None:
    """So no task of a step casts a slot; what never changes is cast when a state is loaded."""
    made = _Trained(7, 1)
    compiled = check(made.program, made.constants, made.initial, 7)
    graph = compiled._graph
    assert compiled.keeps_casts
    assert graph.slots == graph.own_slots + 2
    (update,) = (task for task in compiled.tasks if graph.after[0] in task.writes)
    assert graph.after[graph.own_slots] in update.writes
    assert graph.after[graph.own_slots + 1] == graph.own_slots + 1
    assert sum(node.op == "cast" and graph.specs[node.outputs[0]][0] == BF16 for node in graph.nodes) == 1


class _CastOfCasts(RandomProgram):
    """Slots of bf16 that are each other's casts, beside a weight that is cast: those of bf16 are no kept casts."""

    def _more_slots(self) -> list[Array]:
        return [np.full(shape, shape[0], NUMPY_DTYPE[BF16]) for shape in ((4,), (4,))]

    def _grow(self) -> None:
        self.casts = {k: self.made("cast", self.pool[1 + k], dtype=BF16) for k in (0, 7, 8)}

    def _update(self, slot: int) -> SlotSource:
        if slot < 7:
            return super()._update(slot)
        operand = self.casts[15 - slot][0]
        return SlotSource(operand.index, operand.output)


def test_casts_of_bf16_are_not_kept() -> None:
    made = _CastOfCasts(3, 1)
    compiled = check(made.program, made.constants, made.initial, 3)
    graph = compiled._graph
    assert graph.slots == graph.own_slots + 1


def test_how_many_casts_are_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("referee_py.compiled.graph.KEPT_CASTS", 1)
    made = _Trained(7, 1)
    compiled = check(made.program, made.constants, made.initial, 7)
    assert compiled._graph.slots == compiled._graph.own_slots + 1
