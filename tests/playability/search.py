"""The playability search: cases of every operator and mode, jobs about them, and the worst of each."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
from repops.opset import F32, OPS, Dtype, OpError, lookup
from repops.random_calls import Source, random_call
from repops.tensors import Array

from referee_py.element import Case, rule_of
from referee_py.errors import InvalidInput
from referee_py.gas_schedule import SCHEDULES
from referee_py.program import TensorType
from referee_py.program.modes import EXACT, REPOPS_F32, TC16, Bounds, Rounding
from referee_py.program.playable import MAX_BYTES, MAX_GAS
from tests.conftest import Anvil
from tests.referee_py.game.chain import ANVIL_OPTIONS as GAME_OPTIONS
from tests.referee_py.game.synthetic_run import Lie
from tests.twins.element.chain import ANVIL_OPTIONS as RULE_OPTIONS
from tests.twins.element.chain import Rules

from .agreement import Agreement, Tally
from .job import CaseGraph, graph_of
from .limits import Limits
from .play import Play
from .table import Bill, Table
from .trials import Style

NAMES = [op.name for op in OPS]
ROUNDED = [Rounding(bits, bounds).mode for bits in (26, 29, 32) for bounds in Bounds]
KINDS = {
    "repops-f32": [REPOPS_F32.byte],
    "exact": [EXACT.byte],
    "tc16": [TC16.byte],
    "rounded-f64": ROUNDED,
}
MODES = [mode for modes in KINDS.values() for mode in modes]
STYLES = (Style.SOLVER, Style.SOLVER, Style.GARBAGE, Style.GARBAGE, Style.SHOWS, Style.MUTE)
LIES = ("input", "structure", "log", "arity", "step padding", "run padding", "checkpoint", "bogus refine")
KEPT_STATES = "8"
PLAYS_OF_A_CHAIN = 60
"""anvil copies its whole state for each block, so a long chain is slow."""
MOST_ELEMENTS, MOST_STEPS = 1 << 14, 1 << 17
"""Limits of a case that is played: elements of all its tensors, and steps of its chains."""

Call = tuple[list[Array], dict[str, Any]]


# ------------------------------------------------------------------------------------------------------- calls to play


def edges() -> Iterator[tuple[str, Call]]:
    """Yield calls that may exceed a party's means: empty shapes, windows beyond the plane, long sums, many inputs."""
    values = Source("playability/edges", "tiny")
    for shape in (
        (1 << 22, 1 << 20, 0),
        (1 << 20, 0, 1 << 19),
        (0, (1 << 40) - 1),
        (1 << 39, 1, 0),
        (0,),
        (3, 0),
    ):
        yield "full", ([], {"shape": shape, "dtype": F32, "bits": 0})
        yield "neg", ([np.zeros(shape, np.float32)], {})
    huge = (1 << 24) - 1
    window = {"stride": (1, 1), "padding": (huge // 2,) * 2, "dilation": (1, 1)}
    yield "max_pool2d", ([values.f32((1, 1, 1, 1))], {"kernel": (huge, huge), **window})
    yield "max_pool2d", ([values.f32((1, 2, 2, 2))], {"kernel": (huge, huge), **window})
    apart = {"stride": (1, 1), "padding": (5, 5), "dilation": (7, 7)}
    yield "max_pool2d", ([values.f32((1, 1, 4, 4))], {"kernel": (2, 2), **apart})
    for count in (4_096 + 1, 2 * 4_096 + 33, 100_000):
        yield "sum", ([values.f32((count,))], {"dims": (0,), "keepdim": 0})
        yield "sum", ([np.full((count, 2), 1e-3, np.float32)], {"dims": (0,), "keepdim": 1})
    yield "sum", ([values.f32((3, 0))], {"dims": (1,), "keepdim": 0})
    yield "mm", ([values.f32((2, 0)), values.f32((0, 3))], {})
    yield "mm", ([values.f32((1, 5_000)), values.f32((5_000, 1))], {})
    for rank, dim in ((1, 0), (8, 0), (8, 7)):
        long: tuple[int, ...] = (40,) if rank == 1 else (2,) * 7 + (1,)
        yield "cat", ([values.f32(long) for _ in range(255)], {"dim": dim})
        yield "cat", ([values.f32(long)] * 255, {"dim": dim})
    yield "cat", ([values.f32((2, 0))] * 254 + [values.f32((2, 1))], {"dim": 1})
    yield (
        "where",
        ([values.array(dtype, (1,) * 7 + (300,)) for dtype in (Dtype.BOOL, Dtype.I64, Dtype.I64)], {}),
    )
    yield "scatter_add", ([values.f32((3, 2)), np.full(2_000, 1), values.f32((2_000, 2))], {})
    yield "slice", ([values.f32((300,))], {"dim": 0, "start": 0, "stop": 300, "step": (1 << 40) - 1})
    yield "arange", ([], {"n": 0})


def drawn(name: str, seed: object) -> Call:
    """Return a usual call, or one at a limit that is small enough to be computed."""
    random = Random(repr((seed, name)))
    if random.random() < 0.5:
        return random_call(name, f"play/{seed}", "tiny")
    limits = Limits((seed, name, "play"))
    for _ in range(200):
        specs, attrs = limits.call(name)
        if _computable(name, specs, attrs):
            values = Source(f"play/{name}/{seed}", "tiny")
            return [values.array(dtype, shape) for dtype, shape in specs], attrs
    return random_call(name, f"play/{seed}", "tiny")


def _computable(name: str, specs: Sequence[Any], attrs: dict[str, Any]) -> bool:
    try:
        outputs = lookup(name).infer(specs, attrs)
    except OpError:
        return False
    if sum(math.prod(shape) for _, shape in (*specs, *outputs)) > MOST_ELEMENTS:
        return False
    first, second = (tuple(TensorType(*spec) for spec in some) for some in (specs, outputs))
    given = dict(lookup(name).normalize(attrs))
    cases = (Case(name, first, second, given, k, 0) for k, kind in enumerate(second) if kind.count)
    return all(rule_of(case).length(case) <= MOST_STEPS for case in cases)


# ------------------------------------------------------------------------------------------------------ the search


@dataclass
class Report:
    """Results of a whole search."""

    tally: Tally = field(default_factory=Tally)
    played: Counter[tuple[str, int]] = field(default_factory=Counter)
    bills: dict[tuple[str, int], Bill] = field(default_factory=dict)
    endings: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)

    def bill(self, name: str, mode: int) -> Bill:
        return self.bills.setdefault((name, mode), Bill())

    def show(self) -> str:
        """Return a line for each operator and kind of mode, and totals."""
        lines = [
            _ROW.format(
                "operator",
                "mode",
                "cases",
                "taken",
                "played",
                "longest chain",
                "bytes",
                "of",
                *(word for schedule in SCHEDULES for word in (schedule.name, "of")),
                "solver s",
            )
        ]
        for name in NAMES:
            for label, modes in KINDS.items():
                lines.append(self._line(name, label, [(name, mode) for mode in modes]))
        keys = [(name, mode) for name in NAMES for mode in MODES]
        lines.append(self._line("all", "", keys))
        looked = {"steps": self.tally.steps, "tensors": self.tally.tensors, "programs": self.tally.programs}
        lines.append("compared " + ", ".join(f"{count:,} {what}" for what, count in looked.items()))
        lines.append(f"ended by {dict(self.endings)}")
        return "\n".join(lines)

    def _line(self, name: str, label: str, keys: Sequence[tuple[str, int]]) -> str:
        bills = [self.bills[key] for key in keys if key in self.bills]
        tally = self.tally
        sizes = [tally.bytes[key] for key in keys if key in tally.bytes]
        sizes += [(size, move) for bill in bills for move, size in bill.bytes.items() if "+" not in move]
        size = max(sizes, default=(0, ""))
        gas = [
            max(((gas[s.name], move) for bill in bills for move, gas in bill.gas.items()), default=(0, ""))
            for s in SCHEDULES
        ]
        return _ROW.format(
            name,
            label,
            f"{sum(tally.cases[key] for key in keys):,}",
            f"{sum(tally.taken[key] for key in keys):,}",
            f"{sum(self.played[key] for key in keys):,}",
            f"{max((tally.chain.get(key, 0) for key in keys), default=0):,}",
            f"{size[0]:,}",
            size[1].split(".")[-1],
            *(word for units, move in gas for word in (f"{units:,}", move.split(".")[-1])),
            f"{max((bill.solver_seconds for bill in bills), default=0):.2f}",
        )


_ROW = "{:<19}{:<12}{:>8}{:>8}{:>7}{:>15}{:>8} {:<14}{:>10} {:<14}{:>10} {:<14}{:>9}"


def search(start_anvil: Callable[..., Anvil], cases: int, plays: int, share: int = 1) -> Report:
    """Check `cases` cases of each operator and mode; play `plays` jobs of each operator, and each `share`-th edge."""
    report = Report()
    agreement = Agreement(Rules(start_anvil(*RULE_OPTIONS).url), report.tally)
    for name in NAMES:
        for mode in MODES:
            agreement.check(name, mode, cases, "search")
    agreement.programs(20 * cases, "search")
    jobs = _Jobs(start_anvil, report)
    for number in range(plays):
        for name in NAMES:
            jobs.play(name, drawn(name, number), number)
    for number, (name, call) in enumerate(edges()):
        if number % share == 0:
            for mode in (modes[number % len(modes)] for modes in KINDS.values()):
                jobs.play(name, call, number, mode)
    return report


class _Jobs:
    """Jobs on chains that are not too long."""

    def __init__(self, start_anvil: Callable[..., Anvil], report: Report) -> None:
        self._start, self.report = start_anvil, report
        self._left = 0
        self._number = 0

    def play(self, name: str, call: Call, seed: int, mode: int | None = None) -> None:
        """Play a job about this call, in some mode; do nothing if the program is refused."""
        self._number += 1
        random = Random(repr((seed, name, mode, self._number)))
        mode = random.choice(random.choice(list(KINDS.values()))) if mode is None else mode
        try:
            graph = graph_of(name, *call, mode, random)
        except (InvalidInput, OpError) as error:
            self.report.refused[f"{name}: {type(error).__name__}"] += 1
            return
        while True:
            one = self._job(graph, random)
            if not one.pointless:
                break
        one.table.bill = self.report.bill(name, mode)
        try:
            one.play()
        except Exception as error:
            error.add_note(
                f"job {self._number}: {name}, mode {mode:#x}, {one.style}, side {one.side}, {one.rules}"
            )
            raise
        self.report.played[name, mode] += 1
        ended = [m.state.reason.name for m in one.model.matches.values() if m.job_id == one.job_id]
        self.report.endings[ended[-1]] += 1

    def _job(self, graph: CaseGraph, random: Random) -> Play:
        kind = "output" if random.random() < 0.75 else random.choice(LIES)
        step, k, seed = random.randint(1, graph.steps), random.randrange(256), random.randrange(1 << 30)
        if kind == "arity" and graph.structures[graph.node][2] == 255:
            seed &= ~1  # a record has no more inputs, so it has fewer outputs
        return Play(
            self._table(),
            graph,
            Lie(kind, step, graph.node, k, seed),
            side=random.randrange(2),
            style=random.choice(STYLES),
            court_only=random.random() < 2 / 3,
            seed=(self._number, seed),
            one_by_one=random.random() < 0.5,
        )

    def _table(self) -> Table:
        if not self._left:
            # NOTE: the last option is followed by how many states are kept: to count what a transaction has left
            # behind, the chain executes it again.
            self._open = Table(self._start(*GAME_OPTIONS, KEPT_STATES).url)
            self._left = PLAYS_OF_A_CHAIN
        self._left -= 1
        return self._open


def check(report: Report) -> None:
    """Fail for every deviation."""
    kinds = Counter((found.what, found.name) for found in report.tally.findings)
    first = report.tally.findings[:5]
    assert not kinds, f"{dict(kinds)}\n" + "\n".join(map(str, first))
    for key, bill in report.bills.items():
        for move, size in bill.bytes.items():
            assert size <= MAX_BYTES, (key, move, size)
            assert max(bill.gas[move].values()) <= MAX_GAS, (key, move, bill.gas[move])
