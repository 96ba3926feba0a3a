"""A compiled step gives the interpreter's bits: for random programs, at any number of threads, step after step."""

from __future__ import annotations

import numpy as np
import pytest
from repops.opset import BF16, F32
from repops.tensors import NUMPY_DTYPE

from referee_py.commit.tensor import Array
from referee_py.compiled import Compiled
from referee_py.program import Kind, Operand, Program, SlotSource, TensorDescriptor
from tests.referee_py.program.tiny import Writer, slot

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


class _Vectors(RandomProgram):
    """Products of vectors with matrices that lie the other way round, alone and in a batch; sums of 600 terms."""

    def _grow(self) -> None:
        step = self.made("cast", (Operand(Kind.STEP), self.pool[0][1]), dtype=F32)
        for head in ((), (2,)):
            shape, turn = (*head, 3, 600), (*range(len(head)), len(head) + 1, len(head))
            counted = self.made("cast", self.made("arange", n=int(np.prod(shape))), dtype=F32)
            angles = self.made("mul", self.made("reshape", counted, shape=shape), step)
            matrix = self.made("sin", angles)
            row = self.made("exp", self.made("slice", matrix, dim=len(head), start=1, stop=2, step=1))
            name = "bmm" if head else "mm"
            turned = self.made("permute", matrix, dims=turn)
            column = self.made("permute", row, dims=turn)
            self.made(name, row, turned)
            self.made(name, self.made("permute", turned, dims=turn), column)
            self.made(name, turned, self.made("slice", matrix, dim=len(head) + 1, start=0, stop=1, step=1))


def test_a_vector_is_multiplied_by_a_matrix_as_it_lies() -> None:
    """Promise: no copy of a head is made in each step because its weights lie the other way round."""
    for seed in range(3):
        _check(seed, 1, _Vectors)
    made = _Vectors(0, 1)
    compiled = Compiled(made.program, made.constants)
    products = [task for task in compiled.tasks if task.name in ("mm", "bmm")]
    assert any(not view.is_contiguous() for task in products for view in task.reads)


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


def test_a_plain_step_computes_what_nothing_reads() -> None:
    """A committed step does, so a client could make slow what is in no measurement of a run."""
    op = Writer([], [initial := np.ones((4, 4), np.float32)])
    op("sin", op("exp", slot(0)))
    new = op("add", slot(0), slot(0))
    program = Program(tuple(op.nodes), (SlotSource(new.index, 0),), (), (TensorDescriptor.of(initial),))
    compiled = Compiled(program, [])
    names = " ".join(task.name for task in compiled._schedule.tasks)
    assert all(name in names for name in ("sin", "exp", "add"))
    check(program, [], [initial], 0)


def test_a_plain_step_computes_nodes_that_are_alike_as_often_as_a_committed_one() -> None:
    """A kernel that computed them once would say too little of what a dispute takes."""
    op = Writer([], [initial := np.ones((4, 4), np.float32)])
    new = slot(0)
    for _ in range(10):
        new = op("add", new, op("sin", slot(0)))
    program = Program(tuple(op.nodes), (SlotSource(new.index, 0),), (), (TensorDescriptor.of(initial),))
    names = " ".join(task.name for task in Compiled(program, [])._schedule.tasks)
    assert names.split().count("sin") == 10
    check(program, [], [initial], 0)
