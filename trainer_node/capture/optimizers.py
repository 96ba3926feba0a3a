"""Optimizers as nodes of the operator set.

They follow PyTorch's update rules, up to FP32 rounding. One difference is on purpose: Adam's bias corrections
`1 - beta^t` are two scalar slots, shared by all parameters and updated by

    c_t = beta * c_(t-1) + (1 - beta),   c_0 = 0

which is the same number. It needs no pow, and unlike `1 - beta^t` in FP32 it does not cancel: at t = 1 that would lose
14 of 24 bits for beta = 0.999.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from repops.opset import I64

from referee_py.commit.tensor import Array

from .builder import Builder, Ref
from .errors import CaptureError

LearningRate = float | Sequence[float]
"""A number for all steps, or a table with an entry for each."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A trained tensor: its slot, its initial value and its gradient in this step."""

    name: str
    value: Ref
    initial: Array
    gradient: Ref


class Optimizer(Protocol):
    """Writes one step's update of all parameters into the builder. `steps` is the length of the run."""

    def build(self, b: Builder, parameters: Sequence[Parameter], steps: int) -> None: ...


@dataclass(frozen=True, slots=True)
class SGD:
    """`torch.optim.SGD` without dampening."""

    lr: LearningRate
    momentum: float = 0.0
    weight_decay: float = 0.0
    nesterov: bool = False

    def build(self, b: Builder, parameters: Sequence[Parameter], steps: int) -> None:
        if self.nesterov and not self.momentum:
            raise CaptureError("SGD with nesterov needs a momentum above 0")
        b.label = "optimizer"
        lr = learning_rate(b, self.lr, steps)
        for p in parameters:
            b.label = f"optimizer {p.name}"
            direction = _decayed(b, p, self.weight_decay)
            if self.momentum:
                direction = self._with_momentum(b, p, direction)
            b.update(p.value, b.op("sub", p.value, b.op("mul", direction, lr)))

    def _with_momentum(self, b: Builder, p: Parameter, gradient: Ref) -> Ref:
        """v' = mu v + g; the direction is v', or g + mu v' with nesterov."""
        mu = b.full(self.momentum)
        old = b.slot(f"momentum.{p.name}", np.zeros_like(p.initial))
        velocity = b.op("add", b.op("mul", old, mu), gradient)
        b.update(old, velocity)
        return b.op("add", gradient, b.op("mul", velocity, mu)) if self.nesterov else velocity


@dataclass(frozen=True, slots=True)
class Adam:
    """`torch.optim.Adam`, or `torch.optim.AdamW` with `decoupled=True`."""

    lr: LearningRate = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0
    decoupled: bool = False

    def build(self, b: Builder, parameters: Sequence[Parameter], steps: int) -> None:
        b.label = "optimizer"
        lr = learning_rate(b, self.lr, steps)
        correction1 = _bias_correction(b, "adam.correction1", self.betas[0])
        correction2 = _bias_correction(b, "adam.correction2", self.betas[1])
        step_size = b.op("div", lr, correction1)
        scale = b.op("rsqrt", correction2)
        shrink = None
        if self.decoupled and self.weight_decay:
            shrink = b.op("sub", b.full(1.0), b.op("mul", lr, b.full(self.weight_decay)))
        for p in parameters:
            b.label = f"optimizer {p.name}"
            gradient = p.gradient if self.decoupled else _decayed(b, p, self.weight_decay)
            first = self._moment(b, p, "adam.first", gradient, self.betas[0])
            second = self._moment(b, p, "adam.second", b.op("mul", gradient, gradient), self.betas[1])
            root = b.op("add", b.op("mul", b.op("sqrt", second), scale), b.full(self.eps))
            change = b.op("mul", b.op("div", first, root), step_size)
            base = b.op("mul", p.value, shrink) if shrink else p.value
            b.update(p.value, b.op("sub", base, change))

    def _moment(self, b: Builder, p: Parameter, name: str, sample: Ref, beta: float) -> Ref:
        """m' = beta m + (1 - beta) sample."""
        old = b.slot(f"{name}.{p.name}", np.zeros_like(p.initial))
        new = b.op("add", b.op("mul", old, b.full(beta)), b.op("mul", sample, b.full(1 - beta)))
        b.update(old, new)
        return new


def learning_rate(b: Builder, lr: LearningRate, steps: int) -> Ref:
    """This step's learning rate: a scalar, or an entry of a table of constants."""
    if isinstance(lr, int | float):
        return b.full(lr)
    table = np.asarray(lr, dtype=np.float32)
    if table.shape != (steps,):
        raise CaptureError(
            f"a learning-rate table of shape {table.shape} for {steps} steps; give one number for each step"
        )
    return b.op("take", b.constant("learning_rate", table), step_index(b))


def step_index(b: Builder) -> Ref:
    """t - 1: the row of this step in a table."""
    return b.op("sub", b.step(), b.full(1, I64))


def _decayed(b: Builder, p: Parameter, weight_decay: float) -> Ref:
    """g + weight_decay * p."""
    if not weight_decay:
        return p.gradient
    return b.op("add", p.gradient, b.op("mul", p.value, b.full(weight_decay)))


def _bias_correction(b: Builder, name: str, beta: float) -> Ref:
    old = b.slot(name, np.zeros((), dtype=np.float32))
    new = b.op("add", b.op("mul", old, b.full(beta)), b.full(1 - beta))
    b.update(old, new)
    return new
