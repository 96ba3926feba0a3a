"""Programs of torch.export.save: the bits of the module that was exported, and the program that it itself gives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from assay_capture import exported, model_files
from assay_capture.capture import SGD, CaptureError, Recipe, build
from assay_capture.datasets import Dataset
from tests.conftest import Assay
from trainer_node.local.bundle import Bundle

RNG = np.random.default_rng(5)
IMAGES = RNG.standard_normal((24, 3, 8, 8)).astype(np.float32)
ROWS = RNG.standard_normal((24, 12)).astype(np.float32)
TOKENS = RNG.integers(0, 40, (24, 9))
CLASSES = RNG.integers(0, 5, 24)
BATCH = torch.export.Dim("batch", min=2)


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.BatchNorm1d(16), nn.Dropout(0.25), nn.Linear(16, 5))


def conv() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.GELU("tanh"),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64, 5),
    )


class Tied(nn.Module):
    """A language model whose head is its embedding, with a part without gradients, a view and sizes of the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(40, 16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True)
        self.head = nn.Linear(16, 40, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("scale", torch.tensor([0.5]), persistent=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        rows, length = tokens.shape
        with torch.no_grad():
            places = torch.arange(length).expand(rows, length) * 0.01
        x = self.embed(tokens) * self.scale + places.view(rows, length, 1)
        return self.head(self.layer(x))


CASES: dict[str, tuple[Callable[[], nn.Module], np.ndarray[Any, Any]]] = {
    "mlp": (mlp, ROWS),
    "conv": (conv, IMAGES),
    "tied": (Tied, TOKENS[:, :-1]),
}


def save(module: nn.Module, example: np.ndarray[Any, Any], path: Path, **changes: Any) -> Path:
    given = torch.from_numpy(example[:8].copy())
    program = torch.export.export(module, (given,), dynamic_shapes=changes.get("shapes", ({0: BATCH},)))
    if changes.get("decomposed"):
        program = program.run_decompositions()
    torch.export.save(program, path)
    return path


def results(of: nn.Module, data: np.ndarray[Any, Any], gradients: bool) -> dict[str, torch.Tensor]:
    """Return output, gradients and buffers after a step."""
    torch.manual_seed(9)
    output = of(torch.from_numpy(data.copy()))
    found = {"": output, **dict(of.named_buffers())}
    if gradients:
        trained = {n: p for n, p in of.named_parameters() if p.requires_grad}
        found |= zip(
            trained, torch.autograd.grad(output.square().mean(), list(trained.values())), strict=True
        )
    return found


def differing(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> list[str]:
    assert set(a) == set(b)
    return [key for key in a if not torch.equal(a[key], b[key])]


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_gives_the_bits_of_the_module(name: str, training: bool, tmp_path: Path) -> None:
    torch.manual_seed(3)
    make, data = CASES[name]
    module = make().train(training)
    found = exported.load(save(module, data, tmp_path / "m.pt2"))
    for rows in (8, 5, 2):
        assert differing(results(found, data[:rows], True), results(module, data[:rows], True)) == []


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_gives_the_bits_of_a_decomposed_program(name: str, training: bool, tmp_path: Path) -> None:
    """Against PyTorch's own reader. Such a program gives new values of buffers, and has no backward pass there."""
    torch.manual_seed(3)
    make, data = CASES[name]
    path = save(make().train(training), data, tmp_path / "m.pt2", decomposed=True)
    found, wanted = exported.load(path), torch.export.load(path).module()
    for rows in (8, 5, 2):
        assert differing(results(found, data[:rows], False), results(wanted, data[:rows], False)) == []
    assert all(bool(value.isfinite().all()) for value in results(found, data[:4], True).values())


@pytest.mark.parametrize("name", CASES)
def test_trains_as_the_module_itself(name: str, tmp_path: Path) -> None:
    """Both are captured as the same program: the same structure, and the same tensors."""
    torch.manual_seed(4)
    make, data = CASES[name]
    module = make().train()
    path = save(module, data, tmp_path / "m.pt2")
    targets = TOKENS[:, 1:] if name == "tied" else CLASSES
    arrays = {"x": data, "y": targets}
    shared: dict[str, Any] = {"data": arrays, "steps": 4, "batch_size": 8}
    ours = build(model_files.recipe(path, loss="cross-entropy", optimizer=SGD(0.1), **shared))
    wanted = build(
        Recipe("m", module, model_files.cross_entropy, SGD(0.1), initial="module", inputs=("x",), **shared)
    )
    assert ours.program.structure_root == wanted.program.structure_root
    assert ours.terms == wanted.terms
    assert "those of PyTorch" in str(ours.labels["checked"])


def test_what_is_trained_is_what_the_file_says_and_the_user(tmp_path: Path) -> None:
    module = mlp().train()
    module[0].weight.requires_grad_(False)  # type: ignore[index]
    path = save(module, ROWS, tmp_path / "m.pt2")

    def trained(**options: Any) -> set[str]:
        return {n for n, p in exported.load(path, **options).named_parameters() if p.requires_grad}

    every = {n for n, _ in module.named_parameters()}
    assert trained() == every - {"0.weight"}
    assert trained(train=["0.*"]) == every
    assert trained(freeze=["2.*", "4.bias"]) == every - {"0.weight", "2.weight", "2.bias", "4.bias"}
    for options, message in (
        ({"freeze": ["nothing.*"]}, r"no parameter .* matches 'nothing"),
        ({"freeze": ["4.*"], "train": ["*.bias"]}, "to be frozen and to be trained"),
        ({"output": "other"}, "has no output 'other'; it has linear_1"),
    ):
        with pytest.raises(CaptureError, match=message):
            exported.load(path, **options)


def test_batches_for_which_it_was_not_exported_are_refused(tmp_path: Path) -> None:
    fixed = exported.load(save(mlp().eval(), ROWS, tmp_path / "fixed.pt2", shapes=None))
    with pytest.raises(
        CaptureError, match=r"\[8, 12\]: give it such a batch \(--batch\), or export it with dynamic"
    ):
        fixed(torch.zeros(4, 12))
    open_ = exported.load(save(mlp().eval(), ROWS, tmp_path / "open.pt2"))
    for given in (torch.zeros(4, 11), torch.zeros(4, 12, dtype=torch.float64), torch.zeros(4, 12, 1)):
        with pytest.raises(CaptureError, match=r"was exported for torch.float32 \[s\d+, 12\]"):
            open_(given)
    with pytest.raises(CaptureError, match="the program takes input"):
        open_(torch.zeros(4, 12), torch.zeros(4, 12))


def test_sizes_that_must_be_equal_are(tmp_path: Path) -> None:
    class Sum(nn.Module):
        def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return a + b

    size = torch.export.Dim("n", min=2, max=6)
    program = torch.export.export(
        Sum(), (torch.ones(4, 3), torch.ones(4, 3)), dynamic_shapes=({0: size}, {0: size})
    )
    torch.export.save(program, tmp_path / "m.pt2")
    found = exported.load(tmp_path / "m.pt2")
    assert torch.equal(found(b=torch.ones(5, 3), a=torch.ones(5, 3)), torch.full((5, 3), 2.0))
    for rows in ((5, 4), (7, 7)):
        with pytest.raises(CaptureError, match="was exported for"):
            found(*(torch.ones(n, 3) for n in rows))


def test_from_a_file_to_a_bundle(assay: Assay, tmp_path: Path) -> None:
    path = str(save(mlp().train(), ROWS, tmp_path / "m.pt2"))
    Dataset({"x": ROWS, "y": CLASSES}).write(tmp_path / "data")
    data = ("--data", str(tmp_path / "data"), "--batch", "8")
    job, answers = tmp_path / "job", tmp_path / "answers"
    training = ("--loss", "cross-entropy", "--optimizer", "adam", "--steps", "3")
    code, output, errors = assay("program", "build", path, str(job), *data, *training)
    assert code == 0, errors
    assert "loss and gradients of the first step are those of PyTorch" in output
    assert Bundle.read(job).labels["slots"][0] == "param.0.weight"
    code, _, errors = assay("program", "build", path, str(answers), *data, "--predict")
    assert code == 0, errors
    code, _, errors = assay("program", "build", path, str(tmp_path / "other"), *data)
    assert code == 2
    assert "add --loss" in errors
