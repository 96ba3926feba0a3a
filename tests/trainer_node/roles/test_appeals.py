"""An appeal is in time where the processor takes long for an operator that the run's device executes at once."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import repops
from repops.opset import Attrs
from repops.sums import SumMode

from referee_py.commit import Record
from referee_py.commit.tensor import Array
from referee_py.errors import Unavailable
from referee_py.jobs import Rules
from referee_py.panel.state import HearingPhase
from referee_py.program import Program, SlotSource, Structure, TensorDescriptor, TensorType
from referee_py.program.terms import Terms
from tests.referee_py.program.tiny import Writer, slot
from trainer_node.compute.run_execution import Equipment
from trainer_node.daemon.open_runner import open_runner
from trainer_node.run.cost_estimate import MARGIN, CostEstimate, measure
from trainer_node.run.package import Package
from trainer_node.run.replay import Replay
from trainer_node.run.right_cost import CUTS, ENOUGH_S, LARGER
from trainer_node.stake.deadlines import too_slow
from trainer_node.storage.database import Database
from trainer_node.storage.store import Store

from ..desk import Remembered, job, runner, serving, tiny_package, until
from ..hearing_room import BEGAN, PERIOD, Room, Told

VERIFIERS = ("0x" + "dd" * 20,)
TERM_S = 1e-6
"""Seconds for a term on the processor of these tests."""


# ---------------------------------------------------------------------- before a stake


@dataclass
class Processor:
    """A processor whose time is told: `TERM_S` for each term. ``tried``: what it was asked to execute."""

    now: float = 0.0
    tried: list[tuple[tuple[int, ...], ...]] = field(default_factory=list)

    def clock(self) -> float:
        return self.now

    def right(self, node: Structure, inputs: Sequence[Array]) -> None:
        assert [TensorType(*spec) for spec in inferred(node, inputs)] == list(node.outputs)
        self.tried.append(tuple(array.shape for array in inputs))
        if node.name == "mm":
            self.now += TERM_S * node.outputs[0].count * inputs[0].shape[1]


def inferred(node: Structure, inputs: Sequence[Array]) -> Any:
    specs = [(kind.dtype, kind.shape) for kind in map(TensorType.of, inputs)]
    return node.row.infer(specs, node.attrs)


def product(rows: int, terms: int, columns: int) -> Package:
    """Return a job whose step is a matrix product and little besides."""
    initial = [np.ones((rows, terms), np.float32), np.ones((terms, columns), np.float32)]
    op = Writer([], initial)
    op("mm", slot(0), slot(1))
    kept = [op("neg", slot(number)) for number in (0, 1)]
    sources = tuple(SlotSource(last.index, 0) for last in kept)
    made = Program(tuple(op.nodes), sources, (), tuple(map(TensorDescriptor.of, initial)))
    return Package(Terms.of(made, 4, (1,)), made, (), tuple(initial))


def measured(package: Package, processor: Processor) -> CostEstimate:
    gpu = repops.backend("cpu")  # NOTE: it stands for a device whose steps take no time that is told
    return measure(
        package, gpu, limit_s=60, clock=processor.clock, busy=processor.clock, right=processor.right
    )


@pytest.mark.parametrize(("rows", "columns"), [(1024, 256), (256, 1024)])
def test_the_slowest_operator_is_measured_on_a_small_part_of_it(rows: int, columns: int) -> None:
    processor = Processor()
    found = measured(product(rows, 64, columns), processor)
    whole = TERM_S * rows * 64 * columns
    assert found.right_s == pytest.approx(whole, rel=1e-3)
    assert processor.now < whole / 8, "it was not executed whole"
    assert processor.now < 2 * LARGER * max(ENOUGH_S, TERM_S * (1 << 20))


def test_a_job_whose_appeal_period_is_too_short_for_the_processor_is_left_to_others() -> None:
    """The liar's verifiers sign his record, and the honest side cannot appeal in time."""
    package = product(1024, 64, 256)
    estimate = measured(package, Processor())
    needed = math.ceil(MARGIN * (estimate.match_s(package.terms) + estimate.right_s))

    def reason(**periods: int) -> str:
        rules = replace(Rules(1, 10**6, 10**6, 10**6), **periods)
        return str(too_slow(job(program=package.terms, rules=rules, verifiers=VERIFIERS), estimate) or "")

    assert not reason(appeal_period=needed)
    found = reason(appeal_period=needed - 1)
    assert f"its appeal period has {needed - 1} s" in found
    assert "for an operator on the processor" in found
    enough = math.ceil(MARGIN * (estimate.dispute_s(package.terms)))
    assert not reason(clock=enough)
    assert f"its clock has {enough - 1} s" in reason(clock=enough - 1)
    assert not reason(clock=enough - math.floor(MARGIN * estimate.right_s), threshold=0), "nobody appeals"


def test_data_that_make_sums_slow_make_them_slow_on_the_processor_too() -> None:
    estimate = replace(measured(product(64, 64, 64), Processor()), worst=2.0, right_worst=3.0)
    assert estimate.slower(10.0).right_s == 3 * estimate.right_s
    assert estimate.least(estimate.slower(10.0)).right_s == estimate.right_s


@pytest.mark.parametrize("name", CUTS)
def test_an_operator_on_a_part_of_its_inputs_is_sound(name: str) -> None:
    shapes: dict[str, tuple[tuple[int, ...], ...]] = {
        "mm": ((64, 300), (300, 96)),
        "bmm": ((3, 96, 300), (3, 300, 40)),
        "conv2d": ((8, 6, 20, 20), (12, 6, 3, 3)),
        "conv2d_input_grad": ((8, 12, 18, 18), (12, 6, 3, 3)),
        "conv2d_weight_grad": ((8, 12, 18, 18), (8, 6, 20, 20)),
    }
    window: Attrs = {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1), "groups": 1}
    more: Attrs = {"conv2d_input_grad": {"input_hw": (20, 20)}, "conv2d_weight_grad": {"kernel_hw": (3, 3)}}
    initial = [np.ones(shape, np.float32) for shape in shapes[name]]
    op = Writer([], initial)
    op(name, *map(slot, range(2)), **({**window, **more.get(name, {})} if "conv" in name else {}))
    sources = tuple(SlotSource(op("neg", slot(number)).index, 0) for number in range(2))
    made = Program(tuple(op.nodes), sources, (), tuple(map(TensorDescriptor.of, initial)))
    package = Package(Terms.of(made, 4, (1,)), made, (), tuple(initial))
    processor = Processor()
    assert measured(package, processor).right_s > 0
    tried = [given for given in processor.tried if len(given) == 2]
    assert tried[0] != shapes[name], "a part of it"


def test_a_node_that_stops_is_not_kept_by_it() -> None:
    told: list[int] = []

    def right(*_: Any) -> None:
        told.append(1)

    with pytest.raises(Unavailable, match="told to stop"):
        measure(tiny_package(), repops.backend("cpu"), limit_s=60, right=right, stop=lambda: bool(told))


@pytest.mark.parametrize("alike", [True, False])
def test_a_node_measures_the_processor_where_its_runs_compute_elsewhere(
    tmp_path: Path, alike: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    executed: list[str] = []
    monkeypatch.setattr(
        "trainer_node.compute.run_execution.execute_right", lambda node, *_: executed.append(node.name)
    )
    database = Database(None)
    with serving(tmp_path / "client") as uri, runner(tmp_path / "node", database, alike=alike) as works:
        estimate = until(lambda: works.prepare(job(uri=uri)))
    assert bool(executed) == (not alike) == (estimate.right_s > 0)


@pytest.mark.parametrize(("device", "alike"), [("cpu", True), ("cuda", False)])
def test_the_device_of_the_settings_decides_that(
    device: str, alike: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainer_node.daemon.open_runner.backend_of", lambda *_: repops.backend("cpu"))
    limits = SimpleNamespace(memory_bytes=1, exact_slowdown=1.0, log_bytes=1)
    names = ("fetcher", "database", "board", "metrics", "problems", "keeper")
    node: Any = SimpleNamespace(
        settings=SimpleNamespace(
            device=device, limits=limits, evaluator="numpy", calibration=None, workers=1
        ),
        **{name: SimpleNamespace() for name in names},
    )
    made = SimpleNamespace(works_at=None, gave_states=None, close=lambda: None)
    given = list[Equipment]()

    def kind(equipment: Equipment) -> Any:
        given.append(equipment)
        return made

    with open_runner(node, kind=kind):
        assert given[0].alike is alike


# ---------------------------------------------------------------------- before an appeal


@dataclass
class Slow:
    """A run whose processor is released by the test. ``second``: what its device gives the second time."""

    record: Record
    second: Record | None
    go: threading.Event = field(default_factory=threading.Event)

    def right(self, *_: int) -> Record:
        assert self.go.wait(120)
        return self.record

    def again(self, *_: int) -> Record | None:
        return self.second


@dataclass
class Spokesman(Told):
    """A source as a claimant's, with the rights of the player that asks it."""

    find: Any = None

    def right(self, patience_s: float, *, hurry: bool) -> Record | None:
        found: Record | None = self.find(patience_s, hurry=hurry)
        return found


def appellant(room: Room, run: Slow) -> Spokesman:
    room.has_come_to(HearingPhase.RULED, verdict=room.dispute.records[1].hash())
    find = partial(room.hearing_player.rights.of, room.hearing, run)
    return Spokesman(None, None, find=find)


EARLY, HALF = BEGAN + PERIOD // 2 - 1, BEGAN + PERIOD // 2


def test_the_loop_does_not_wait_for_the_processor_and_half_of_the_period_is_its_own(tmp_path: Path) -> None:
    room = Room(tmp_path, patience_s=0.0)
    own = room.dispute.records[0]
    run = Slow(own, own)
    source = appellant(room, run)
    for now in (BEGAN + 1, EARLY):
        assert room.attend(source, now=now) is None
    assert not run.go.is_set(), "the rounds came back while it computes"
    assert until(lambda: room.attend(source, now=HALF)).function == "appeal"
    run.go.set()


def test_a_device_that_gives_two_results_is_no_ground_for_an_appeal(tmp_path: Path) -> None:
    room = Room(tmp_path, patience_s=0.0)
    run = Slow(room.dispute.records[0], None)
    source = appellant(room, run)
    for now in range(BEGAN + 1, BEGAN + PERIOD, 10):
        assert room.attend(source, now=now) is None
    run.go.set()
    assert until(lambda: room.attend(source, now=BEGAN + PERIOD - 1)).function == "appeal"


def test_what_the_processor_says_counts_more_than_a_device(tmp_path: Path) -> None:
    """Also in the second half: an appeal that is not sent yet is not sent."""
    room = Room(tmp_path, patience_s=0.0)
    own, other = room.dispute.records
    run = Slow(other, own)
    source = appellant(room, run)
    assert until(lambda: room.attend(source, now=HALF)).function == "appeal"
    run.go.set()
    assert until(lambda: room.attend(source, now=HALF) is None)


def test_a_processor_that_fails_is_told_and_keeps_nobody_from_an_appeal_in_the_end(tmp_path: Path) -> None:
    room = Room(tmp_path, patience_s=60.0)

    @dataclass
    class Broken(Slow):
        def right(self, *_: int) -> Record:
            raise MemoryError("no room")

    source = appellant(room, Broken(room.dispute.records[0], room.dispute.records[0]))
    with pytest.raises(MemoryError, match="no room"):
        room.attend(source, now=EARLY)
    room.hearing_player.rights._again.result(room.hearing.id, lambda: room.dispute.records[0], 60.0)
    assert room.attend(source, now=HALF).function == "appeal"


def test_a_run_executes_an_operator_a_second_time_on_its_own_device(tmp_path: Path) -> None:
    class Fickle:
        """A device that is wrong now and then."""

        name, sums, wrong = "fickle", SumMode.REPOPS_F32, False

        def execute(self, name: str, inputs: Sequence[Array], attrs: dict[str, Any], /) -> list[Array]:
            outputs = repops.backend("cpu").execute(name, inputs, attrs)
            return (
                [array + 1 if array.dtype == np.float32 else array for array in outputs]
                if self.wrong
                else outputs
            )

    device = Fickle()
    run = Replay(product(8, 8, 8), device, Store(tmp_path, sync=False), Remembered())
    run.train()
    own = run.record(2, 0)
    assert run.again(2, 0) == own
    device.wrong = True
    assert run.again(2, 0) is None
