"""Held-out loss: the program of an evaluation on states of a training run, compared with eager PyTorch."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import repops
import torch
from torch import nn

from assay_capture.capture import Adam, CaptureError, Recipe, build
from assay_capture.inference import Evaluate
from referee_py.errors import InvalidInput
from referee_py.execute import Run
from referee_py.program.modes import Rounding
from tests.trainer_node.cli.growing import growing, start
from trainer_node.local.bundle import Bundle
from trainer_node.local.evaluation import Evaluation

BATCH = 8


def recipe() -> Recipe:
    """Batch norm, whose running statistics are state, dropout, and a frozen layer."""
    torch.manual_seed(0)
    module = nn.Sequential(
        nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Dropout(0.5), nn.ReLU(), nn.Linear(6, 5), nn.Linear(5, 3)
    )
    for parameter in module[4].parameters():
        parameter.requires_grad_(False)
    data = {"x": torch.randn(64, 4).numpy(), "y": torch.randint(3, (64,)).numpy()}
    return Recipe("small", module, nn.functional.cross_entropy, Adam(1e-2), data, 20, BATCH, strides=(10, 1))


def layers(job: Recipe) -> nn.Sequential:
    assert isinstance(job.module, nn.Sequential)
    return job.module


def held_out(rows: int = 3 * BATCH + 5) -> dict:
    torch.manual_seed(1)
    return {"x": torch.randn(rows, 4).numpy(), "y": torch.randint(3, (rows,)).numpy()}


@pytest.fixture(scope="module")
def bundles() -> tuple[Bundle, Bundle]:
    return build(recipe()), Evaluate(recipe(), held_out()).build()


def _eager(training: Bundle, arrays: list) -> float:
    named = dict(zip(training.labels["slots"], arrays, strict=True))
    named |= dict(zip(training.labels["constants"], training.constants, strict=True))
    module, data = recipe().module.eval(), held_out()
    own = {
        name: torch.from_numpy(named[key])
        for name in module.state_dict()
        if (key := next((f"{k}.{name}" for k in ("param", "frozen", "buffer") if f"{k}.{name}" in named), ""))
    }
    module.load_state_dict(own, strict=False)
    x, y = (torch.from_numpy(data[name])[: 3 * BATCH] for name in ("x", "y"))
    return float(nn.functional.cross_entropy(module(x), y).detach())


def test_it_is_the_mean_loss_of_the_state(bundles: tuple[Bundle, Bundle]) -> None:
    training, evaluating = bundles
    evaluation = Evaluation(evaluating, training)
    run = Run.of(training, repops.backend("cpu"))
    found = []
    for step in (0, 7, 20):
        state = run.advance(run.initial(), step)
        found.append(evaluation.of(state)["eval.loss"])
        assert found[-1] == pytest.approx(_eager(training, state.arrays), rel=1e-5)
    assert len(set(found)) == 3
    again = Evaluation(evaluating, training)
    assert again.of(run.advance(run.initial(), 7)) == {"eval.loss": found[1]}, "bit for bit"


def test_a_run_writes_it(bundles: tuple[Bundle, Bundle], tmp_path: Path) -> None:
    job, evaluating = bundles[0].write(tmp_path / "job"), bundles[1].write(tmp_path / "evaluation")
    out = tmp_path / "run"
    options = ("--out", out, "--evaluate", evaluating, "--evaluate-every", 8)
    _, errors = start(job, *options, "--steps", 10).communicate(timeout=300)
    output, errors = start(job, *options, "--resume").communicate(timeout=300)
    assert "eval.loss" in output, errors
    assert "step 16 of 20  eval.loss " in errors
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows if "eval.loss" in row] == [8, 10, 16, 20]


def test_what_cannot_be_evaluated_is_refused(bundles: tuple[Bundle, Bundle]) -> None:
    training, evaluating = bundles
    with pytest.raises(InvalidInput, match="no slot of small-evaluation is named like one of growing"):
        Evaluation(evaluating, growing(3, (1,)))
    with pytest.raises(InvalidInput, match="rounded-f64"):
        Evaluation(evaluating.with_mode(Rounding().mode), training)
    wide = replace(recipe(), module=nn.Sequential(nn.Linear(4, 7), nn.ReLU(), nn.Linear(7, 3)))
    with pytest.raises(InvalidInput, match=r"param.0.weight is .*6, 4.* and .*7, 4"):
        Evaluation(Evaluate(wide, held_out()).build(), training)
    for data, words in (
        ({"x": held_out()["x"]}, "arrays x, y"),
        (held_out(3), "fewer rows than a batch"),
    ):
        with pytest.raises(CaptureError, match=words):
            Evaluate(recipe(), data).build()


def test_a_module_that_is_only_partly_the_same_is_refused(bundles: tuple[Bundle, Bundle]) -> None:
    """Its other tensors would keep the values that they had when the evaluation was built."""
    training, evaluating = bundles
    longer = replace(recipe(), module=nn.Sequential(*layers(recipe()), nn.Linear(3, 3)))
    with pytest.raises(InvalidInput, match=r"param\.6\.weight of small-evaluation is not trained by small"):
        Evaluation(Evaluate(longer, held_out()).build(), training)
    frozen = recipe()
    layers(frozen)[0].weight.requires_grad_(False)
    with pytest.raises(InvalidInput, match=r"frozen\.0\.weight of .* same parameters frozen"):
        Evaluation(Evaluate(frozen, held_out()).build(), training)
    with pytest.raises(InvalidInput, match=r"param\.0\.weight of"):
        Evaluation(evaluating, build(frozen, check=False))
    with pytest.raises(InvalidInput, match="names no metric"):
        Evaluation(replace(evaluating, labels={**evaluating.labels, "metrics": {}}), training)


def test_frozen_tensors_are_those_of_the_seed() -> None:
    """A training that folds a frozen tensor away has no constant of that name, which would say its value."""
    evaluating = Evaluate(recipe(), held_out()).build()
    training = build(recipe(), check=False)
    values = dict(zip(evaluating.names.slots, evaluating.initial, strict=True))
    for names, arrays in (
        (training.names.slots, training.initial),
        (training.names.constants, training.constants),
    ):
        for name, array in zip(names, arrays, strict=True):
            if name in values:
                assert (values[name] == array).all(), name


def test_the_recipe_stays_one_of_training() -> None:
    """Dropout and batch norm of a program that is captured afterwards are those of training."""
    job = recipe()
    layers(job)[4].eval()
    Evaluate(job, held_out()).build()
    assert [module.training for module in layers(job)] == [True, True, True, True, False, True]
