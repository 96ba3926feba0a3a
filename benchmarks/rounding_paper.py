"""Overhead of rounding as the paper counts it: elapsed time, with files of logs and a Merkle tree every 5 steps."""

from __future__ import annotations

import gc
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from assay_capture.capture import build
from referee_py.commit.hashing import Tag
from referee_py.commit.merkle import Tree
from referee_py.program.modes import Rounding
from referee_py.rounding.step_log import StepLog

from .eager import eager_step
from .report import Table, ms
from .rounding import Borrowed, Replayer, recipe_of
from .rounding_runs import in_f64
from .timing import medians, one_thread, ratio

EVERY = 5
"""Steps between checkpoints: k of their table 5."""
PAPER = {"resnet50": (28 / 24, 31 / 24), "gpt2-small": (11 / 8, 13.5 / 8)}
"""Trainer and auditor over the original, in their table 5."""


class Disk:
    """A log source in a folder. A log is on the disk before the next step begins."""

    def __init__(self, folder: Path, nodes: int) -> None:
        self._folder, self._nodes = folder, nodes

    def get(self, step: int) -> StepLog | None:  # noqa: ARG002
        return None

    def put(self, step: int, log: StepLog) -> None:
        with (self._folder / str(step)).open("wb") as file:
            file.write(log.encode())
            file.flush()
            os.fsync(file.fileno())
        log.root(self._nodes)

    def read(self, step: int) -> StepLog:
        return StepLog.decode((self._folder / str(step)).read_bytes(), self._nodes, 1 << 30)


def measure(text: Path | None, turns: int) -> Table:
    """Return milliseconds of elapsed time a step, in turns of `EVERY` steps."""
    columns = ["model", "b", "FP32", "FP64", "trainer", "auditor", "trainer / FP64", "auditor / FP64"]
    table = Table(
        "rounding-paper", [*columns, "paper: trainer", "auditor", "trainer / FP32", "auditor / FP32"]
    )
    with one_thread():
        for name in PAPER:
            for bits in (32, 26):
                with tempfile.TemporaryDirectory() as folder:
                    _add(table, name, bits, Path(folder), text, turns)
                gc.collect()
    return table


def _add(table: Table, name: str, bits: int, folder: Path, text: Path | None, turns: int) -> None:
    recipe = recipe_of(name, text)
    bundle = build(recipe)
    logs = Disk(folder, len(bundle.program.nodes))
    trainer = Replayer.of(bundle, Rounding(bits), logs)
    auditor = Replayer.of(bundle, Rounding(bits), Borrowed(logs.read))
    parties = [
        _steps(eager_step(recipe)),
        _steps(eager_step(in_f64(recipe))),
        _steps(trainer.step, trainer),
        _steps(auditor.step, auditor),
    ]
    times: list[list[float]] = [[] for _ in parties]
    for turn in range(1 + turns):
        for found, work in zip(times, parties, strict=True):
            began = time.perf_counter()
            work()
            if turn:  # the first one warms up
                found.append((time.perf_counter() - began) / EVERY)
    assert trainer.state.slot_hashes() == auditor.state.slot_hashes()
    over = [f"{ratio(times[who], times[base]):.2f}" for base in (1, 0) for who in (2, 3)]
    paper = [f"{value:.2f}" for value in PAPER[name]]
    table.add(name, str(bits), *(ms(value) for value in medians(times)), *over[:2], *paper, *over[2:])


def _steps(step: Callable[[], object], party: Replayer | None = None) -> Callable[[], None]:
    """Return a function that takes `EVERY` steps, and commits to the state after them if it has one."""

    def run() -> None:
        for _ in range(EVERY):
            step()
        if party is not None:
            Tree(Tag.INITIAL_TREE, party.state.slot_hashes())

    return run
