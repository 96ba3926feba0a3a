"""Training in bf16: autocast and modules of bfloat16 become programs whose losses are as close to PyTorch's as bf16 is
to f32."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from repops.opset import BF16, F32
from repops.torch_arrays import to_numpy
from torch import nn

from assay_capture.capture import SGD, Adam, CaptureError, Unsupported, capture
from assay_capture.capture.recipe import Recipe
from assay_capture.capture.recipes import load_recipe
from assay_capture.capture.seeded import data_order

from ..eager import of, own_loss, run_eager, run_program
from ..test_against_torch import clusters, cnn, mlp, seeded

STEPS = 30
cross_entropy = nn.functional.cross_entropy


def autocast(objective: Any) -> Any:
    def run(module: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return objective(module, batch)

    return run


def apart(first: list[float], second: list[float]) -> float:
    """Return the root mean square of the distance of two loss curves."""
    return float(np.sqrt(np.mean((np.array(first) - np.array(second)) ** 2)))


@pytest.mark.parametrize(("make", "shape"), [(mlp, (6,)), (cnn, (2, 8, 8))])
def test_autocast(make: Any, shape: tuple[int, ...]) -> None:
    data, module = clusters(shape), seeded(make())
    order = data_order(1, 64, 16, STEPS)
    built = capture(module, cross_entropy, SGD(0.1), data, order, autocast=torch.bfloat16)
    losses, _ = run_program(built, STEPS)
    eager = {
        name: run_eager(
            own := copy.deepcopy(module), objective, torch.optim.SGD(own.parameters(), 0.1), data, order
        )
        for name, objective in (("f32", of(cross_entropy)), ("bf16", autocast(of(cross_entropy))))
    }
    assert apart(losses, eager["bf16"]) <= 2 * apart(eager["bf16"], eager["f32"]) + 1e-4
    assert losses[-1] < 0.8 * losses[0]
    assert {t.type.dtype for t in built.program.initial} == {F32}
    nodes = built.program.nodes
    products = [n for n in nodes if n.name in ("mm", "conv2d", "conv2d_weight_grad")]
    wide = [n for n in products if n.outputs[0].dtype == F32]  # which wait for a bias
    assert wide
    assert len(wide) < len(products)
    for product in wide:
        before = [nodes[operand.index] for operand in product.inputs]
        assert {node.name for node in before} <= {"cast", "reshape", "transpose"}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gpt2-tiny-bf16", "llama-lora-tiny-bf16"])
def test_recipes_follow_eager_autocast(name: str) -> None:
    """A transformer of two layers, and adapters on one whose frozen weights are bf16."""
    recipe = load_recipe(name, steps=STEPS)
    assert isinstance(recipe, Recipe)
    recipe.module.eval()  # no dropout, which PyTorch draws otherwise
    module = copy.deepcopy(seeded(recipe.module))
    order = data_order(recipe.seed, len(recipe.data["labels"]), recipe.batch_size, STEPS)
    rate = 3e-3
    built = capture(module, None, Adam(rate), recipe.data, order, autocast=torch.bfloat16)
    losses, _ = run_program(built, STEPS)
    curves = []
    for objective in (autocast(own_loss), own_loss):
        own = copy.deepcopy(module)
        if objective is own_loss:
            own.float()
        trained = [p for p in own.parameters() if p.requires_grad]
        curves.append(run_eager(own, objective, torch.optim.Adam(trained, rate), recipe.data, order))
    bf16, f32 = curves
    assert apart(losses, bf16) <= 2 * apart(bf16, f32) + 1e-4
    assert losses[-1] < losses[0]


def test_a_module_of_bfloat16_has_master_copies() -> None:
    data, module = clusters((6,)), seeded(mlp())
    narrow = copy.deepcopy(module).bfloat16()
    data16 = {"x": torch.from_numpy(data["x"]).bfloat16(), "y": torch.from_numpy(data["y"])}
    order = data_order(1, 64, 16, STEPS)
    arrays = {name: to_numpy(tensor) for name, tensor in data16.items()}
    built = capture(narrow, lambda out, y: cross_entropy(out.float(), y), SGD(0.1), arrays, order)
    assert {t.type.dtype for t in built.program.initial} == {F32}
    assert any(t.type.dtype == BF16 for t in built.program.constants)
    losses, slots = run_program(built, STEPS)
    own = copy.deepcopy(narrow)
    eager = []
    for rows in order:
        loss = cross_entropy(own(data16["x"][rows]).float(), data16["y"][rows])
        own.zero_grad()
        loss.backward()
        torch.optim.SGD(own.parameters(), 0.1).step()
        eager.append(loss.item())
    f32 = run_eager(module, of(cross_entropy), torch.optim.SGD(module.parameters(), 0.1), data, order)
    # Weights that are bf16 themselves lose small updates; master copies are nearer to training in f32.
    assert apart(losses, f32) <= apart(eager, f32) + 1e-3
    assert losses[-1] < 0.8 * losses[0]
    assert all(array.dtype == np.float32 for array in slots.values())


def test_what_pytorch_refuses_is_refused() -> None:
    data, order = clusters((6,)), data_order(1, 64, 16, 2)
    with pytest.raises(
        Unsupported, match=r"a product of f32 and bf16.*give the module inputs of its own dtype"
    ):
        capture(mlp().bfloat16(), lambda out, y: cross_entropy(out.float(), y), SGD(0.1), data, order)
    with pytest.raises(
        CaptureError, match=r"autocast to torch\.float16; the operator set has torch\.bfloat16"
    ):
        capture(mlp(), cross_entropy, SGD(0.1), data, order, autocast=torch.float16)


def test_dropout_and_norms_of_bfloat16() -> None:
    """Operators without bf16 are f32 and a cast, forwards and backwards."""
    module = nn.Sequential(
        nn.Linear(6, 16), nn.LayerNorm(16), nn.GELU(), nn.Dropout(0.1), nn.Linear(16, 4)
    ).bfloat16()
    data = clusters((6,))
    arrays = {"x": to_numpy(torch.from_numpy(data["x"]).bfloat16()), "y": data["y"]}
    built = capture(
        module, lambda out, y: cross_entropy(out.float(), y), Adam(0.01), arrays, data_order(1, 64, 16, STEPS)
    )
    losses, _ = run_program(built, STEPS)
    assert losses[-1] < 0.8 * losses[0]
    arithmetic = ("add", "sub", "mul", "div", "exp", "sum", "rsqrt", "erf")
    assert all(n.outputs[0].dtype != BF16 for n in built.program.nodes if n.name in arithmetic)


@pytest.mark.parametrize(
    ("layer", "shape"), [(nn.Linear(64, 64), (64,)), (nn.Conv2d(16, 16, 3, padding=1), (16, 4, 4))]
)
def test_a_bias_below_the_last_place_is_not_lost(layer: nn.Module, shape: tuple[int, ...]) -> None:
    """A result is rounded once, after the bias: rounded before it too, no element would show such a bias."""
    layer = seeded(layer)
    assert isinstance(layer.bias, torch.Tensor)
    with torch.no_grad():
        layer.bias.fill_(1e-3)
    x = 4 * np.random.default_rng(0).standard_normal((64, *shape), np.float32)
    data: dict[str, Any] = {"x": x, "y": np.zeros(64, np.int64)}
    mean = lambda out, _: out.float().mean()  # noqa: E731
    built = capture(layer, mean, SGD(0.0), data, data_order(0, 64, 64, 1), autocast=torch.bfloat16)
    losses, _ = run_program(built, 1)
    with torch.no_grad():
        for parameter in layer.parameters():
            if parameter is not layer.bias:
                parameter.copy_(parameter.bfloat16())
        expected = layer.double()(torch.from_numpy(x).bfloat16().double()).mean().item()
    assert abs(losses[0] - expected) < 3e-4


@pytest.mark.parametrize("number", [0.7, torch.tensor(0.7)])
@pytest.mark.parametrize("name", ["eq", "ne", "lt", "ge"])
def test_a_number_is_compared_as_bf16_where_the_other_side_is(
    name: str, number: float | torch.Tensor
) -> None:
    """As in PyTorch: a tensor of bf16 that holds the bf16 nearest to 0.7 equals 0.7."""

    class Compared(nn.Module):
        table: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4))
            self.register_buffer("table", torch.tensor([0.7, 0.5, 0.9, 0.7]).bfloat16())

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            chosen = getattr(torch, name)(self.table, number)
            return self.weight * x * self.table.masked_fill(chosen, 9.0).float()

    x, y = np.ones((4, 4), np.float32), np.zeros((4, 4), np.float32)
    module = Compared()
    built = capture(module, nn.functional.mse_loss, SGD(0.1), {"x": x, "y": y}, np.arange(4).reshape(1, 4))
    losses, _ = run_program(built, 1)
    want = nn.functional.mse_loss(module(torch.from_numpy(x)), torch.from_numpy(y)).item()
    np.testing.assert_allclose(losses[0], want, rtol=1e-5)
