"""Recipes: built-in and from a file; a program is the same wherever and whenever it is built."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import repops

from referee_py.execute import Metrics, Run
from trainer_node.bundle import Bundle
from trainer_node.capture import CaptureError, build, load_recipe
from trainer_node.capture.sampling import data_order, permutation, uniform

BUILD = """
from trainer_node.capture import build, load_recipe
from referee_py.execute import Run
import repops
for name in ("digits-mlp", "digits-cnn"):
    bundle = build(load_recipe(name, steps=3, batch_size=8))
    run = Run(bundle.program, bundle.constants, bundle.initial, 3, (1,), repops.backend("cpu"))
    print(bundle.program.file_hash().hex(), bundle.terms.hash().hex(), run.commit_run().root.hex())
"""


def test_program_and_run_do_not_depend_on_hash_seed_threads_or_process() -> None:
    outputs = set()
    for seed, threads in (("0", "1"), ("12345", "2")):
        environment = {
            **os.environ,
            "PYTHONHASHSEED": seed,
            "OMP_NUM_THREADS": threads,
            "REPOPS_NUM_THREADS": threads,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        }
        result = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", BUILD],
            env=environment,
            capture_output=True,
            text=True,
        )
        assert result.returncode == 0, result.stderr
        outputs.add(result.stdout)
    assert len(outputs) == 1


@pytest.mark.parametrize(
    ("name", "nodes"), [("digits-mlp", 70), ("digits-mlp-adam", 120), ("digits-cnn", 160)]
)
def test_built_in_recipes_stay_small(name: str, nodes: int) -> None:
    assert len(build(load_recipe(name, steps=3)).program.nodes) <= nodes


@pytest.mark.parametrize("name", ["digits-mlp", "digits-mlp-adam", "digits-cnn"])
def test_built_in_recipes_learn(name: str) -> None:
    bundle = build(load_recipe(name, steps=120))
    metrics = Metrics(bundle.metrics)
    run = Run(
        bundle.program,
        bundle.constants,
        bundle.initial,
        bundle.terms.steps,
        bundle.terms.strides,
        repops.backend("cpu"),
        hook=metrics,
    )
    losses: list[float] = []
    run.advance(run.initial(), 120, lambda *_: losses.append(float(metrics.latest["loss"])))
    assert np.mean(losses[-10:]) < 0.8 * np.mean(losses[:10])


def test_the_seed_changes_weights_and_order_but_not_the_graph() -> None:
    one, two = (build(load_recipe("digits-mlp", steps=3, seed=seed)) for seed in (1, 2))
    assert one.terms.structure_root == two.terms.structure_root
    assert one.terms.initial_root != two.terms.initial_root
    assert one.terms.constant_root != two.terms.constant_root


RECIPE = """
from torch import nn
import numpy as np
from trainer_node.capture import Recipe, SGD

def tiny(steps: int = 4) -> Recipe:
    return Recipe(
        name="tiny", module=nn.Linear(2, 1), loss=nn.functional.mse_loss, optimizer=SGD(0.1),
        data={"x": np.eye(2, dtype=np.float32), "y": np.ones((2, 1), np.float32)},
        steps=steps, batch_size=2, strides=(2, 1),
    )

def not_a_recipe() -> int:
    return 1
"""


def test_a_recipe_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(RECIPE)
    bundle = build(load_recipe(f"{file}:tiny", steps=6, seed=None))
    assert (bundle.name, bundle.terms.steps, bundle.terms.strides) == ("tiny", 6, (2, 1))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("digits-transformer", "give path/to/file.py:function or one of digits-cnn, digits-mlp"),
        ("missing.py:tiny", "missing.py does not exist"),
        ("{file}:other", "has no function other"),
        ("{file}:not_a_recipe", "gives int; it must give a Recipe"),
    ],
)
def test_a_recipe_that_cannot_be_loaded_is_refused(tmp_path: Path, spec: str, message: str) -> None:
    file = tmp_path / "mine.py"
    file.write_text(RECIPE)
    with pytest.raises(CaptureError, match=message):
        load_recipe(spec.format(file=file))


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(CaptureError, match=r"recipe digits-mlp: .*colour"):
        load_recipe("digits-mlp", colour="blue")


def test_the_same_bundle_is_written_and_read_back(tmp_path: Path) -> None:
    bundle = build(load_recipe("digits-mlp", steps=3))
    again = Bundle.read(bundle.write(tmp_path / "job"))
    assert (again.program, again.terms, again.metrics) == (bundle.program, bundle.terms, bundle.metrics)
    again.program.check_tensors(again.constants, again.initial)


# ------------------------------------------------------------------------------------------------------ sampling


def test_sampling_gives_these_numbers_for_ever() -> None:
    """A change here changes every program that is built from a seed."""
    assert uniform(1, "w", (3,), 0.5).tolist() == [
        -0.46914148330688477,
        0.048242390155792236,
        -0.3648020029067993,
    ]
    assert permutation(1, "p", 8).tolist() == [1, 2, 5, 0, 7, 4, 6, 3]


def test_uniform_fills_its_range_and_stays_in_it() -> None:
    values = uniform(3, "w", (100, 100), 0.25)
    assert values.dtype == np.float32
    assert -0.25 <= values.min() < -0.249
    assert 0.249 < values.max() < 0.25
    assert abs(values.mean()) < 0.005


def test_every_epoch_takes_every_example_once() -> None:
    order = data_order(0, 10, 4, 10)
    assert order.shape == (10, 4)
    epochs = order.reshape(4, 10)
    assert all(sorted(epoch) == list(range(10)) for epoch in epochs.tolist())
    assert len({tuple(epoch) for epoch in epochs.tolist()}) == 4
