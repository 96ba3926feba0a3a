"""A training step: ours, ours with every node committed, and the same model and optimizer in eager torch."""

from __future__ import annotations

import dataclasses

import numpy as np
import repops
import torch

from assay_capture.capture import SGD, Recipe, build
from referee_py.execute import Run

from .eager import eager_step
from .recipes import built_in
from .report import RATIO, Table, factor, ms
from .timing import Work, medians, ratio, take_turns

STEPS = 100
STRIDE = 100
THREADS = (1, 2)


def wide_mlp() -> Recipe:
    """Return 784-1024-1024-10 on random data, batches of 128: large enough that arithmetic dominates."""
    draw = np.random.default_rng(0)
    layers = [torch.nn.Linear(784, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1024), torch.nn.ReLU()]
    return Recipe(
        name="wide-mlp",
        module=torch.nn.Sequential(*layers, torch.nn.Linear(1024, 10)),
        loss=torch.nn.functional.cross_entropy,
        optimizer=SGD(lr=0.01, momentum=0.9),
        data={"x": draw.standard_normal((1024, 784), dtype=np.float32), "y": draw.integers(0, 10, 1024)},
        steps=STEPS,
        batch_size=128,
    )


def measure(turns: int) -> Table:
    """Return milliseconds per step, and the extra time of commitments."""
    columns = ["model", "threads", "ours", "ours, committed", "eager torch", RATIO]
    table = Table("steps", [*columns, "a commitment adds", f"at stride {STRIDE}"])
    for recipe in (
        built_in("digits-mlp", steps=STEPS),
        built_in("digits-cnn", steps=STEPS),
        wide_mlp(),
    ):
        works = [*_ours(recipe), eager_step(recipe)]
        for threads in THREADS:
            torch.set_num_threads(threads)
            repops.set_num_threads(threads)
            plain, committed, eager = take_turns(works, turns)
            added = ratio(committed, plain) - 1
            row = [recipe.name, str(threads), *map(ms, medians([plain, committed, eager]))]
            table.add(*row, factor(ratio(eager, plain)), f"{added:+.0%}", f"{added / STRIDE:+.1%}")
    return table


def _ours(recipe: Recipe) -> list[Work]:
    """Return one step from the initial state, without and with its commitment."""
    bundle = build(dataclasses.replace(recipe, strides=(STRIDE, 10, 1)))
    run = Run.of(bundle, repops.backend("cpu"))
    # NOTE: a state remembers its hashes, and each step of a training run starts from a state that was never hashed.
    arrays = [value.array for value in run.advance(run.initial(), 1).values]

    def plain() -> object:
        return run.advance(run.restore(1, arrays), 2)

    def committed() -> object:
        return run.commit_step(run.restore(1, arrays))[1].root

    return [plain, committed]
