"""Optimizers written as functions of tensors, which are traced like the module itself.

    def signum(p, g, state, n):
        momentum = 0.9 * state["momentum"] + 0.1 * g
        return p - n[0] * momentum.sign(), {"momentum": momentum}

    UpdateRule(signum, lr=1e-4, states={"momentum": like_parameter})

So anyone can add a rule. The rules of PyTorch below are its own formulas (torch/optim), with the numbers that depend on
the step alone computed in float64 beforehand.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from referee_py.commit.tensor import Array

from ..builder import Builder, Ref
from ..draft import Source
from ..errors import CaptureError
from ..lowering import RULES, Noise, lower
from ..phases import Phases
from ..trace import functional_graph
from .builtin import NEW, LearningRate, Optimizer, Parameter, Start, step_index

Tensor = torch.Tensor
State = dict[str, Tensor]
Update = Callable[[Tensor, Tensor, State, Sequence[Tensor]], tuple[Tensor, State]]
Shape = tuple[int, ...]


def like_parameter(shape: Shape) -> Array:
    """Return zeros of the parameter's shape: the initial value of most states."""
    return np.zeros(shape, np.float32)


@dataclass(frozen=True)
class UpdateRule(Optimizer):
    """`update(parameter, gradient, state, numbers)` gives the parameter and the state after a step; all f32.

    `states` gives the initial value of each state from the parameter's shape. `numbers(t, rate)` gives scalars of step
    t = 1, 2, ...; by default the learning rate alone.
    """

    update: Update
    lr: LearningRate
    states: Mapping[str, Callable[[Shape], Array]] = field(default_factory=dict)
    numbers: Callable[[int, float], Sequence[float]] = lambda _, rate: (rate,)
    start: Start = NEW

    def build(self, b: Builder, parameters: Sequence[Parameter], steps: int) -> None:
        b.label = "optimizer"
        numbers = self._table(b, steps)
        graphs: dict[Shape, torch.fx.GraphModule] = {}
        for p in parameters:
            b.label = f"optimizer {p.name}"
            initial = {name: Source.of(make(p.value.shape)) for name, make in self.states.items()}
            slots = {name: self.start.slot(b, name, p, source) for name, source in initial.items()}
            if p.value.shape not in graphs:
                graphs[p.value.shape] = self._graph(
                    p.value.shape, [source.type.shape for source in initial.values()], len(numbers)
                )
            inputs = [p.value, p.gradient, *numbers, *slots.values()]
            after, *states = lower(graphs[p.value.shape], inputs, b, Noise(b, 0))
            b.update(p.slot, after)
            for slot, state in zip(slots.values(), states, strict=True):
                b.update(slot, state)

    def _table(self, b: Builder, steps: int) -> list[Ref]:
        """Return the numbers of this step, scalars from a table of constants."""
        rates = [float(self.lr)] * steps if isinstance(self.lr, int | float) else list(self.lr)
        if len(rates) != steps:
            raise CaptureError(
                f"{len(rates)} learning rates for {steps} steps; give one number for each step"
            )
        rows = [self.numbers(t, rate) for t, rate in enumerate(rates, 1 + self.start.done)]
        columns = np.array(rows, np.float64).astype(np.float32).T
        found = []
        for column in columns:
            if (column == column[0]).all():
                found.append(b.full(float(column[0])))
            else:
                found.append(b.op("take", b.table("optimizer", np.ascontiguousarray(column)), step_index(b)))
        return found

    def _graph(self, shape: Shape, states: Sequence[Shape], numbers: int) -> torch.fx.GraphModule:
        def step(tensors: list[Tensor]) -> list[Tensor]:
            p, g, *rest = tensors
            state = dict(zip(self.states, rest[numbers:], strict=True))
            after, new = self.update(p, g, state, rest[:numbers])
            return [after, *(new[name] for name in self.states)]

        shapes = [(s, torch.float32) for s in (shape, shape, *[()] * numbers, *states)]
        return functional_graph(step, shapes, torch.nn.Module(), list(RULES), Phases())


# ------------------------------------------------------------------------------------------- PyTorch's own rules


def rmsprop(
    lr: LearningRate, alpha: float, eps: float, weight_decay: float, momentum: float, centered: bool
) -> UpdateRule:
    def update(p: Tensor, g: Tensor, s: State, n: Sequence[Tensor]) -> tuple[Tensor, State]:
        g = g + weight_decay * p if weight_decay else g
        new = {"square": alpha * s["square"] + (1 - alpha) * g * g}
        spread = new["square"]
        if centered:
            new["mean"] = s["mean"] + (1 - alpha) * (g - s["mean"])
            spread = spread - new["mean"] * new["mean"]
        step = g / (spread.sqrt() + eps)
        if momentum:
            step = new["momentum"] = momentum * s["momentum"] + step
        return p - n[0] * step, new

    names = ["square", *["mean"] * centered, *["momentum"] * bool(momentum)]
    return UpdateRule(update, lr, dict.fromkeys(names, like_parameter))


def adagrad(lr: LearningRate, lr_decay: float, weight_decay: float, initial: float, eps: float) -> UpdateRule:
    def update(p: Tensor, g: Tensor, s: State, n: Sequence[Tensor]) -> tuple[Tensor, State]:
        g = g + weight_decay * p if weight_decay else g
        total = s["sum"] + g * g
        return p - n[0] * (g / (total.sqrt() + eps)), {"sum": total}

    start = lambda shape: np.full(shape, initial, np.float32)  # noqa: E731
    return UpdateRule(update, lr, {"sum": start}, lambda t, rate: (rate / (1 + (t - 1) * lr_decay),))


def adadelta(lr: LearningRate, rho: float, eps: float, weight_decay: float) -> UpdateRule:
    def update(p: Tensor, g: Tensor, s: State, n: Sequence[Tensor]) -> tuple[Tensor, State]:
        g = g + weight_decay * p if weight_decay else g
        square = rho * s["square"] + (1 - rho) * g * g
        delta = (s["delta"] + eps).sqrt() / (square + eps).sqrt() * g
        return p - n[0] * delta, {"square": square, "delta": rho * s["delta"] + (1 - rho) * delta * delta}

    return UpdateRule(update, lr, dict.fromkeys(("square", "delta"), like_parameter))


def adamax(lr: LearningRate, betas: tuple[float, float], eps: float, weight_decay: float) -> UpdateRule:
    first, second = betas

    def update(p: Tensor, g: Tensor, s: State, n: Sequence[Tensor]) -> tuple[Tensor, State]:
        g = g + weight_decay * p if weight_decay else g
        mean = s["mean"] + (1 - first) * (g - s["mean"])
        largest = torch.maximum(second * s["largest"], g.abs() + eps)
        return p - n[0] * (mean / largest), {"mean": mean, "largest": largest}

    states = dict.fromkeys(("mean", "largest"), like_parameter)
    return UpdateRule(update, lr, states, lambda t, rate: (rate / (1 - first**t),))


def _decayed(p: Tensor, g: Tensor, decay: float, decoupled: bool, rate: Tensor) -> tuple[Tensor, Tensor]:
    if not decay:
        return p, g
    return (p * (1 - rate * decay), g) if decoupled else (p, g + decay * p)


def amsgrad(
    lr: LearningRate, betas: tuple[float, float], eps: float, weight_decay: float, decoupled: bool
) -> UpdateRule:
    first, second = betas

    def update(p: Tensor, g: Tensor, s: State, n: Sequence[Tensor]) -> tuple[Tensor, State]:
        p, g = _decayed(p, g, weight_decay, decoupled, n[0])
        mean = s["mean"] + (1 - first) * (g - s["mean"])
        square = second * s["square"] + (1 - second) * g * g
        largest = torch.maximum(s["largest"], square)
        after = p - n[1] * (mean / (largest.sqrt() / n[2] + eps))
        return after, {"mean": mean, "square": square, "largest": largest}

    states = dict.fromkeys(("mean", "square", "largest"), like_parameter)
    return UpdateRule(
        update, lr, states, lambda t, rate: (rate, rate / (1 - first**t), math.sqrt(1 - second**t))
    )


def nadam(
    lr: LearningRate,
    betas: tuple[float, float],
    eps: float,
    weight_decay: float,
    momentum_decay: float,
    decoupled: bool,
) -> UpdateRule:
    first, second = betas
    product = [1.0]

    def mu(t: int) -> float:
        return float(first * (1 - 0.5 * 0.96 ** (t * momentum_decay)))

    def numbers(t: int, rate: float) -> tuple[float, ...]:
        while len(product) <= t:
            product.append(product[-1] * mu(len(product)))
        of_gradient = rate * (1 - mu(t)) / (1 - product[t])
        of_mean = rate * mu(t + 1) / (1 - product[t] * mu(t + 1))
        return rate, of_gradient, of_mean, 1 - second**t

    def update(p: Tensor, g: Tensor, s: State, n: Sequence[Tensor]) -> tuple[Tensor, State]:
        p, g = _decayed(p, g, weight_decay, decoupled, n[0])
        mean = s["mean"] + (1 - first) * (g - s["mean"])
        square = second * s["square"] + (1 - second) * g * g
        spread = (square / n[3]).sqrt() + eps
        return p - n[1] * (g / spread) - n[2] * (mean / spread), {"mean": mean, "square": square}

    return UpdateRule(update, lr, dict.fromkeys(("mean", "square"), like_parameter), numbers)


def radam(
    lr: LearningRate, betas: tuple[float, float], eps: float, weight_decay: float, decoupled: bool
) -> UpdateRule:
    first, second = betas
    limit = 2 / (1 - second) - 1

    def numbers(t: int, rate: float) -> tuple[float, ...]:
        rho = limit - 2 * t * second**t / (1 - second**t)
        if rho <= 5:
            return rate, rate / (1 - first**t), 1.0, 0.0
        rectified = math.sqrt((rho - 4) * (rho - 2) * limit / ((limit - 4) * (limit - 2) * rho))
        return rate, rate / (1 - first**t), 0.0, rectified * math.sqrt(1 - second**t)

    def update(p: Tensor, g: Tensor, s: State, n: Sequence[Tensor]) -> tuple[Tensor, State]:
        p, g = _decayed(p, g, weight_decay, decoupled, n[0])
        mean = s["mean"] + (1 - first) * (g - s["mean"])
        square = second * s["square"] + (1 - second) * g * g
        return p - n[1] * mean * (n[2] + n[3] / (square.sqrt() + eps)), {"mean": mean, "square": square}

    return UpdateRule(update, lr, dict.fromkeys(("mean", "square"), like_parameter), numbers)


def adafactor(
    lr: LearningRate,
    beta2_decay: float,
    eps: tuple[float | None, float],
    d: float,
    weight_decay: float,
) -> UpdateRule:
    least = float(np.finfo(np.float32).eps) if eps[0] is None else eps[0]

    def update(p: Tensor, g: Tensor, s: State, n: Sequence[Tensor]) -> tuple[Tensor, State]:
        size = math.sqrt(p.numel())
        scale = ((p * p).sum().sqrt() / size).clamp(min=eps[1]) * n[1]
        p = p * (1 - n[0] * weight_decay) if weight_decay else p
        if g.ndim > 1:
            row = s["row"] + n[2] * ((g * g).mean(-1, keepdim=True) - s["row"])
            column = s["column"] + n[2] * ((g * g).mean(-2, keepdim=True) - s["column"])
            variance = (row @ column) / row.mean(-2, keepdim=True).clamp(min=least)
            new = {"row": row, "column": column}
        else:
            variance = s["row"] + n[2] * (g * g - s["row"])
            new = {"row": variance, "column": s["column"]}
        change = variance.clamp(min=least * least).rsqrt() * g
        denominator = ((change * change).sum().sqrt() / (size * d)).clamp(min=1.0)
        return p - (scale / denominator) * change, new

    row = lambda shape: np.zeros((*shape[:-1], 1) if len(shape) > 1 else shape, np.float32)  # noqa: E731
    column = lambda shape: np.zeros((*shape[:-2], 1, shape[-1]) if len(shape) > 1 else (), np.float32)  # noqa: E731
    states = {"row": row, "column": column}
    return UpdateRule(
        update, lr, states, lambda t, rate: (rate, min(rate, 1 / math.sqrt(t)), float(t) ** beta2_decay)
    )


def muon(
    lr: LearningRate,
    weight_decay: float,
    momentum: float,
    nesterov: bool,
    coefficients: tuple[float, float, float],
    eps: float,
    iterations: int,
    adjust: str | None,
) -> UpdateRule:
    """Keller Jordan, "Muon", 2024: momentum made orthogonal by Newton and Schulz's iteration, here in f32."""
    a, b, c = coefficients

    def orthogonal(g: Tensor) -> Tensor:
        tall = g.shape[0] > g.shape[1]
        x = g.T if tall else g
        x = x / (x * x).sum().sqrt().clamp(min=eps)
        for _ in range(iterations):
            gram = x @ x.T
            x = a * x + (b * gram + c * (gram @ gram)) @ x
        return x.T if tall else x

    def update(p: Tensor, g: Tensor, s: State, n: Sequence[Tensor]) -> tuple[Tensor, State]:
        if p.ndim != 2:
            raise CaptureError(
                f"Muon is for matrices, not for {list(p.shape)}; put others into another group"
            )
        mean = s["momentum"] + (1 - momentum) * (g - s["momentum"])
        ratio = math.sqrt(max(1, p.shape[0] / p.shape[1]))
        if adjust == "match_rms_adamw":
            ratio = 0.2 * math.sqrt(max(p.shape))
        direction = orthogonal(g + momentum * (mean - g) if nesterov else mean)
        return p * (1 - n[0] * weight_decay) - n[0] * ratio * direction, {"momentum": mean}

    return UpdateRule(update, lr, {"momentum": like_parameter})


def lion(lr: LearningRate, betas: tuple[float, float] = (0.9, 0.99), weight_decay: float = 0.0) -> UpdateRule:
    """Chen et al., "Symbolic discovery of optimization algorithms", 2023, algorithm 2."""
    first, second = betas

    def update(p: Tensor, g: Tensor, s: State, n: Sequence[Tensor]) -> tuple[Tensor, State]:
        direction = (first * s["momentum"] + (1 - first) * g).sign()
        after = p * (1 - n[0] * weight_decay) - n[0] * direction
        return after, {"momentum": second * s["momentum"] + (1 - second) * g}

    return UpdateRule(update, lr, {"momentum": like_parameter})
