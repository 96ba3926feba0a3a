"""An operator that computes for days is left by its types, and one that outlasts its time keeps nobody from being
measured."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import repops
from repops.opset import F32
from repops.sums import SumMode

from referee_py.program import Kind, Operand, Program, SlotSource, Structure, TensorDescriptor, TensorType
from referee_py.program.modes import EXACT, REPOPS_F32
from referee_py.program.terms import Terms
from referee_py.program.validate import validate
from trainer_node.compute import packages
from trainer_node.compute.ordered import BESIDE, Ordered
from trainer_node.compute.packages import DRY_RUN_S
from trainer_node.network.artifact_server import ArtifactServer
from trainer_node.run.cost_estimate import (
    GPU_RATE,
    RATES,
    StepTooLong,
    hardest,
    measure,
    rate_of,
    surely_short,
)
from trainer_node.run.package import Package, check_leaves, check_strides, memory_needed
from trainer_node.storage.database import Database
from trainer_node.storage.store import Store

from ..desk import PROGRAM, job, put_package, runner, until
from ..slow import Hand


def convolution(side: int, taps: int, channels: int) -> Package:
    """Return a convolution of tensors that the program fills itself: its package has a few bytes."""
    out, x = side - taps + 1, np.ones((), np.float32)

    def spread(*shape: int) -> Structure:
        return Structure.make("expand", [Operand(Kind.SLOT, 0)], [TensorType(F32, shape)], shape=shape)

    result, given = [TensorType(F32, (1, channels, out, out))], [Operand(Kind.NODE, 0), Operand(Kind.NODE, 1)]
    window: dict[str, Any] = {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1), "groups": 1}
    nodes = (
        spread(1, channels, side, side),
        spread(channels, channels, taps, taps),
        Structure.make("conv2d", given, result, **window),
        Structure.make("sum", [Operand(Kind.NODE, 2)], [TensorType(F32, ())], dims=(0, 1, 2, 3), keepdim=0),
    )
    program = Program(nodes, (SlotSource(3, 0),), (), (TensorDescriptor.of(x),))
    return Package(Terms.of(program, 4, (2, 1)), program, (), (x,))


class Computes:
    """A processor that is asked for nothing, or whose convolutions compute until they are let go."""

    sums = SumMode.REPOPS_F32

    def __init__(self, name: str, *, convolves: bool) -> None:
        self.name, self._convolves = name, convolves
        self.go, self.begun = threading.Event(), 0

    def execute(self, operator: Any, *given: Any) -> Any:
        assert self._convolves, "no operator is begun"
        if str(operator) == "conv2d":
            self.begun += 1
            until(self.go.is_set)
        return repops.backend("cpu").execute(operator, *given)


def test_an_operator_that_takes_hours_at_any_rate_is_never_begun() -> None:
    """The attack: within all limits on bytes, and 4.5e15 multiply-adds in one call of a kernel."""
    large = convolution(4096, 2048, 16)
    validate(large.program.skeleton)
    check_leaves(large.terms)
    check_strides(large.program)
    assert memory_needed(large.program, large.terms) < 16 << 30
    assert hardest(large.program) == (2 * 16 * 16 * 2049**2 * 2048**2, 2)
    with pytest.raises(StepTooLong, match=r"node 2 \(conv2d\) has 9e\+15 operations"):
        measure(large, Computes("cpu", convolves=False), limit_s=DRY_RUN_S)


def test_the_rate_is_that_of_the_device() -> None:
    assert rate_of(repops.backend("cpu")) == RATES["cpu"] * repops.get_num_threads()
    assert rate_of(Computes("cuda", convolves=False)) == GPU_RATE
    small = convolution(8, 4, 2)
    assert measure(small, repops.backend("cpu"), limit_s=DRY_RUN_S).step_s > 0


def test_what_is_sure_to_be_short_is_so_on_any_machine() -> None:
    assert surely_short(PROGRAM, REPOPS_F32.byte, DRY_RUN_S)
    some = convolution(256, 64, 2).program  # 1.2e9 operations
    assert surely_short(some, REPOPS_F32.byte, DRY_RUN_S)
    assert not surely_short(some, EXACT.byte, 10.0), "data may make its sums slow"
    assert not surely_short(convolution(4096, 2048, 16).program, REPOPS_F32.byte, DRY_RUN_S)


def test_a_job_is_measured_beside_operators_that_go_on_for_days(
    tmp_path: Path, database: Database, clock: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attack: the only thread that measures was in a kernel, and no other job was begun any more."""
    small, client = convolution(8, 4, 2), Store(tmp_path / "client", sync=False)
    put_package(client)
    client.put_tensor(small.initial[0])
    client.put_blob(small.program.to_bytes())
    backend = Computes("waits", convolves=True)
    # NOTE: a small convolution stands for a large one.
    monkeypatch.setattr(
        packages, "surely_short", lambda program, *_: program.file_hash() == PROGRAM.file_hash()
    )
    with (
        ArtifactServer(client) as server,
        runner(tmp_path / "node", database, backend=backend, clock=clock) as works,
    ):
        posted = {"program": small.terms, "program_file": small.program.file_hash(), "uri": server.uri}
        bait = [job(100 + k, **posted) for k in range(BESIDE + 2)]
        other = job(1, uri=server.uri)

        def begun(count: int) -> bool:
            for of in bait[:count]:
                works.prepare(of)
            return backend.begun == count

        for number in range(BESIDE + 1):
            until(partial(begun, number + 1))
            clock.on(3600.0)
        assert works.prepare(bait[-1]) is None
        assert until(lambda: works.prepare(other)), "it is sure to be short"
        assert backend.begun == BESIDE + 1, "and another that is not waits"
        backend.go.set()
        until(lambda: not works.busy)


class TestOrdered:
    """Works that outlast their time."""

    @pytest.fixture
    def hands(self) -> Iterator[tuple[Ordered, Hand, threading.Event]]:
        clock, go = Hand(), threading.Event()
        made = Ordered("test", clock)
        yield made, clock, go
        go.set()
        made.close()

    def test_the_next_one_passes_what_is_over_its_time(self, hands: Any) -> None:
        ordered, clock, go = hands
        first = ordered.submit(0, lambda: go.wait(120), 10.0)
        second = ordered.submit(0, lambda: 2, 10.0)
        clock.on(9.0)
        ordered.look()
        assert not second.running()
        assert not second.done()
        clock.on(1.0)
        ordered.look()
        assert second.result(120) == 2
        go.set()
        assert first.result(120)

    def test_no_more_than_some_are_passed_but_by_what_is_sure_to_end(self, hands: Any) -> None:
        ordered, clock, go = hands
        long: list[Future[bool]] = []
        for _ in range(BESIDE + 1):
            long.append(ordered.submit(0, lambda: go.wait(120), 10.0))
            clock.on(10.0)
        behind = ordered.submit(0, lambda: 3, 10.0)
        assert ordered.submit(1, lambda: 4, 10.0, sure=True).result(120) == 4
        assert not behind.running()
        assert not behind.done()
        go.set()
        assert behind.result(120) == 3
        assert all(one.result(120) for one in long)
