"""Recipes: built-in and from a file; a program is the same wherever and whenever it is built."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import repops
import torch
from torch import nn

from assay_capture.capture import BUILTIN, SGD, CaptureError, Recipe, build, capture, load_recipe
from assay_capture.capture.recipe import seeded_parameters
from assay_capture.capture.recipes import digits as recipes_of_digits
from assay_capture.capture.recipes.digits import digits
from assay_capture.capture.seeded import data_order, permutation, uniform
from referee_py.execute import Metrics, Run
from trainer_node.local.bundle import Bundle

from .. import eager

BUILD = """
import sys
from assay_capture.capture import build, load_recipe
from referee_py.execute import Run
import repops
bundle = build(load_recipe(sys.argv[1], steps=3, batch_size=8))
run = Run(bundle.program, bundle.constants, bundle.initial, 3, (1,), repops.backend("cpu"))
print(bundle.program.file_hash().hex(), bundle.terms.hash().hex(), run.commit_run().root.hex())
"""


def test_digits_are_those_of_scikit_learn() -> None:
    """The digest is of what its own function gives; the package is not imported, since that takes seconds."""
    flat, images = digits(image=False), digits(image=True)
    found = hashlib.sha256(flat["x"].tobytes() + flat["y"].tobytes()).hexdigest()
    assert found == "8b3b6ae90863430bdef06a3f7d1ec2f6a905a53d3375655b18cf63780ad98772"
    assert (images["x"].shape, images["x"].tobytes()) == ((1797, 1, 8, 8), flat["x"].tobytes())


def test_digits_without_scikit_learn_name_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipes_of_digits, "find_spec", lambda _: None)
    with pytest.raises(CaptureError, match=r"install the extra \[demo\]"):
        digits(image=False)


@pytest.mark.parametrize(
    "name",
    ["digits-cnn", *(pytest.param(name, marks=pytest.mark.slow) for name in ("digits-mlp", "llama-tiny"))],
)
def test_program_and_run_do_not_depend_on_process_hash_seed_threads_or_vector_width(name: str) -> None:
    outputs = set()
    for seed, threads, width in (("0", "1", "default"), ("12345", "2", "")):
        environment = {
            **os.environ,
            "PYTHONHASHSEED": seed,
            "OMP_NUM_THREADS": threads,
            "REPOPS_NUM_THREADS": threads,
            "TRANSFORMERS_VERBOSITY": "error",
            **({"ATEN_CPU_CAPABILITY": width} if width else {}),
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        }
        result = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", BUILD, name],
            env=environment,
            capture_output=True,
            text=True,
        )
        assert result.returncode == 0, result.stderr
        outputs.add(result.stdout)
    assert len(outputs) == 1


NODES = {
    "digits-mlp": 70,
    "digits-mlp-adam": 120,
    "digits-mlp-bf16": 80,
    "digits-cnn": 160,
    "logistic": 40,
    "resnet-tiny": 760,
    "gpt2-tiny": 920,
    "gpt2-tiny-bf16": 1150,
    "distilbert-tiny": 1060,
    "llama-tiny": 850,
    "llama-lora-tiny": 1100,
    "llama-lora-tiny-bf16": 1580,
}
SMALLEST = ("digits-mlp", "digits-mlp-adam", "digits-cnn", "logistic")
LARGE = {"vgg11": 660, "gpt2-small": 4500, "llama-100m": 4500, "resnet50": 3450, "distilbert": 2750}


def test_every_recipe_is_tested_here() -> None:
    assert set(BUILTIN) == {*NODES, *LARGE}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in SMALLEST else [pytest.mark.slow]) for name in NODES]
)
def test_built_in_recipes_stay_small_and_learn(name: str) -> None:
    steps = 120
    bundle = build(load_recipe(name, steps=steps))
    assert len(bundle.program.nodes) <= NODES[name]
    metrics = Metrics(bundle.metrics)
    run = Run.of(
        bundle,
        repops.backend("cpu"),
        hook=metrics,
    )
    losses: list[float] = []
    run.advance(run.initial(), steps, lambda *_: losses.append(float(metrics.latest["loss"])))
    assert np.mean(losses[-10:]) < 0.9 * np.mean(losses[:10])


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_full_size_recipes_stay_small(name: str) -> None:
    assert len(build(load_recipe(name, steps=3)).program.nodes) <= LARGE[name]


SMALL_BATCH: dict[str, dict[str, int]] = {
    "vgg11": {"batch_size": 8},
    "resnet50": {"batch_size": 8},
    "gpt2-small": {"batch_size": 2, "length": 32},
    "distilbert": {"batch_size": 2, "length": 32},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL_BATCH)
def test_gradients_of_full_size_models_are_those_of_fp64(name: str) -> None:
    """To 1e-5, without dropout. ResNet-50 at its random start amplifies rounding: for it, as near as eager FP32."""
    recipe = load_recipe(name, steps=1, **SMALL_BATCH[name])
    assert isinstance(recipe, Recipe)
    module, data = recipe.module, recipe.data
    values = {k: torch.from_numpy(value()) for k, value in seeded_parameters(module, 0).items()}
    module.load_state_dict(values, strict=False)
    for layer in module.modules():
        if isinstance(layer, nn.Dropout):
            layer.p = 0.0
        elif "Attention" in type(layer).__name__:
            layer.eval()
    order = data_order(0, len(next(iter(data.values()))), recipe.batch_size, 1)
    built = capture(module, recipe.loss, SGD(0.1), data, order, gradients=True)
    objective = eager.own_loss if recipe.loss is None else eager.of(recipe.loss)
    tolerance = 1e-5
    if name == "resnet50":
        exact = eager.gradients_f64(module, objective, data, order)[1]
        tolerance = 2 * eager.relative_error(eager.gradients_f32(module, objective, data, order), exact)
    eager.check_gradients(built, module, objective, data, order, tolerance)


def test_the_seed_changes_weights_and_order_but_not_the_graph() -> None:
    one, two = (build(load_recipe("digits-mlp", steps=3, seed=seed)) for seed in (1, 2))
    assert one.terms.structure_root == two.terms.structure_root
    assert one.terms.initial_root != two.terms.initial_root
    assert one.terms.constant_root != two.terms.constant_root


RECIPE = """
from torch import nn
import numpy as np
from assay_capture.capture import Recipe, SGD

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


def test_a_recipe_imports_the_files_beside_it(tmp_path: Path) -> None:
    name = f"mine_{tmp_path.name}".replace("-", "_")
    (tmp_path / f"{name}.py").write_text(RECIPE)
    (tmp_path / "recipe.py").write_text(
        f"import {name}\n\n\ndef tiny(steps=6):\n    from {name} import tiny\n    return tiny(steps)\n"
    )
    before = list(sys.path)
    try:
        assert isinstance(load_recipe(f"{tmp_path / 'recipe.py'}:tiny"), Recipe)
    finally:
        sys.modules.pop(name, None)
    assert sys.path == before


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("digits-transformer", "give path/to/file.py:function or one of digits-cnn, digits-mlp"),
        ("missing.py:tiny", "missing.py does not exist"),
        ("{file}:other", "has no function other$"),
        ("{file}:tinny", "has no function tinny; did you mean tiny?"),
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


class Squared(nn.Module):
    """A module whose line is known."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.layer(x)
        return y * y


def test_a_nodes_label_names_module_operator_and_line_of_pytorch() -> None:
    recipe = load_recipe("digits-mlp", steps=2, batch_size=4)
    assert isinstance(recipe, Recipe)
    labels = build(replace(recipe, module=Squared())).labels["nodes"]
    first = Squared.forward.__code__.co_firstlineno
    here = Path(__file__).name
    assert f"layer: aten.addmm.default ({here}:{first + 1})" in labels
    assert f"Squared: aten.mul.Tensor ({here}:{first + 2})" in labels
