"""Models exported by PyTorch train from their ONNX files as they do in PyTorch."""

from __future__ import annotations

import contextlib
import copy
import io
import logging
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import repops
import torch
from torch import nn

from assay_capture.capture import SGD, CaptureError, build, capture
from assay_capture.capture.seeded import data_order, uniform
from assay_capture.datasets import Dataset
from assay_capture.model_files import cross_entropy, optimizer_of, recipe
from assay_capture.onnx import load
from referee_py.execute import Metrics, Run
from trainer_node.local.bundle import Bundle

RNG = np.random.default_rng(11)
EXAMPLES, CLASSES, VOCABULARY, LENGTH = 48, 4, 40, 8


class Logits(nn.Module):
    """A model of `transformers` as a function of one tensor."""

    def __init__(self, model: nn.Module, **more: Any) -> None:
        super().__init__()
        self.model = model
        self.more = more

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.model(x, **self.more).logits


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, CLASSES))


def resnet() -> nn.Module:
    """ResNet-18: four stages of two basic blocks, narrow."""
    from transformers import ResNetConfig, ResNetForImageClassification

    config = ResNetConfig(
        embedding_size=8,
        hidden_sizes=[8, 8, 16, 16],
        depths=[2, 2, 2, 2],
        layer_type="basic",
        num_labels=CLASSES,
    )
    return Logits(ResNetForImageClassification(config))


def gpt2() -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=VOCABULARY,
        n_positions=LENGTH,
        n_embd=16,
        n_layer=2,
        n_head=2,
        resid_pdrop=0,
        embd_pdrop=0,
        attn_pdrop=0,
        attn_implementation="eager",
    )
    # NOTE: the older exporter cannot write how `transformers` derives these if they are not given.
    said = {
        "attention_mask": torch.ones(1, LENGTH, dtype=torch.int64),
        "position_ids": torch.arange(LENGTH).unsqueeze(0),
        "use_cache": False,
    }
    return Logits(GPT2LMHeadModel(config), **said)


def distilbert() -> nn.Module:
    from transformers import DistilBertConfig, DistilBertForSequenceClassification

    config = DistilBertConfig(
        vocab_size=VOCABULARY,
        max_position_embeddings=LENGTH,
        dim=16,
        n_layers=2,
        n_heads=2,
        hidden_dim=32,
        dropout=0,
        attention_dropout=0,
        seq_classif_dropout=0,
        num_labels=CLASSES,
    )
    return Logits(DistilBertForSequenceClassification(config))


def images() -> np.ndarray[Any, Any]:
    return RNG.standard_normal((EXAMPLES, 3, 32, 32)).astype(np.float32)


def tokens() -> np.ndarray[Any, Any]:
    return RNG.integers(0, VOCABULARY, (EXAMPLES, LENGTH))


MODELS: dict[str, tuple[Callable[[], nn.Module], np.ndarray[Any, Any]]] = {
    "mlp": (mlp, RNG.standard_normal((EXAMPLES, 6)).astype(np.float32)),
    "resnet": (resnet, images()),
    "gpt2": (gpt2, tokens()),
    "distilbert": (distilbert, tokens()),
}
EXPORTS = [(name, False) for name in MODELS] + [
    pytest.param(name, True, marks=[] if name == "mlp" else [pytest.mark.slow])
    for name in MODELS
    if name != "resnet"
]
"""Model, and whether the newer exporter is used. It writes batch norm as in evaluation, so without ResNet."""


def seeded(module: nn.Module) -> nn.Module:
    """Draw every parameter from a seed, including zeros and ones: no tensor may pass for another."""
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            drawn = torch.from_numpy(uniform(3, name, tuple(parameter.shape), 0.2))
            parameter.copy_(drawn + 1 if parameter.ndim == 1 and name.endswith("weight") else drawn)
    return module.train()


def export(module: nn.Module, x: torch.Tensor, path: Path, newer: bool) -> Path:
    """Export the module. NOTE: the newer exporter's optimizer unties weights and merges equal tensors."""
    options: dict[str, Any] = {
        "training": torch.onnx.TrainingMode.TRAINING,
        "do_constant_folding": False,
        "opset_version": 17,
        "dynamo": False,
    }
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings(action="ignore"), contextlib.redirect_stdout(io.StringIO()):
        if newer:
            torch.onnx.export(module, (x,), path, dynamo=True, optimize=False, verbose=False)
        else:
            torch.onnx.export(module, (x,), path, **options)
    return path


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, bool], tuple[nn.Module, Path]]:
    """Return the module, a copy for each test, and its ONNX file, made once.

    NOTE: the older exporter runs the model before it writes. So the running statistics of the file are those that the
    module has after the export, and a test that runs the module must not move them for the next one.
    """
    made: dict[tuple[str, bool], tuple[nn.Module, Path]] = {}
    folder = tmp_path_factory.mktemp("onnx")

    def of(name: str, newer: bool) -> tuple[nn.Module, Path]:
        if (name, newer) not in made:
            make, data = MODELS[name]
            module = seeded(make())
            x = torch.from_numpy(data[:8])
            made[name, newer] = (module, export(module, x, folder / f"{name}-{newer}.onnx", newer))
        module, path = made[name, newer]
        return copy.deepcopy(module), path

    return of


Exported = Callable[[str, bool], tuple[nn.Module, Path]]


def targets(name: str) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(5)
    return (
        rng.integers(0, VOCABULARY, (EXAMPLES, LENGTH))
        if name == "gpt2"
        else rng.integers(0, CLASSES, EXAMPLES)
    )


@pytest.mark.parametrize(("name", "newer"), EXPORTS)
def test_outputs_and_gradients_are_those_of_the_original(name: str, newer: bool, exported: Exported) -> None:
    original, path = exported(name, newer)
    imported = load(path).train()
    x, y = torch.from_numpy(MODELS[name][1][:8]), torch.from_numpy(targets(name)[:8])
    sums = []
    for module in (original, imported):
        module.zero_grad()
        output = module(x)
        cross_entropy(output, y).backward()
        sums.append(
            (output.detach(), sorted(float(p.grad.norm()) for p in module.parameters() if p.grad is not None))
        )
    torch.testing.assert_close(sums[0][0], sums[1][0], rtol=1e-4, atol=1e-5)
    assert len(sums[0][1]) == len(sums[1][1]), "as many trained tensors, so none has been merged with another"
    np.testing.assert_allclose(sums[0][1], sums[1][1], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(("name", "newer"), EXPORTS)
def test_the_captured_program_trains_as_the_original_does(name: str, newer: bool, exported: Exported) -> None:
    original, path = exported(name, newer)
    data = {"x": MODELS[name][1], "y": targets(name)}
    steps, rate = 5, 0.01
    order = data_order(1, EXAMPLES, 8, steps)
    built = capture(load(path).train(), cross_entropy, SGD(rate), data, order)
    metrics = Metrics(built.labels.metrics)
    cpu = repops.backend("cpu")
    run = Run(built.program, built.constants, built.initial, steps, (1,), cpu, hook=metrics)
    ours: list[float] = []
    state = run.advance(run.initial(), steps, lambda *_: ours.append(float(metrics.latest["loss"])))
    optimizer = torch.optim.SGD(original.parameters(), rate)
    theirs = []
    for rows in order:
        optimizer.zero_grad()
        loss = cross_entropy(original(torch.from_numpy(data["x"][rows])), torch.from_numpy(data["y"][rows]))
        loss.backward()
        optimizer.step()
        theirs.append(loss.item())
    np.testing.assert_allclose(ours, theirs, rtol=1e-3)
    assert len(set(ours)) == steps
    slots = dict(zip(built.labels.slots, state.arrays, strict=True))
    means = {key: value for key, value in original.state_dict().items() if key.endswith("running_mean")}
    for key, value in means.items():
        np.testing.assert_allclose(slots[f"buffer.{key}"], value.numpy(), rtol=1e-3, atol=1e-5)
    assert bool(means) == (name == "resnet")


def test_nodes_are_labelled_by_the_nodes_of_the_file(exported: Exported) -> None:
    _, path = exported("mlp", False)
    built = capture(
        load(path),
        cross_entropy,
        SGD(0.1),
        {"x": MODELS["mlp"][1], "y": targets("mlp")},
        data_order(0, 48, 4, 2),
    )
    assert "ONNX node /0/Gemm: aten.addmm.default" in built.labels.nodes


# ---------------------------------------------------------------------------------------------------------- recipes


def test_a_recipe_by_names(exported: Exported) -> None:
    _, path = exported("mlp", False)
    data = {"x": MODELS["mlp"][1], "y": targets("mlp")}
    bundle = build(
        recipe(path, data, loss="cross-entropy", optimizer=optimizer_of("adamw", 0.01), steps=3, batch_size=8)
    )
    initial = dict(zip(bundle.labels["slots"], bundle.initial, strict=True))
    weights = dict(load(path).named_parameters())
    for name, value in weights.items():
        np.testing.assert_array_equal(initial[f"param.{name}"], value.detach().numpy())
    frozen = build(
        recipe(
            path,
            data,
            loss="cross-entropy",
            optimizer=optimizer_of("sgd", 0.01, momentum=0.9),
            steps=3,
            batch_size=8,
            freeze=["0.*"],
        )
    )
    assert {name for name in frozen.labels["slots"] if name.startswith("param.")} == {
        "param.2.weight",
        "param.2.bias",
    }


def test_rows_of_tokens_train_a_language_model(exported: Exported) -> None:
    """Each place is scored on the token after it: the first loss is that of PyTorch on the same row."""
    original, path = exported("gpt2", False)
    rows = RNG.integers(0, VOCABULARY, (EXAMPLES, LENGTH + 1))
    made = recipe(
        path, {"tokens": rows}, loss="next-token", optimizer=optimizer_of("sgd", 0.01), steps=1, batch_size=8
    )
    bundle = build(made)
    metrics = Metrics(bundle.metrics)
    run = Run(bundle.program, bundle.constants, bundle.initial, 1, (1,), repops.backend("cpu"), hook=metrics)
    run.advance(run.initial(), 1)
    order = bundle.constants[bundle.labels["constants"].index("data.order")]
    batch = torch.from_numpy(rows[order[0]])
    expected = cross_entropy(original(batch[:, :-1]), batch[:, 1:])
    assert float(metrics.latest["loss"]) == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"loss": "hinge"}, "no loss 'hinge'; choose from cross-entropy, binary, mse, next-token"),
        ({"loss": "next-token"}, "takes one array of tokens; the data set has x, y"),
        ({"inputs": ["z"]}, "z"),
    ],
)
def test_what_is_not_there_is_named(changes: dict[str, Any], message: str, exported: Exported) -> None:
    _, path = exported("mlp", False)
    options: dict[str, Any] = {"loss": "cross-entropy", "steps": 2, "batch_size": 8, **changes}
    data = {"x": MODELS["mlp"][1], "y": targets("mlp")}
    with pytest.raises(CaptureError, match=message):
        build(recipe(path, data, optimizer=optimizer_of("sgd", 0.1), **options))
    for name, momentum in (("lion", 0.0), ("adam", 0.9)):
        with pytest.raises(CaptureError, match=r"no optimizer|no momentum"):
            optimizer_of(name, 0.1, momentum)


def test_other_losses() -> None:
    from assay_capture.model_files import LOSSES

    scores, flags = torch.tensor([[0.5], [-2.0]]), torch.tensor([1, 0])
    expected = -(torch.log(torch.sigmoid(scores[0, 0])) + torch.log(1 - torch.sigmoid(scores[1, 0]))) / 2
    assert float(LOSSES["binary"](scores, flags)) == pytest.approx(float(expected))
    assert float(LOSSES["mse"](torch.tensor([1.0, 3.0]), torch.tensor([0.0, 0.0]))) == 5.0


BUILD = """
import sys
from pathlib import Path
import numpy as np
from assay_capture.capture import build
from assay_capture.model_files import optimizer_of, recipe
from assay_capture.onnx import load
from assay_capture.inference import Decode
path, rows = Path(sys.argv[1]), np.arange(90).reshape(10, 9) % 40
made = recipe(path, {"tokens": rows}, loss="next-token", optimizer=optimizer_of("adam", 0.1), steps=2, batch_size=8)
print(build(made).terms.hash().hex())
print(Decode("story", load(path), rows[:8, :3].tolist(), 8).build().terms.hash().hex())
"""


@pytest.mark.slow
def test_programs_do_not_depend_on_the_process(exported: Exported) -> None:
    _, path = exported("gpt2", False)
    outputs = set()
    for seed in ("0", "4321"):
        environment = {
            **os.environ,
            "PYTHONHASHSEED": seed,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        }
        result = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", BUILD, str(path)],
            env=environment,
            capture_output=True,
            text=True,
        )
        assert result.returncode == 0, result.stderr
        outputs.add(result.stdout)
    assert len(outputs) == 1


def test_the_command_builds_a_bundle_from_a_file(
    exported: Exported, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trainer_node.cli import main

    _, path = exported("mlp", False)
    Dataset({"x": MODELS["mlp"][1], "y": targets("mlp")}).write(tmp_path / "set")
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> int:
        monkeypatch.setattr(sys, "argv", ["assay", "program", "build", *map(str, arguments)])
        with pytest.raises(SystemExit) as caught:
            main()
        return int(caught.value.code or 0)

    options = ("--data", "set", "--loss", "cross-entropy", "--optimizer", "adam", "--batch", 4, "--steps", 6)
    assert run(path, "job", *options, "--strides", "3,1", "--lr", 0.01) == 0
    bundle = Bundle.read(tmp_path / "job")
    assert (bundle.terms.steps, bundle.terms.strides) == (6, (3, 1))
    assert run(path, "other", "--data", "set", "--loss", "mse") == 2
    assert run("digits-mlp", "other", "--lr", 0.01) == 2
    assert run(path, "other", *options, "--freeze", "*") == 2
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0, 1e300])
def test_numbers_of_an_optimizer_that_cannot_be_are_refused(value: float) -> None:
    for given in ((value,), (0.1, value), (0.1, 0.0, value)):
        with pytest.raises(CaptureError, match="it must be from 0 to"):
            optimizer_of("sgd", *given)
