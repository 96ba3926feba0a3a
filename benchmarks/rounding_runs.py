"""Runs on different hardware: corrections per step, time per step, and whether the weights stay the same."""

from __future__ import annotations

import copy
import dataclasses
import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch

from assay_capture.capture import Recipe, build
from assay_capture.capture.seeded import data_order
from referee_py.commit.tensor import Array
from referee_py.execute import FastExecutor, State
from referee_py.program.modes import Rounding
from referee_py.rounding.log_source import MemoryLogs
from referee_py.rounding.step_log import StepLog

from .eager import eager_step, loss_of, optimizer_of
from .report import Table, ms
from .rounding import BITS, PAPER_CORRECTIONS, Borrowed, Replayer, recipe_of
from .timing import medians, one_thread, ratio

_ORDERS = ("halves", "blocked", "permuted", "interleaved")
AUDITORS = {
    "small-cnn": (*_ORDERS, "direct"),
    "small-gpt": (*_ORDERS, "numpy"),
    "resnet50": (*_ORDERS, "direct"),
    "gpt2-small": (*_ORDERS, "numpy"),
}
"""Evaluators of auditors. Each follows the whole run, and also trains without logs."""
LONG = {"small-cnn": 200, "small-gpt": 200, "resnet50": 20, "gpt2-small": 5}
CURVES = ("small-cnn", "small-gpt")
"""Models whose weights are compared to the end. For others, training without logs stops when states differ."""
TIMED = ("gpt2-small", "resnet50", "vgg11", "small-gpt", "small-cnn")
WARM_UP = 1
PLOT = Path(__file__).resolve().parent.parent / "docs/benchmarks-rounding.png"


def corrections(text: Path | None, steps: int = 2) -> Table:
    """Return the elements per step that the log corrects for an auditor: the mean of two auditors."""
    table = Table("rounding-corrections", ["model", "", *(f"b = {bits}" for bits in BITS)])
    with one_thread():
        for name in ("resnet50", "gpt2-small"):
            bundle = build(recipe_of(name, text))
            labels = bundle.labels["nodes"]
            rows: dict[str, list[str]] = {"forward": [], "backward and optimizer": [], "all": []}
            for bits in BITS:
                rounding, log_source = Rounding(bits), MemoryLogs()
                trainer = Replayer.of(bundle, rounding, log_source)
                for _ in range(steps):
                    trainer.step()
                counts = dict.fromkeys(rows, 0)
                for evaluator in ("permuted", "halves"):
                    auditor = Replayer.of(bundle, rounding, Borrowed(log_source.get), evaluator)
                    for _ in range(steps):
                        auditor.step()
                    for node, count in auditor.backend.corrected.items():
                        later = "gradient" in labels[node] or "optimizer" in labels[node]
                        counts["backward and optimizer" if later else "forward"] += count
                        counts["all"] += count
                for row, found in rows.items():
                    found.append(f"{counts[row] / steps / 2:.1f}")
            for row, found in rows.items():
                table.add(name, row, *found)
            table.add(name, "paper, all", *(PAPER_CORRECTIONS[name].get(bits, "") for bits in BITS))
    return table


class Files:
    """A log source whose logs are packed and committed to as they are written; a reader unpacks them."""

    def __init__(self, nodes: int) -> None:
        self._nodes = nodes
        self._files: dict[int, bytes] = {}

    def get(self, step: int) -> StepLog | None:  # noqa: ARG002
        return None

    def put(self, step: int, log: StepLog) -> None:
        self._files[step] = log.encode()
        log.root(self._nodes)

    def read(self, step: int) -> StepLog:
        return StepLog.decode(self._files.pop(step), self._nodes, 1 << 30)


def overhead(text: Path | None, turns: int, models: Sequence[str] = TIMED) -> Table:
    """Return milliseconds of CPU time per step, in turns."""
    columns = ["model", "b", "FP32", "FP64", "trainer", "auditor", "trainer / FP64", "auditor / FP64"]
    table = Table("rounding-overhead", [*columns, "trainer / FP32", "auditor / FP32"])
    with one_thread():
        for name in models:
            recipe = recipe_of(name, text)
            plain, wide = eager_step(recipe), eager_step(in_f64(recipe))
            bundle = build(recipe)
            for bits in (32, 26):
                files = Files(len(bundle.program.nodes))
                trainer = Replayer.of(bundle, Rounding(bits), files)
                auditor = Replayer.of(bundle, Rounding(bits), Borrowed(files.read))
                times: list[list[float]] = [[], [], [], []]
                for turn in range(WARM_UP + turns):
                    for found, work in zip(times, (plain, wide, trainer.step, auditor.step), strict=True):
                        began = time.process_time()
                        work()
                        if turn >= WARM_UP:
                            found.append(time.process_time() - began)
                    _same(trainer.state, auditor.state)
                _compiled(trainer, auditor)
                over = [f"{ratio(times[who], times[base]):.2f}" for base in (1, 0) for who in (2, 3)]
                table.add(name, str(bits), *(ms(value) for value in medians(times)), *over)
    return table


def in_f64(recipe: Recipe) -> Recipe:
    """Return the same training in FP64 throughout, with nothing rounded."""
    data = {
        name: array.astype(np.float64) if array.dtype == np.float32 else array
        for name, array in recipe.data.items()
    }
    return dataclasses.replace(recipe, module=copy.deepcopy(recipe.module).double(), data=data)


@dataclasses.dataclass
class Outcome:
    """Result of one run of a trainer, with auditors that differ from it."""

    table: Table
    curves: dict[str, list[float]]
    """Distance of weights from the trainer's, by step: auditors without logs, and plain FP32 in another order."""


def runs(name: str, bits: int, text: Path | None = None, steps: int | None = None) -> Outcome:
    """Run a trainer and different auditors: checkpoints are identical with logs; without, report where states part."""
    columns = [
        "model",
        "b",
        "steps",
        "auditor",
        "checkpoints with logs",
        "corrections per step",
        "states without logs",
    ]
    table, curves = Table("rounding-runs", [*columns, "distance at the end"]), dict[str, list[float]]()
    recipe, rounding, steps = recipe_of(name, text), Rounding(bits), steps or LONG[name]
    with one_thread():
        bundle, log_source = build(recipe), MemoryLogs()
        weights = [n for n, slot in enumerate(bundle.labels["slots"]) if slot.startswith("param.")]
        kept = weights if name in CURVES else []
        trainer = Replayer.of(bundle, rounding, log_source)
        truth = _run(trainer, steps, kept)
        for evaluator in AUDITORS[name]:
            auditor = Replayer.of(bundle, rounding, Borrowed(log_source.get), evaluator)
            followed = _run(auditor, steps, [])
            _same(trainer.state, auditor.state)
            corrections = f"{auditor.backend.corrections / steps:.3g}"
            del auditor  # NOTE: two states of the largest model are enough
            alone = Replayer.of(bundle, rounding, MemoryLogs(), evaluator)
            parted = _run(alone, steps, kept, None if kept else truth.hashes)
            curves[evaluator] = [_distance(a, b) for a, b in zip(parted.states, truth.states, strict=True)]
            pairs = enumerate(zip(parted.hashes, truth.hashes, strict=False), 1)
            step = next((step for step, (mine, theirs) in pairs if mine != theirs), None)
            table.add(
                *(name, str(bits), str(steps), evaluator),
                "identical"
                if (followed.roots, followed.hashes) == (truth.roots, truth.hashes)
                else "**differ**",
                corrections,
                f"part at step {step}" if step else "the same",
                f"{curves[evaluator][-1]:.1e}" if kept else "",
            )
        if kept and bits == 32:
            curves["FP32"] = _plain(recipe, steps)
    return Outcome(table, curves)


@dataclasses.dataclass
class _Run:
    roots: list[bytes] = dataclasses.field(default_factory=list)
    hashes: list[bytes] = dataclasses.field(default_factory=list)
    states: list[list[Array]] = dataclasses.field(default_factory=list)


def _run(party: Replayer, steps: int, weights: Sequence[int], until: Sequence[bytes] | None = None) -> _Run:
    """Return four checkpoints and these slots at twenty steps; for a short run, the last checkpoint and the slots of
    every step. With `until`, another run's hashes, stop when states differ from it.
    """
    at = {steps * k // 4 for k in (1, 2, 3, 4)} if steps > 5 else {steps}
    kept = points(steps) if weights else []
    found = _Run()
    for step in range(1, steps + 1):
        if step in at and until is None:
            found.roots.append(party.checkpoint())
        else:
            party.step()
        found.hashes.append(b"".join(party.state.slot_hashes()))
        if step in kept:
            found.states.append([party.state.arrays[slot].copy() for slot in weights])
        if until is not None and found.hashes[-1] != until[step - 1]:
            break
    return found


def points(steps: int) -> list[int]:
    """Return the steps at which weights are compared, including the last one."""
    return sorted({max(round(steps * k / 20), 1) for k in range(1, 21)})


def _plain(recipe: Recipe, steps: int) -> list[float]:
    """Compare ordinary FP32 training with the same on reversed batches, whose sums have another order."""
    sides = [copy.deepcopy(recipe.module), copy.deepcopy(recipe.module)]
    optimizers = [optimizer_of(recipe.optimizer, module) for module in sides]
    data = {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in recipe.data.items()}
    size = len(next(iter(data.values())))
    order = torch.from_numpy(data_order(recipe.seed, size, recipe.batch_size, steps))
    distances = []
    for step in range(1, steps + 1):
        for side, (module, optimizer) in enumerate(zip(sides, optimizers, strict=True)):
            chosen = order[step - 1].flip(0) if side else order[step - 1]
            batch = {name: tensor[chosen] for name, tensor in data.items()}
            optimizer.zero_grad()
            loss_of(recipe, module, batch).backward()
            optimizer.step()
        if step in points(steps):
            apart = [
                (a - b).double().square().sum() for a, b in zip(*(m.parameters() for m in sides), strict=True)
            ]
            distances.append(math.sqrt(float(sum(apart).detach())))
    return distances


def _compiled(*parties: Replayer) -> None:
    for party in parties:
        if not isinstance(party.executor, FastExecutor) or party.executor.compiled is None:
            raise AssertionError("steps ran node by node, which says nothing of a run")


def _same(a: State, b: State) -> None:
    if a.slot_hashes() != b.slot_hashes():
        raise AssertionError("an auditor has other weights than the trainer whose logs it follows")


def _distance(a: list[Array], b: list[Array]) -> float:
    """Return the Euclidean distance."""
    parts = [float(np.square(x.astype(np.float64) - y).sum()) for x, y in zip(a, b, strict=True)]
    return math.sqrt(sum(parts))


def measure(text: Path | None, *, draw: bool) -> Table:
    """Return the runs of all models, at 32 and 26 bits; ``draw``: the plot of the documentation, too."""
    outcomes = {(name, bits): runs(name, bits, text) for bits in (32, 26) for name in LONG}
    if draw:
        plot({name: outcomes[name, 32].curves for name in CURVES}, PLOT)
    tables = [outcome.table for outcome in outcomes.values()]
    return Table(tables[0].name, tables[0].columns, [row for table in tables for row in table.rows])


def plot(curves: Mapping[str, Mapping[str, list[float]]], path: Path) -> None:
    """Draw the distance of weights from the trainer's, by step: the paper's figure 5."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(curves), figsize=(5 * len(curves), 3.6), sharey=True)
    for panel, (name, lines) in zip(axes, curves.items(), strict=True):
        at = points(LONG[name])
        for label, distances in lines.items():
            plain = label == "FP32"
            look = {"color": "black", "linestyle": "--"} if plain else {}
            panel.plot(at, distances, label="FP32, two orders" if plain else f"FP64 rounded, {label}", **look)
        panel.plot(at, [0.0] * len(at), label="with logs, all of them", color="green", linewidth=2.5)
        panel.set_yscale("symlog", linthresh=1e-9)
        panel.set_title(name)
        panel.set_xlabel("step")
    axes[0].set_ylabel("distance of weights from the trainer's")
    axes[0].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=110, metadata={"Software": None})
    pyplot.close(figure)
