"""Random numbers in a program: their distributions, their places, and the gradients of what is drawn."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from assay_capture.capture import SGD, Built, capture

from .. import eager

Draw = Callable[[tuple[int, ...]], torch.Tensor]
ORDER = np.arange(4).reshape(1, 4)
DATA: eager.Data = {"x": np.ones((4, 3), np.float32), "y": np.zeros(4, np.float32)}


class Drawn(nn.Module):
    def __init__(self, draw: Draw, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.weight, self.draw, self.shape = nn.Parameter(torch.ones(())), draw, shape

    def forward(self, _: torch.Tensor) -> torch.Tensor:
        return self.weight * self.draw(self.shape).float()


def captured(draw: Draw, shape: tuple[int, ...], seed: int = 1) -> Built:
    def loss(drawn: torch.Tensor, _: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        return drawn.sum(), {"drawn": drawn}

    return capture(Drawn(draw, shape), loss, SGD(0.0), DATA, ORDER, seed=seed)


def drawn(draw: Draw, shape: tuple[int, ...], seed: int = 1) -> np.ndarray[Any, Any]:
    return eager.first_metrics(captured(draw, shape, seed))["drawn"]


# draw, mean, variance
DRAWS: dict[str, tuple[Draw, float, float]] = {
    "rand": (torch.rand, 0.5, 1 / 12),
    "rand with a generator": (lambda s: torch.rand(s, generator=torch.Generator()), 0.5, 1 / 12),
    "randn": (torch.randn, 0.0, 1.0),
    "rand_like": (lambda s: torch.rand_like(torch.ones(s)), 0.5, 1 / 12),
    "randn_like": (lambda s: torch.randn_like(torch.ones(s)), 0.0, 1.0),
    "bernoulli": (lambda s: torch.bernoulli(torch.full(s, 0.3)), 0.3, 0.21),
    "bernoulli_": (lambda s: torch.empty(s).bernoulli_(0.8), 0.8, 0.16),
    "uniform_": (lambda s: torch.empty(s).uniform_(-2, 4), 1.0, 3.0),
    "normal_": (lambda s: torch.empty(s).normal_(2, 3), 2.0, 9.0),
    "normal of tensors": (lambda s: torch.normal(torch.ones(s), torch.full(s, 0.5)), 1.0, 0.25),
    "exponential_": (lambda s: torch.empty(s).exponential_(2.0), 0.5, 0.25),
    "randint": (lambda s: torch.randint(0, 5, s), 2.0, 2.0),
    "randint from": (lambda s: torch.randint(-3, 4, s), 0.0, 4.0),
}


@pytest.mark.parametrize("name", DRAWS)
def test_numbers_have_their_distribution(name: str) -> None:
    draw, mean, variance = DRAWS[name]
    found = drawn(draw, (40_000,)).astype(np.float64)
    assert abs(found.mean() - mean) < 5 * math.sqrt(variance / found.size)
    assert abs(found.var() / variance - 1) < 0.1


@pytest.mark.parametrize("name", DRAWS)
def test_an_element_does_not_depend_on_the_others(name: str) -> None:
    """Its word is found by its place: the first of few are the first of many."""
    draw = DRAWS[name][0]
    few, many = drawn(draw, (10,)), drawn(draw, (50, 20))
    np.testing.assert_array_equal(few, many.reshape(-1)[:10])
    assert (drawn(draw, (50, 20)) == many).all()
    assert (drawn(draw, (50, 20), seed=2) != many).any()


def test_a_permutation() -> None:
    found = drawn(lambda s: torch.randperm(s[0]), (200,))
    assert sorted(found.tolist()) == list(range(200))
    assert (found != np.arange(200)).any()


def test_two_draws_differ() -> None:
    both = drawn(lambda s: torch.stack([torch.rand(s), torch.rand(s)]), (100,))
    assert abs(np.corrcoef(both)[0, 1]) < 0.4


class Variational(nn.Module):
    """The reparametrised sample of a variational autoencoder. `noise` gives what is drawn."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.encode, self.decode = nn.Linear(3, 4), nn.Linear(2, 3)
        self.noise: Callable[[torch.Tensor], torch.Tensor] = torch.randn_like

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mean, spread = self.encode(x).chunk(2, 1)
        noise = self.noise(mean)
        return self.decode(mean + noise * (0.5 * spread).exp()), noise


class StochasticDepth(nn.Module):
    """Branches that are left out for whole examples."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.branch, self.head = nn.Linear(3, 3), nn.Linear(3, 3)
        self.noise: Callable[[torch.Tensor], torch.Tensor] = lambda x: x.new_empty(len(x), 1).bernoulli_(0.5)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        kept = self.noise(x)
        return self.head(x + self.branch(x) * kept / 0.5), kept


class Gumbel(nn.Module):
    """A sample of a category with gradients, as torch.nn.functional.gumbel_softmax draws it."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.score, self.value = nn.Linear(3, 5), nn.Linear(5, 3)
        self.noise: Callable[[torch.Tensor], torch.Tensor] = lambda x: (
            -torch.empty_like(x).exponential_().log()
        )

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        scores = self.score(x)
        noise = self.noise(scores)
        return self.value(torch.softmax((scores + noise) / 0.7, -1)), noise


@pytest.mark.parametrize("kind", [Variational, StochasticDepth, Gumbel])
def test_gradients_are_those_of_pytorch_with_the_same_numbers(kind: Callable[[], Any]) -> None:
    def loss(output: Any, _: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        y, noise = output
        return (y**2).sum(), {"noise": noise}

    data = {**DATA, "x": np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)}
    module = kind()
    found = eager.first_metrics(capture(module, loss, SGD(0.1), data, ORDER, gradients=True))
    noise = torch.from_numpy(found["noise"])
    module.noise = lambda _: noise
    value = loss(module(torch.from_numpy(data["x"])), torch.zeros(4))[0]
    value.backward()
    np.testing.assert_allclose(found["loss"], value.item(), rtol=1e-5)
    want = {name: p.grad.numpy() for name, p in module.named_parameters()}
    assert eager.relative_error({name: found[f"gradient.{name}"] for name in want}, want) < 1e-5


def test_the_gumbel_softmax_of_pytorch_is_taken() -> None:
    class Chooser(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return nn.functional.gumbel_softmax(self.layer(x), hard=True)

    def loss(y: torch.Tensor, _: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        return (y * torch.arange(5.0)).sum(), {"chosen": y}

    chosen = eager.first_metrics(capture(Chooser(), loss, SGD(0.1), DATA, ORDER))["chosen"]
    np.testing.assert_allclose(np.sort(chosen, 1), [[0, 0, 0, 0, 1]] * 4, atol=1e-6)


class Stacked(nn.Module):
    """A recurrent layer of three, or three of one with dropout between them, from the same weights."""

    def __init__(self, kind: Callable[..., nn.Module], *, both: bool, whole: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.whole = kind(3, 4, 3, dropout=0.5, bidirectional=both)
        self.parts = nn.ModuleList() if whole else nn.ModuleList(self._layers(kind, both=both))
        self.between = nn.Dropout(0.5)

    def _layers(self, kind: Callable[..., nn.Module], *, both: bool) -> Iterator[nn.Module]:
        given = self.whole.state_dict()
        for layer in range(3):
            part = kind(3 if layer == 0 else 4 * (1 + both), 4, bidirectional=both)
            part.load_state_dict(
                {name.replace(f"_l{layer}", "_l0"): v for name, v in given.items() if f"_l{layer}" in name}
            )
            yield part

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.reshape(2, 2, 3)
        if not self.parts:
            found: torch.Tensor = self.whole(x)[0]
            return found.sum(2).reshape(4)
        for number, part in enumerate(self.parts):
            x = part(self.between(x) if number else x)[0]
        return x.sum(2).reshape(4)


@pytest.mark.filterwarnings("ignore:parameters with no gradient")
@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN, partial(nn.RNN, nonlinearity="relu")])
def test_recurrent_layers_have_dropout_between_them(kind: Callable[..., nn.Module], both: bool) -> None:
    """The attack: PyTorch's own decomposition leaves it out."""

    def of(whole: bool) -> Built:
        module = Stacked(kind, both=both, whole=whole)
        initial = {name: value.numpy() for name, value in module.state_dict().items()}
        return capture(module, nn.functional.mse_loss, SGD(0.0), DATA, ORDER, initial=initial)

    whole, parts = of(True), of(False)
    assert [sum(n.name == "philox" for n in one.program.nodes) for one in (whole, parts)] == [2, 2]
    assert eager.first_metrics(whole)["loss"] == pytest.approx(eager.first_metrics(parts)["loss"], rel=1e-6)
