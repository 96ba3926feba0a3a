"""Captured programs train as eager PyTorch does, up to FP32 noise."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import repops
import torch
from torch import nn

from assay_capture.capture import SGD, Adam, Optimizer, capture
from assay_capture.capture.recipe import seeded_parameters
from assay_capture.capture.seeded import data_order
from referee_py.execute import Run

from .eager import Apply, run_program

CPU = repops.backend("cpu")
cross_entropy, mse = nn.functional.cross_entropy, nn.functional.mse_loss

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
EagerOptimizer = Callable[[Any], torch.optim.Optimizer]


def clusters(shape: tuple[int, ...], classes: int = 4, size: int = 64) -> dict[str, np.ndarray[Any, Any]]:
    """Return examples around one centre per class: learnable, so losses fall by far more than their noise."""
    rng = np.random.default_rng(3)
    y = rng.integers(0, classes, size)
    centres = rng.standard_normal((classes, *shape))
    x = centres[y] + 0.5 * rng.standard_normal((size, *shape))
    return {"x": x.astype(np.float32), "y": y}


def regression() -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(4)
    x = rng.standard_normal((64, 6)).astype(np.float32)
    return {"x": x, "y": np.tanh(x[:, :3] * 2).astype(np.float32)}


def mlp(inputs: int = 6, outputs: int = 4) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, 16), nn.ReLU(), nn.Linear(16, outputs))


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(4, 6, 3),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(6, 4),
    )


def seeded(module: nn.Module) -> nn.Module:
    """Give the module weights that do not depend on torch's generator."""
    values = seeded_parameters(module, 5)
    module.load_state_dict({name: torch.from_numpy(value()) for name, value in values.items()}, strict=False)
    return module


def eager_losses(
    module: nn.Module,
    loss: Loss,
    optimizer: torch.optim.Optimizer,
    data: Any,
    order: Any,
    schedule: Any = None,
) -> list[float]:
    losses: list[float] = []
    for rows in order:
        if schedule is not None:
            optimizer.param_groups[0]["lr"] = schedule[len(losses)]
        optimizer.zero_grad()
        value = loss(module(torch.from_numpy(data["x"][rows])), torch.from_numpy(data["y"][rows]))
        value.backward()
        optimizer.step()
        losses.append(value.item())
    return losses


def compare(
    module: nn.Module,
    loss: Loss,
    optimizer: Optimizer,
    eager: EagerOptimizer,
    data: Any,
    steps: int = 60,
    **kw: Any,
) -> dict[str, np.ndarray[Any, Any]]:
    """Check that losses agree and fall. Returns the program's final slots; `module` ends as the eager one."""
    order = data_order(1, len(data["x"]), 16, steps)
    built = capture(module, loss, optimizer, data, order)
    ours, slots = run_program(built, steps)
    theirs = eager_losses(module, loss, eager(module.parameters()), data, order, **kw)
    np.testing.assert_allclose(ours, theirs, rtol=2e-3, atol=2e-4)
    np.testing.assert_allclose(ours[:5], theirs[:5], rtol=1e-5, atol=1e-6)
    assert np.mean(ours[-5:]) < 0.7 * np.mean(ours[:5]), "it learns"
    return slots


OPTIMIZERS: dict[str, tuple[Optimizer, EagerOptimizer]] = {
    "sgd": (SGD(0.1), lambda p: torch.optim.SGD(p, 0.1)),
    "momentum": (SGD(0.05, momentum=0.9), lambda p: torch.optim.SGD(p, 0.05, momentum=0.9)),
    "nesterov": (
        SGD(0.05, momentum=0.9, weight_decay=0.01, nesterov=True),
        lambda p: torch.optim.SGD(p, 0.05, momentum=0.9, weight_decay=0.01, nesterov=True),
    ),
    "adam": (Adam(0.01, weight_decay=0.01), lambda p: torch.optim.Adam(p, 0.01, weight_decay=0.01)),
    "adamw": (
        Adam(0.01, betas=(0.8, 0.95), weight_decay=0.1, decoupled=True),
        lambda p: torch.optim.AdamW(p, 0.01, betas=(0.8, 0.95), weight_decay=0.1),
    ),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_mlp_trains_as_in_torch(name: str) -> None:
    optimizer, eager = OPTIMIZERS[name]
    module = seeded(mlp())
    slots = compare(module, cross_entropy, optimizer, eager, clusters((6,)))
    for path, parameter in module.named_parameters():
        np.testing.assert_allclose(slots[f"param.{path}"], parameter.detach().numpy(), rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("name", ["momentum", "adam"])
def test_a_cnn_trains_as_in_torch(name: str) -> None:
    optimizer, eager = OPTIMIZERS[name]
    compare(seeded(cnn()), cross_entropy, optimizer, eager, clusters((2, 8, 8)), steps=80)


def test_a_learning_rate_table_gives_each_step_its_own() -> None:
    table = np.linspace(0.2, 0.01, 60).astype(np.float32)
    compare(
        seeded(mlp()),
        cross_entropy,
        SGD(table.tolist(), momentum=0.5),
        lambda p: torch.optim.SGD(p, 1.0, momentum=0.5),
        clusters((6,)),
        schedule=table.tolist(),
    )


def test_mean_squared_error() -> None:
    compare(seeded(mlp(6, 3)), mse, *OPTIMIZERS["momentum"], regression())


def flat(*layers: nn.Module) -> Callable[[], nn.Module]:
    """Build dense layers between 128 inputs and 4 scores."""
    return lambda: nn.Sequential(nn.Flatten(), nn.Linear(128, 8), *layers, nn.Linear(8, 4))


def image(features: int, *layers: nn.Module) -> Callable[[], nn.Module]:
    """Build image layers that leave `features` numbers, and 4 scores."""
    return lambda: nn.Sequential(*layers, nn.Flatten(), nn.Linear(features, 4))


LAYERS: dict[str, Callable[[], nn.Module]] = {
    "largest": flat(Apply(lambda x: x - 0.5 * x.max(-1, keepdim=True)[0])),
    "smallest": flat(Apply(lambda x: x - x.min(1)[0][:, None])),
    "largest of all": flat(Apply(lambda x: x - x.max() + x.min())),
    "some or all": flat(
        Apply(lambda x: torch.where((x > 0).all(-1, keepdim=True), x, 2 * x * (x > 1).any(-1)[:, None]))
    ),
    "relu in place": flat(nn.ReLU(inplace=True)),
    "sigmoid": flat(nn.Sigmoid()),
    "silu": flat(nn.SiLU()),
    "layer norm": flat(nn.LayerNorm(8)),
    "frozen layer": flat(nn.Linear(8, 8).requires_grad_(False)),
    "average pooling": image(36, nn.Conv2d(2, 4, 3), nn.AvgPool2d(2)),
    "overlapping average": image(16, nn.AvgPool2d(3, 2, 1), nn.Conv2d(2, 4, 3)),
    "overlapping maximum": image(36, nn.Conv2d(2, 4, 3), nn.MaxPool2d(3, 2, 1)),
    "adaptive pooling": image(16, nn.Conv2d(2, 4, 3, padding=1), nn.AdaptiveAvgPool2d(2)),
    "grouped, strided, no bias": image(64, nn.Conv2d(2, 4, 3, stride=2, padding=1, groups=2, bias=False)),
    "dilated": image(64, nn.Conv2d(2, 4, 3, dilation=2)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_gradients_of_a_layer_are_those_of_torch(name: str) -> None:
    """One step of plain SGD at rate 1: the change of a parameter is its gradient."""
    module, data = seeded(LAYERS[name]()), clusters((2, 8, 8))
    order = data_order(1, 64, 16, 1)
    built = capture(module, cross_entropy, SGD(1.0), data, order)
    _, after = run_program(built, 1)
    before = dict(zip(built.labels.slots, built.initial, strict=True))
    cross_entropy(
        module(torch.from_numpy(data["x"][order[0]])), torch.from_numpy(data["y"][order[0]])
    ).backward()
    for path, parameter in module.named_parameters():
        slot = f"param.{path}"
        if parameter.grad is None:
            assert slot not in before, "a frozen parameter is a constant"
            continue
        np.testing.assert_allclose(before[slot] - after[slot], parameter.grad.numpy(), rtol=1e-4, atol=1e-6)


def test_buffers_that_the_step_writes_to_are_slots() -> None:
    """Batch norm in training mode: running statistics are part of the state."""
    module = seeded(
        nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 4))
    )
    slots = compare(module, cross_entropy, *OPTIMIZERS["sgd"], clusters((2, 8, 8)))
    for path, buffer in module.named_buffers():
        np.testing.assert_allclose(slots[f"buffer.{path}"], buffer.numpy(), rtol=1e-3, atol=1e-4)
    assert slots["buffer.1.num_batches_tracked"] == 60


class Attention(nn.Module):
    """Predicts the next token: embedding, layer norm, one head of causal attention."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.norm = nn.Embedding(20, 8), nn.LayerNorm(8)
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 20)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norm(self.embed(x))
        q, k, v = self.qkv(h).split(8, -1)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(h + mixed).flatten(0, 1)


def test_a_little_language_model_trains_as_in_torch() -> None:
    tokens = (np.arange(64)[:, None] + np.arange(7)[None, :] * 3) % 20
    compare(
        seeded(Attention()),
        lambda output, target: cross_entropy(output, target.flatten()),
        *OPTIMIZERS["momentum"],
        {"x": tokens[:, :-1].copy(), "y": tokens[:, 1:].copy()},
    )


class Odd(nn.Module):
    """Tied weights, an unused layer, a read-only buffer, a tensor that is not a buffer, slices and a concatenation."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 4)
        self.second.weight = self.first.weight
        self.unused = nn.Linear(2, 2)
        self.register_buffer("scale", torch.tensor(2.0))
        self.table = torch.arange(6.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.softmax(self.second(torch.relu(self.first(x))) * self.scale, -1) + self.table
        h = torch.cat([h[:, 3:] * 0.5, h[:, :3] ** 2], 1)
        return self.last(h - h.mean(0, keepdim=True))


def test_tied_unused_and_constant_tensors() -> None:
    module = Odd()
    built = capture(module, cross_entropy, SGD(0.1), clusters((6,)), data_order(1, 64, 16, 3))
    assert "param.second.weight" not in built.labels.slots
    assert {"buffer.scale", "data.order", "data.x", "data.y"} < set(built.labels.constants)
    unused = built.labels.slots.index("param.unused.weight")
    assert built.program.nodes[built.program.slots[unused].node].name == "reshape", (
        "it is copied, not updated"
    )
    order = built.constants[built.labels.constants.index("data.order")]
    reference = copy.deepcopy(module)
    theirs = eager_losses(
        reference, cross_entropy, torch.optim.SGD(reference.parameters(), 0.1), clusters((6,)), order
    )
    np.testing.assert_allclose(run_program(built, 3)[0], theirs, rtol=1e-5)


def test_metrics_of_the_loss_function_are_recorded() -> None:
    def with_accuracy(output: torch.Tensor, target: torch.Tensor) -> Any:
        correct = (output.argmax(1) == target).float().mean()
        return cross_entropy(output, target), {"accuracy": correct}

    built = capture(seeded(mlp()), with_accuracy, SGD(0.1), clusters((6,)), data_order(1, 64, 16, 2))
    run = Run(built.program, built.constants, built.initial, 2, (1,), CPU)
    source = built.labels.metrics["accuracy"]
    accuracy = run.node_values(run.initial(), source.node)[source.node].outputs[source.output]
    assert set(built.labels.metrics) == {"loss", "accuracy"}
    assert float(accuracy) in {k / 16 for k in range(17)}


def test_capture_leaves_the_module_as_it_was() -> None:
    module = seeded(mlp())
    before = {name: value.clone() for name, value in module.state_dict().items()}
    capture(module, cross_entropy, SGD(0.1), clusters((6,)), data_order(1, 64, 16, 3))
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in module.modules())
    assert all(parameter.grad is None for parameter in module.parameters())


def test_the_first_batch_is_not_baked_in() -> None:
    built = capture(seeded(mlp()), cross_entropy, SGD(0.1), clusters((6,)), data_order(1, 64, 16, 3))
    assert set(built.labels.constants) == {"data.order", "data.x", "data.y"}
    take = next(k for k, node in enumerate(built.program.nodes) if node.name == "take")
    run = Run(built.program, built.constants, built.initial, 3, (1,), CPU)
    state = run.advance(run.initial(), 2)
    rows = run.node_values(state, take)[take].outputs[0]
    np.testing.assert_array_equal(rows, built.constants[0][2])


@pytest.mark.parametrize("model", [mlp, cnn])
def test_both_executors_commit_a_captured_step_to_the_same_root(model: Callable[[], nn.Module]) -> None:
    data = clusters((6,) if model is mlp else (2, 8, 8), size=8)
    built = capture(seeded(model()), cross_entropy, Adam(0.01), data, data_order(1, 8, 2, 2))
    roots = {
        Run(built.program, built.constants, built.initial, 2, (1,), repops.backend(name)).commit_run().root
        for name in ("cpu", "reference")
    }
    assert len(roots) == 1
