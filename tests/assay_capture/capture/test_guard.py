"""The guard: a program whose first step is not eager PyTorch's is not written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from assay_capture.capture import SGD, CaptureError, Recipe, build, step
from assay_capture.capture.lowering import RULES, Context
from assay_capture.capture.trace import trace

X = np.random.default_rng(0).standard_normal((16, 6)).astype(np.float32)
Y = np.random.default_rng(1).integers(0, 3, 16)


def recipe(*layers: nn.Module) -> Recipe:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(6, 8), nn.Sequential(*layers), nn.Linear(8, 3))
    return Recipe("guarded", module, nn.functional.cross_entropy, SGD(0.1), {"x": X, "y": Y}, 2, 4)


def checked(given: Recipe) -> str:
    return str(build(given).labels["checked"])


def test_a_program_says_that_it_was_compared() -> None:
    said = checked(recipe(nn.Tanh()))
    assert said.startswith(
        "loss and gradients of the first step are those of PyTorch; so are those with weights moved"
    )
    assert "with inputs near zero, with inputs at the largest numbers; weights and states" in said
    assert said.endswith("weights and states after two updates by given gradients are torch.optim.SGD's")
    assert checked(recipe(nn.Dropout(0.5), nn.Tanh())).startswith("loss and gradients")
    assert checked(replace(recipe(nn.Tanh()), accumulate=2, initial="module")).startswith(
        "loss and gradients"
    )
    assert str(build(recipe(nn.Tanh()), check=False).labels["checked"]).startswith(
        "not compared with PyTorch: nobody"
    )


@pytest.mark.parametrize("accumulate", [1, 2])
def test_losses_of_both_are_kept_where_they_were_compared(accumulate: int) -> None:
    given = replace(recipe(nn.Tanh()), accumulate=accumulate, initial="module")
    found: Any = build(given).labels["losses"]
    assert [*found] == ["at the first step", "with weights moved by a tenth"]
    for ours, theirs in found.values():
        assert ours == pytest.approx(theirs, rel=1e-5)
    made = build(given)
    part = made.constants[made.names.constants.index("data.order")][0].reshape(-1)[: 4 // accumulate]
    with torch.no_grad():
        loss = nn.functional.cross_entropy(given.module(torch.from_numpy(X[part])), torch.from_numpy(Y[part]))
    assert found["at the first step"][1] == pytest.approx(float(loss), rel=1e-6)
    assert found["at the first step"] != found["with weights moved by a tenth"]
    assert build(given, check=False).labels["losses"] == {}


def test_what_is_made_of_random_numbers_is_compared() -> None:
    class Noisy(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + torch.randn_like(x)

    assert checked(recipe(Noisy())).startswith("loss and gradients of the first step are those of PyTorch")


class Recurrent(nn.Module):
    """Draws masks within PyTorch's own kernels."""

    def __init__(self, kind: Callable[..., nn.Module]) -> None:
        super().__init__()
        self.layers = kind(8, 8, 2, dropout=0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        # NOTE: few steps of many rows: each step is operators of its own.
        found: torch.Tensor = self.layers(x.reshape(2, -1, 8))[0]
        return found.reshape(x.shape)


class Called(nn.Module):
    """Calls a function of dropout by a name of its own."""

    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self._function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self._function(x, 0.5, True)


class Noise(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.randn_like(x)


def _of_a_fresh_generator(x: torch.Tensor) -> torch.Tensor:
    return x + torch.randn(x.shape, generator=torch.Generator().manual_seed(0))


def _of_a_seed(x: torch.Tensor) -> torch.Tensor:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return x + torch.randn_like(x)


def _twice_the_same(x: torch.Tensor) -> torch.Tensor:
    state, first = torch.get_rng_state(), torch.randn_like(x)
    torch.set_rng_state(state)
    return x + first - torch.randn_like(x)


@pytest.mark.parametrize("draws", [_of_a_fresh_generator, _of_a_seed, _twice_the_same])
def test_numbers_that_a_step_draws_again_are_refused(draws: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """The attack: in PyTorch they are the same in each step; a program draws new ones."""

    class Layer(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return draws(x)

    with pytest.raises(CaptureError, match="draws the same random numbers again"):
        build(recipe(Layer()))


def test_a_generator_that_goes_on_is_taken() -> None:
    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.source = torch.Generator().manual_seed(3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + torch.randn(x.shape, generator=self.source)

    layer = Layer()
    before = layer.source.get_state()
    assert checked(recipe(layer)).startswith("loss and gradients of the first step are those of PyTorch")
    assert torch.equal(layer.source.get_state(), before), "a build leaves it where it was"


@pytest.mark.parametrize(
    ("layer", "traces"),
    [
        (nn.Tanh(), 1),
        (nn.Dropout(0.5), 1),
        (Noise(), 2),
        (nn.Dropout1d(0.5), 2),
        (Recurrent(nn.LSTM), 1),
        (Recurrent(nn.GRU), 1),
        (Called(nn.functional.dropout), 1),
    ],
)
def test_the_guard_traces_again_only_what_draws_more_than_dropout(
    layer: nn.Module, traces: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    def counted(*args: Any) -> Any:
        made.append(trace(*args))
        return made[-1]

    monkeypatch.setattr(step, "trace", counted)
    assert checked(recipe(layer)).startswith("loss and gradients of the first step are those of PyTorch")
    assert len(made) == traces


def test_a_rule_that_is_wrong_is_found_with_its_module_and_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    right = RULES["aten.tanh.default"]
    monkeypatch.setitem(RULES, "aten.tanh.default", lambda c, x: c.b.op("mul", right(c, x), c.b.full(1.01)))
    with pytest.raises(CaptureError, match=r"first module whose output differs is 1\.0 .*aten\.tanh"):
        build(recipe(nn.Tanh(), nn.Sigmoid()))


def test_a_gradient_that_is_wrong_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(c: Context, grad: object, y: object) -> object:
        return grad

    monkeypatch.setitem(RULES, "aten.tanh_backward.default", wrong)
    with pytest.raises(CaptureError, match=r"gradient\.0\.(weight|bias) differs .*outputs agree"):
        build(recipe(nn.Tanh()))


class Kinked(nn.Module):
    """Signs of sums that nearly cancel: in FP32 they depend on the order of the terms, in FP64 they do not. A share
    of the output depends on the signs."""

    terms: torch.Tensor

    def __init__(self, share: float = 0.05) -> None:
        super().__init__()
        self.share = share
        draw = np.random.default_rng(2)
        half = draw.standard_normal((32, 32)) * 10.0 ** draw.integers(0, 6, (32, 32))
        left = draw.choice([-1e-3, 1e-3], (32, 1))
        terms = np.concatenate([half.astype(np.float32), -half.astype(np.float32), left], axis=1).astype(
            np.float32
        )
        self.register_buffer("terms", torch.from_numpy(draw.permuted(terms, axis=1)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        cancelled = (x[:, :1, None] * self.terms).sum(2)
        return x * (1 + self.share * torch.sign(cancelled).mean(1, keepdim=True))


def test_rounding_that_a_kink_amplifies_is_no_difference() -> None:
    assert "in FP32 both are moved by rounding" in checked(recipe(nn.Tanh(), Kinked()))


def test_a_wrong_gradient_beside_a_kink_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = RULES["aten.tanh_backward.default"]
    monkeypatch.setitem(
        RULES, "aten.tanh_backward.default", lambda c, g, y: c.b.op("mul", right(c, g, y), c.b.full(-1.0))
    )
    with pytest.raises(CaptureError, match="not PyTorch's"):
        build(recipe(nn.Tanh(), Kinked()))


def test_rounding_to_bf16_that_is_amplified_is_no_difference() -> None:
    assert checked(replace(recipe(nn.Tanh()), autocast=torch.bfloat16)).startswith(
        "loss and gradients of the first step are"
    )
    said = checked(replace(recipe(nn.Tanh(), Kinked(4.0)), autocast=torch.bfloat16))
    assert "rounding to bf16" in said
    assert "without autocast loss and gradients" in said


def test_what_bf16_would_hide_is_found_without_autocast(monkeypatch: pytest.MonkeyPatch) -> None:
    class Steep(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.sin(1500 * x)

    right = RULES["aten.tanh_backward.default"]
    monkeypatch.setitem(
        RULES, "aten.tanh_backward.default", lambda c, g, y: c.b.op("mul", right(c, g, y), c.b.full(-1.0))
    )
    with pytest.raises(CaptureError, match=r"gradient\.0\.(weight|bias) differs by 2 "):
        build(replace(recipe(nn.Tanh(), Steep()), autocast=torch.bfloat16))


def test_a_function_that_the_trace_does_not_see_is_found() -> None:
    class Hidden(nn.Module):
        """A number that PyTorch's tensors do not know of: it differs between the trace and the step."""

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seen = type(x) is torch.Tensor
            return x * (2.0 if seen else 1.0)

    with pytest.raises(CaptureError, match=r"first module whose output differs is 1"):
        build(recipe(Hidden()))


def test_the_module_stays_as_it_was() -> None:
    given = recipe(nn.BatchNorm1d(8))
    before = {name: value.clone() for name, value in given.module.state_dict().items()}
    build(given)
    assert all(torch.equal(value, before[name]) for name, value in given.module.state_dict().items())


def test_a_parameter_without_dimensions_is_moved_too() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.tensor(1.5))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.scale.exp()

    assert "with weights moved by a tenth" in checked(recipe(Scaled()))
