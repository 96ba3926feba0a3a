"""PyTorch's own optimizers beside ours: each makes steps of one parameter at a time.

For the guard alone. An optimizer of torch.optim is its own twin, on a copy of its group and its states; ours has the
one of torch.optim that it is written after, and a rule of functions is called with tensors.
"""

from __future__ import annotations

import collections
import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from repops.opset import F32
from repops.torch_arrays import from_numpy

from referee_py.commit.tensor import Array
from referee_py.program import Kind, TensorType

from ..builder import Ref
from ..definition import StepDefinition
from .builtin import SGD, Adam, Averaged, Groups, LearningRate, Maximized, Optimizer, Parameter, Start
from .torch_optim import STATES, schedule
from .update_rules import UpdateRule

States = dict[str, torch.Tensor]
Twin = Callable[[int], States]
"""Makes step t of a parameter that has a gradient, and returns the states by the labels of their slots."""


class Twins(ABC):
    """Makes the twin of an optimizer for one parameter, or for its first rows. `name` is the optimizer, in words."""

    name: str

    @abstractmethod
    def twin(self, name: str, weight: torch.nn.Parameter) -> Twin: ...

    @classmethod
    def of(cls, step: StepDefinition) -> Twins | None:
        """Return what makes twins of a step's optimizer; None if it is of a kind that nobody knows."""
        origins = dict(step.module.named_parameters())
        if isinstance(step.optimizer, torch.optim.Optimizer):
            steps = min(2, len(step.order))
            rates = None if step.scheduler is None else schedule(step.optimizer, step.scheduler, steps)
            return _OfTorch(step.optimizer, rates, origins)
        return _OfOurs(step.optimizer, origins) if _is_known(step.optimizer) else None


def _is_known(rule: Optimizer) -> bool:
    if isinstance(rule, Groups):
        return all(_is_known(member) for member, _ in rule.groups)
    if isinstance(rule, Averaged | Maximized):
        return _is_known(rule.rule)
    return isinstance(rule, SGD | Adam | UpdateRule)


@dataclass(frozen=True)
class _OfTorch(Twins):
    optimizer: torch.optim.Optimizer
    rates: Sequence[Sequence[float]] | None
    """Of each group, in each step."""
    origins: Mapping[str, torch.Tensor]

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"torch.optim.{type(self.optimizer).__name__}"

    def twin(self, name: str, weight: torch.nn.Parameter) -> Twin:
        origin = self.origins[name]
        groups = enumerate(self.optimizer.param_groups)
        place, group = next((k, g) for k, g in groups if any(p is origin for p in g["params"]))
        other = copy.copy(
            self.optimizer
        )  # NOTE: its own attributes, such as a scheduler's hook, are not copied
        other.state = collections.defaultdict(dict)
        other.param_groups = [{**group, "params": [weight]}]
        for key, value in self.optimizer.state.get(origin, {}).items():
            if isinstance(value, torch.Tensor):
                value = (
                    value[: len(weight)] if value.shape == origin.shape and value.ndim else value
                ).clone()
            other.state[weight][key] = value

        def step(t: int) -> States:
            if self.rates is not None:
                other.param_groups[0]["lr"] = self.rates[place][t - 1]
            other.step()
            return _labelled(name, other.state[weight])

        return step


def _labelled(name: str, states: Mapping[str, Any]) -> States:
    found = {key: value for key, value in states.items() if isinstance(value, torch.Tensor)}
    return {f"{ours}.{name}": value for key, value in found.items() for ours in STATES.get(key, ())}


@dataclass(frozen=True)
class _OfOurs(Twins):
    optimizer: Optimizer
    origins: Mapping[str, torch.Tensor]

    @property
    def name(self) -> str:  # type: ignore[override]
        return _named(self.optimizer)

    def twin(self, name: str, weight: torch.nn.Parameter) -> Twin:
        origin = self.origins[name]
        ref = Ref(Kind.SLOT, 0, 0, TensorType(F32, tuple(origin.shape)))
        return _twin(self.optimizer, Parameter(name, origin, ref, ref, ref), weight)


def _named(rule: Optimizer) -> str:
    match rule:
        case Groups():
            return " and ".join(dict.fromkeys(_named(member) for member, _ in rule.groups))
        case Averaged() | Maximized():
            return _named(rule.rule)
        case UpdateRule():
            return f"the function {rule.update.__name__}"
    return f"torch.optim.{'AdamW' if isinstance(rule, Adam) and rule.decoupled else type(rule).__name__}"


def _twin(rule: Optimizer, p: Parameter, weight: torch.nn.Parameter) -> Twin:
    match rule:
        case Groups():
            return _twin(rule.of(p), p, weight)
        case Maximized():
            return _uphill(_twin(rule.rule, p, weight), weight)
        case Averaged():
            return _averaged(_twin(rule.rule, p, weight), rule.decay, p, weight)
        case UpdateRule():
            return _by_function(rule, p, weight)
        case SGD():
            made: torch.optim.Optimizer = torch.optim.SGD(
                *([weight], 0.0, rule.momentum, rule.dampening, rule.weight_decay, rule.nesterov)
            )
            return _by_torch(made, rule.lr, rule.start, {"momentum_buffer": "momentum"}, p, weight)
        case Adam():
            kind = torch.optim.AdamW if rule.decoupled else torch.optim.Adam
            made = kind([weight], 0.0, rule.betas, rule.eps, rule.weight_decay)
            states = {"exp_avg": "adam.first", "exp_avg_sq": "adam.second"}
            return _by_torch(made, rule.lr, rule.start, states, p, weight)
    raise TypeError(type(rule).__name__)


def _rate(lr: LearningRate, t: int) -> float:
    return float(lr) if isinstance(lr, int | float) else float(lr[t - 1])


def _by_torch(
    made: torch.optim.Optimizer,
    lr: LearningRate,
    start: Start,
    states: Mapping[str, str],
    p: Parameter,
    weight: torch.nn.Parameter,
) -> Twin:
    held: Mapping[str, Array] = start.of(p.origin)
    if held:
        begun = {
            theirs: from_numpy(_first_rows(held[ours], weight))
            for theirs, ours in states.items()
            if ours in held
        }
        made.state[weight].update({**begun, "step": torch.tensor(float(start.done))})

    def step(t: int) -> States:
        made.param_groups[0]["lr"] = _rate(lr, t)
        made.step()
        return _labelled(p.name, made.state[weight])

    return step


def _first_rows(state: Array, weight: torch.Tensor) -> Array:
    """Return what a state has for the rows of a parameter that there are."""
    return (state[: len(weight)] if state.ndim and state.shape[1:] == weight.shape[1:] else state).copy()


def _uphill(twin: Twin, weight: torch.nn.Parameter) -> Twin:
    def step(t: int) -> States:
        assert weight.grad is not None
        weight.grad = -weight.grad
        return twin(t)

    return step


def _averaged(twin: Twin, decay: float, p: Parameter, weight: torch.nn.Parameter) -> Twin:
    average = [weight.detach().clone()]
    update = torch.optim.swa_utils.get_ema_multi_avg_fn(decay)

    def step(t: int) -> States:
        states = twin(t)
        update(average, [weight.detach()], t)
        return {**states, f"average.{p.name}": average[0].clone()}

    return step


def _by_function(rule: UpdateRule, p: Parameter, weight: torch.nn.Parameter) -> Twin:
    held = rule.start.of(p.origin)
    first = {name: held.get(name, make(tuple(weight.shape))) for name, make in rule.states.items()}
    states = {name: from_numpy(_first_rows(value, weight)) for name, value in first.items()}

    def step(t: int) -> States:
        numbers = rule.numbers(t + rule.start.done, _rate(rule.lr, t))
        scalars = [torch.tensor(number, dtype=torch.float32) for number in numbers]
        assert weight.grad is not None
        with torch.no_grad():
            after, new = rule.update(weight.detach().clone(), weight.grad, dict(states), scalars)
            weight.copy_(after)
        states.update({name: new[name].clone() for name in states})
        return {f"{name}.{p.name}": value for name, value in states.items()}

    return step
