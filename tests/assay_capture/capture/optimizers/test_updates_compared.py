"""The guard compares updates of weights: an optimizer, clipping, a schedule or a sum over parts may be wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler

from assay_capture.capture import (
    SGD,
    Adam,
    Averaged,
    CaptureError,
    Groups,
    Optimizer,
    Recipe,
    build,
    lion,
    step,
    updates,
)
from assay_capture.capture.optimizers import builtin, torch_optim
from assay_capture.capture.step import _Parts

from .test_optimizers import DATA, KINDS, cross_entropy, mlp

SAME = "weights and states after two updates by given gradients are "
Make = Callable[[nn.Module], Any]


def recipe(make: Make, **options: Any) -> Recipe:
    module = mlp()
    made = make(module)
    return Recipe("updated", module, cross_entropy, made, DATA, 5, 8, initial="module", **options)


def scheduled(make: Make) -> Recipe:
    """Return a recipe whose rate halves after each step."""
    found = recipe(make)
    optimizer: Any = found.optimizer
    return replace(found, scheduler=lr_scheduler.ExponentialLR(optimizer, 0.5))


def said(given: Recipe) -> str:
    return str(build(given).labels["checked"])


def sgd(module: nn.Module, **options: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(module.parameters(), 0.05, **options)


@pytest.mark.parametrize("name", KINDS)
def test_updates_of_every_optimizer_are_compared_new_and_begun(name: str) -> None:
    new = recipe(lambda m: KINDS[name](m.parameters()))
    optimizer: Any = new.optimizer
    assert said(new).endswith(f"{SAME}torch.optim.{type(optimizer).__name__}'s")
    torch.manual_seed(0)
    for _ in range(3):
        for parameter in new.module.parameters():
            parameter.grad = torch.randn_like(parameter)
        optimizer.step()

    def states() -> list[torch.Tensor]:
        held = optimizer.state.values()
        return [value.clone() for s in held for value in s.values() if isinstance(value, torch.Tensor)]

    before = states()
    assert SAME in said(replace(new, clip_norm=0.1))
    after = states()
    assert all(map(torch.equal, before, after)), "the optimizer stays as it was"


OURS: dict[str, tuple[Optimizer, str]] = {
    "sgd": (SGD(0.1, momentum=0.9, nesterov=True), "torch.optim.SGD"),
    "rates": (Adam([0.0, 1e-9, 0.1, 0.1, 0.1]), "torch.optim.Adam"),
    "groups": (
        Groups([(SGD(0.1), ["0.weight"]), (Adam(), lambda _: True)]),
        "torch.optim.SGD and torch.optim.Adam",
    ),
    "average": (Averaged(Adam(0.1, weight_decay=0.1, decoupled=True), 0.9), "torch.optim.AdamW"),
    "up": (builtin.Maximized(SGD(0.1)), "torch.optim.SGD"),
    "function": (lion(1e-3), "the function update"),
}


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize(
    "options", [{}, {"micro_batches": 4, "clip_norm": 1.0}, {"accumulate": 2, "clip_value": 0.1}]
)
def test_updates_by_our_own_description_are_compared(name: str, options: dict[str, Any]) -> None:
    rule, words = OURS[name]
    assert said(recipe(lambda _: rule, **options)).endswith(f"{SAME}{words}'s")


def test_updates_of_a_rule_that_nobody_knows_are_said_not_to_be_compared() -> None:
    class Own(Optimizer):
        def build(self, b: Any, parameters: Any, steps: int) -> None:
            SGD(0.1).build(b, parameters, steps)

    assert said(recipe(lambda _: Own())).endswith("; updates by Own were not compared")


class Penalised(nn.Module):
    """A classifier beside a penalty on a weight of its own, whose gradient nothing of the data changes."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.v = mlp(), nn.Parameter(torch.tensor([-1.0, 4.0]))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"loss": cross_entropy(self.inner(x), y) + (self.v**3).sum()}


def test_a_parameter_whose_gradient_is_of_weights_alone_is_said_to_be_left_out() -> None:
    given = Recipe("penalised", Penalised(), None, SGD(0.1), DATA, 5, 8, initial="module")
    assert said(given).endswith(f"{SAME}torch.optim.SGD's, but for v")
    assert said(replace(given, clip_norm=1.0)).endswith("; updates of weights were not compared")


def test_of_a_large_parameter_some_rows_say_how_each_element_is_updated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(updates, "_ENOUGH", 7)
    found: list[int | None] = []
    right = updates._Frame.rows

    def rows(*args: Any) -> int | None:
        found.append(right(*args))
        return found[-1]

    monkeypatch.setattr(updates._Frame, "rows", rows)
    for make in KINDS.values():
        assert SAME in said(recipe(lambda m, make=make: make(m.parameters())))  # type: ignore[misc]
    for rule, _ in OURS.values():
        assert SAME in said(recipe(lambda _, rule=rule: rule, clip_norm=1.0))  # type: ignore[misc]
    assert {1, 7, None} == {*found}
    _no_clip(monkeypatch)
    with pytest.raises(CaptureError, match="update is not PyTorch's"):
        build(recipe(sgd, clip_norm=100.0))


def wrong(make: Make = sgd, **options: Any) -> Callable[[], Recipe]:
    return lambda: recipe(make, **options)


def _other_sign(patch: pytest.MonkeyPatch) -> None:
    right = torch_optim._RULES[torch.optim.SGD]
    patch.setitem(torch_optim._RULES, torch.optim.SGD, lambda group, rate: right(group, -rate))


def _no_option(name: str) -> Callable[[pytest.MonkeyPatch], None]:
    def change(patch: pytest.MonkeyPatch) -> None:
        right = torch_optim._RULES[torch.optim.SGD]
        patch.setitem(
            torch_optim._RULES, torch.optim.SGD, lambda group, rate: right({**group, name: 0.0}, rate)
        )

    return change


def _next_entry(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(builtin, "step_index", lambda b: b.step())


def _no_clip(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(step, "clip", lambda _b, gradients, _limit: gradients)


def _no_clip_of_values(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(step, "clip_values", lambda _b, gradients, _limit: gradients)


def _sums(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(_Parts, "_averages", lambda _self, sums, _n: {name: s.total() for name, s in sums.items()})


def _first_rows(patch: pytest.MonkeyPatch) -> None:
    right = step._batches

    def batches(*args: Any) -> Any:
        found = right(*args)
        return [found[0]] * len(found)

    patch.setattr(step, "_batches", batches)


WRONG: dict[str, tuple[Callable[[], Recipe], Callable[[pytest.MonkeyPatch], None]]] = {
    "the other sign": (wrong(), _other_sign),
    "no momentum": (wrong(lambda m: sgd(m, momentum=0.9)), _no_option("momentum")),
    "no decay": (wrong(lambda m: sgd(m, weight_decay=0.1)), _no_option("weight_decay")),
    "the next entry of a schedule": (lambda: scheduled(sgd), _next_entry),
    "no clipping by norm": (wrong(clip_norm=100.0), _no_clip),
    "no clipping by value": (wrong(clip_value=100.0), _no_clip_of_values),
    "sums in place of averages": (wrong(micro_batches=2), _sums),
    "the same rows in each part": (wrong(micro_batches=2), _first_rows),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_update_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, change = WRONG[name]
    assert SAME in said(make())
    change(monkeypatch)
    with pytest.raises(CaptureError, match=r"update is not PyTorch's|not of the rows"):
        build(make())
