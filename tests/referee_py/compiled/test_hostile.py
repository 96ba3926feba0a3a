"""Programs of strangers: every one compiles within bounds and gives the interpreter's bits."""

from __future__ import annotations

import pytest
from repops.fuse.expression import Recorder
from repops.fuse.phases import NotFusibleError
from repops.opset import F32

from referee_py.compiled import Compiled, Cpu, groups
from referee_py.compiled.machine import ROW_BYTES
from referee_py.compiled.schedule import KEPT_BYTES

from .equality import check
from .hostile_programs import KINDS, kept
from .random_program import RandomProgram
from .random_views import RandomViews


@pytest.mark.parametrize("size", [6, 1200])
@pytest.mark.parametrize("kind", KINDS)
def test_each_trouble(kind: str, size: int) -> None:
    made = KINDS[kind](size)
    check(made.program, made.constants, made.initial, seed=1)


@pytest.mark.parametrize(
    "kind",
    [
        "view_chain",
        "permuted_chain",
        *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("siblings", "twins", "updates")),
    ],
)
def test_ten_thousand_nodes(kind: str) -> None:
    """NOTE: a walk along each chain, or a new grouping for each refused group, would not end in minutes."""
    made = KINDS[kind](10_000)
    compiled = Compiled(made.program, made.constants)
    compiled.load(made.initial)
    compiled.run(1)


@pytest.mark.parametrize("part", range(4))
def test_random_views(part: int) -> None:
    for seed in range(part, 200, 4):
        made = RandomViews(seed, 20 + seed % 100)
        check(made.program, made.constants, made.initial, seed)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(20))
def test_many_random_views(part: int) -> None:
    for seed in range(1000 + part, 5000, 20):
        made = RandomViews(seed, 20 + seed % 200)
        check(made.program, made.constants, made.initial, seed)


@pytest.mark.parametrize(
    "count", [pytest.param(20, id="quick"), pytest.param(60, id="slow", marks=pytest.mark.slow)]
)
def test_groups_of_small_blocks(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """A program of many blocks, like a program of tens of thousands of nodes."""
    monkeypatch.setattr(groups, "BLOCK", 7)
    for seed in range(count):
        for made in (RandomProgram(seed, 80), RandomViews(seed, 80)):
            check(made.program, made.constants, made.initial, seed)


def test_what_is_kept_from_step_to_step_is_bounded() -> None:
    made = kept(300)
    tables = sum(n.name == "arange" for n in made.nodes)
    assert tables << 20 > 2 * KEPT_BYTES
    assert Compiled(made.program, made.constants).nbytes < KEPT_BYTES + (4 << 20)


def test_what_a_kernel_keeps_of_a_row_is_bounded() -> None:
    def expression(columns: int, count: int) -> Recorder:
        """Record softmaxes of one row, all sums before all quotients."""
        recorder = Recorder([(F32, (1, columns))], names=["x"])
        x, results = recorder.input(0), []
        for k in range(count):
            e = recorder.exp(recorder.mul(x, recorder.scalar(1.0 + k)))
            results.append(recorder.div(e, recorder.sum(e, dims=(1,), keepdim=1)))
        total = results[0]
        for result in results[1:]:
            total = recorder.add(total, result)
        recorder.expression.outputs = (total.number,)
        return recorder

    columns = ROW_BYTES // 8 // 4
    Cpu().kernel(expression(columns, 3).expression, [(columns, 1)])
    with pytest.raises(NotFusibleError, match="too much of a row"):
        Cpu().kernel(expression(columns, 8).expression, [(columns, 1)])
