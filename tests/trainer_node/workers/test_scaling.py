"""The simulation of docs/scaling.md counts the bytes that plans of real programs send."""

from __future__ import annotations

import pytest

from scripts.scaling import BEGIN, END, PAGE, dealt, partial_sums, simulate, tables
from scripts.scaling import H200 as RATES
from trainer_node.workers.partition import partition_of
from trainer_node.workers.plan import Plan

from .jobs import job


def test_the_page_has_the_tables() -> None:
    text = PAGE.read_text()
    assert text.split(BEGIN)[1].split(END)[0].strip().splitlines() == list(tables())


@pytest.mark.parametrize(
    ("parts", "workers", "sums"),
    [
        (4, 2, [1, 1]),
        (8, 3, [2, 2, 1]),
        (8, 8, [1] * 8),
        (6, 4, [1, 1, 2, 1]),
        (7, 2, [1, 1]),
        (1, 1, [1]),
    ],
)
def test_a_worker_sends_a_sum_for_each_subtree_of_its_own(parts: int, workers: int, sums: list[int]) -> None:
    assert partial_sums(parts, workers) == sums


def test_tensors_are_dealt_out_whole() -> None:
    assert sorted(dealt([5, 4, 3, 3, 1], 2)) == [8, 8]
    assert dealt([100, 1, 1], 3) == [100, 1, 1]


@pytest.mark.parametrize("workers", [2, 3, 4, 8])
@pytest.mark.parametrize("name", ["mlp", "gpt"])
def test_bytes_are_those_of_a_plan(name: str, workers: int) -> None:
    """But for scalars and for what is aligned."""
    bundle = job(name, parts=8)
    program = bundle.program
    plan = Plan(program, partition_of(program, workers), bundle.metrics.values())
    sent = sum(m.offsets[-1] for part in plan.parts for stage in part.stages for m in stage.sends)
    names = bundle.labels["slots"]
    tensors = [d.type.count for n, d in zip(names, program.initial, strict=True) if n.startswith("param.")]
    found = simulate(tensors, 8, workers, RATES, 1.0, 1.0)
    assert sent == pytest.approx(found.sent, rel=0.1)
