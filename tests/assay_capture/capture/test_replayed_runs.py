"""Recipes that take a run of elsewhere as it is: PyTorch's optimizer and schedule, the order of examples, tables."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from assay_capture.capture import SGD, CaptureError, Recipe, build, capture
from assay_capture.capture.trace import Objective

from . import eager

STEPS, BATCH = 6, 4
RNG = np.random.default_rng(0)
DATA = {
    "x": RNG.normal(size=(10, 5)).astype(np.float32),
    "y": RNG.normal(size=(10, 1)).astype(np.float32),
}
ORDER = RNG.integers(0, 10, (STEPS, BATCH))


def module() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 1))


def losses(recipe: Recipe) -> list[float]:
    bundle = build(recipe)

    class Labels:
        metrics, slots = bundle.metrics, bundle.labels["slots"]

    class Built:
        program, constants, initial, labels = bundle.program, bundle.constants, bundle.initial, Labels

    return eager.run_program(Built, recipe.steps)[0]  # type: ignore[arg-type]


def recipe(model: nn.Module, **options: Any) -> Recipe:
    base: dict[str, Any] = {"steps": STEPS, "batch_size": BATCH, "order": ORDER, "initial": "module"}
    return Recipe("replayed", model, nn.functional.mse_loss, data=DATA, **(base | options))


def test_an_optimizer_of_torch_with_its_schedule_and_an_order_replay_a_run() -> None:
    model = module()
    optimizer = torch.optim.AdamW(model.parameters(), 0.05, weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, 1.0, STEPS)
    ours = losses(recipe(model, optimizer=optimizer, scheduler=schedule))
    theirs = []
    for batch in eager.batches(DATA, ORDER):
        optimizer.zero_grad()
        value = nn.functional.mse_loss(model(batch["x"]), batch["y"])
        value.backward()
        optimizer.step()
        schedule.step()
        theirs.append(value.item())
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def test_capture_takes_an_optimizer_of_torch() -> None:
    model = module()
    given = capture(model, nn.functional.mse_loss, torch.optim.SGD(model.parameters(), 0.1), DATA, ORDER)
    own = capture(model, nn.functional.mse_loss, SGD(0.1), DATA, ORDER)
    assert given.program.file_hash() == own.program.file_hash()


def test_what_is_no_optimizer_is_refused() -> None:
    with pytest.raises(CaptureError, match="optimizer is str; give one of"):
        build(recipe(module(), optimizer="adam"))
    with pytest.raises(CaptureError, match="a scheduler for SGD"):
        build(recipe(module(), optimizer=SGD(0.1), scheduler=object()))


@pytest.mark.parametrize(
    ("order", "words"),
    [
        (ORDER[1:], "for 6 steps of 4 examples"),
        (ORDER[:, 1:], "for 6 steps of 4 examples"),
        (ORDER.astype(np.float32), "order must be i64"),
        (ORDER + 5, "order names examples"),
    ],
)
def test_an_order_that_does_not_fit_is_refused(order: Any, words: str) -> None:
    with pytest.raises(CaptureError, match=words):
        build(recipe(module(), optimizer=SGD(0.1), order=order))


class Weighted(Objective):
    """The mean square, times a number that each part of a step has."""

    def __call__(self, forward: Any, batch: Any) -> torch.Tensor:
        return nn.functional.mse_loss(forward(batch["x"]), batch["y"]) * batch["weight"]


def test_a_table_gives_a_number_for_each_step_and_part() -> None:
    weight = RNG.uniform(0.5, 2, (STEPS, 2)).astype(np.float32)
    model = module()
    options = {"tables": {"weight": weight}, "accumulate": 2, "optimizer": SGD(0.1)}
    ours = losses(replace(recipe(copy.deepcopy(model), **options), loss=Weighted(None, ())))
    optimizer, theirs = torch.optim.SGD(model.parameters(), 0.1), []
    for batch, numbers in zip(eager.batches(DATA, ORDER), weight, strict=True):
        optimizer.zero_grad()
        parts = [slice(0, 2), slice(2, 4)]
        value = sum(
            nn.functional.mse_loss(model(batch["x"][part]), batch["y"][part]) * float(number) / 2
            for part, number in zip(parts, numbers, strict=True)
        )
        value.backward()  # type: ignore[union-attr]
        optimizer.step()
        theirs.append(value.item())  # type: ignore[union-attr]
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        ({"weight": np.ones((STEPS, 2), np.float32)}, r"it must be finite f32 \[6, 1\]"),
        ({"weight": np.ones((STEPS, 1))}, "it must be finite f32"),
        ({"weight": np.full((STEPS, 1), np.nan, np.float32)}, "it must be finite f32"),
        ({"x": np.ones((STEPS, 1), np.float32)}, "x is an array of the data and a table"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(tables: Any, words: str) -> None:
    with pytest.raises(CaptureError, match=words):
        build(recipe(module(), optimizer=SGD(0.1), tables=tables))
