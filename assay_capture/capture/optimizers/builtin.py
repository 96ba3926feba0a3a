"""Optimizers as nodes of the operator set: PyTorch's update rules, built from the composites of repops.

    SGD(0.1, momentum=0.9)
    Adam(3e-4, weight_decay=0.1, decoupled=True)
    Groups([(Adam(3e-4, weight_decay=0.1, decoupled=True), weights), (Adam(3e-4), biases)])
    from_torch(torch.optim.AdamW(module.parameters(), 3e-4), scheduler, steps=1000)

Parts that do not depend on a parameter (bias corrections, a schedule's entry) are computed once for all parameters:
equal expressions are one node.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from repops.fuse import composites
from repops.opset import F32, I64

from referee_py.commit.tensor import Array

from ..builder import Builder, Ref
from ..draft import Source
from ..errors import CaptureError

LearningRate = float | Sequence[float]
"""A number for all steps, or a table with an entry for each."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A trained tensor: its name, the module's own tensor, its slot, its gradient in this step, and its value now.

    The value is the slot's, unless the forward pass writes to the parameter.
    """

    name: str
    origin: torch.Tensor
    slot: Ref
    gradient: Ref
    value: Ref


@dataclass(frozen=True, slots=True)
class Start:
    """Begin of an optimizer: after ``done`` steps, with the states that ``of`` gives for a tensor of the module, by
    the names of their slots. What it does not give begins as in a new optimizer."""

    done: int = 0
    of: Callable[[torch.Tensor], Mapping[str, Array]] = lambda _: {}

    def slot(self, b: Builder, name: str, p: Parameter, new: Source) -> Ref:
        """Add a state of a parameter. Raises CaptureError for one of another shape than a new one."""
        found = self.of(p.origin)
        if self.done and not found:
            raise CaptureError(
                f"{p.name} has no state in the optimizer, and others have made {self.done} steps; put it into a group "
                "of its own"
            )
        given = found.get(name)
        if given is not None and tuple(given.shape) != new.type.shape:
            raise CaptureError(
                f"the optimizer's state {name} of {p.name} is {list(given.shape)}; it must be {list(new.type.shape)}"
            )
        return b.slot(f"{name}.{p.name}", new if given is None else Source.of(given))


NEW = Start()


class Optimizer(ABC):
    """Writes one step's update of all parameters into the builder. `steps` is the length of the run."""

    @abstractmethod
    def build(self, b: Builder, parameters: Sequence[Parameter], steps: int) -> None: ...


@dataclass(frozen=True, slots=True)
class SGD(Optimizer):
    """`torch.optim.SGD`."""

    lr: LearningRate
    momentum: float = 0.0
    weight_decay: float = 0.0
    nesterov: bool = False
    dampening: float = 0.0
    start: Start = NEW

    def build(self, b: Builder, parameters: Sequence[Parameter], steps: int) -> None:
        if self.nesterov and (not self.momentum or self.dampening):
            raise CaptureError("SGD with nesterov needs a momentum above 0 and no dampening")
        b.label = "optimizer"
        rate = learning_rate(b, self.lr, steps)
        for p in parameters:
            b.label = f"optimizer {p.name}"
            if not self.momentum:
                after = composites.sgd(b.compose, p.value, p.gradient, rate, decay=self.weight_decay)
            elif self.nesterov or self.dampening:
                after = self._with_momentum(b, p, rate)
            else:
                old = self.start.slot(b, "momentum", p, Source.zeros(p.value.type))
                after, velocity = composites.momentum_sgd(
                    *(b.compose, p.value, p.gradient, old, rate),
                    momentum=self.momentum,
                    decay=self.weight_decay,
                )
                b.update(old, velocity)
            b.update(p.slot, after)

    def _with_momentum(self, b: Builder, p: Parameter, rate: Ref) -> Ref:
        """Return the direction v with v = mu v + (1 - dampening) g and v_1 = g, or g + mu v with nesterov."""
        o, mu = b.compose, b.full(self.momentum)
        gradient = p.gradient
        if self.weight_decay:
            gradient = o.add(gradient, o.mul(o.scalar(self.weight_decay), p.value))
        sample = gradient
        if self.dampening:
            if self.start.done:
                share = b.full(1 - self.dampening)
            else:
                first = b.op("eq", b.step(), b.full(1, I64))
                share = b.op("where", first, b.full(1.0), b.full(1 - self.dampening))
            sample = o.mul(share, gradient)
        old = self.start.slot(b, "momentum", p, Source.zeros(p.value.type))
        velocity = o.add(o.mul(mu, old), sample)
        b.update(old, velocity)
        direction = o.add(gradient, o.mul(mu, velocity)) if self.nesterov else velocity
        return o.sub(p.value, o.mul(rate, direction))


@dataclass(frozen=True, slots=True)
class Adam(Optimizer):
    """`torch.optim.Adam`, or `torch.optim.AdamW` with `decoupled=True`."""

    lr: LearningRate = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0
    decoupled: bool = False
    start: Start = NEW

    def build(self, b: Builder, parameters: Sequence[Parameter], steps: int) -> None:
        b.label = "optimizer"
        rate = learning_rate(b, self.lr, steps)
        done = self.start.done
        step = b.op("cast", b.op("add", b.step(), b.full(done, I64)) if done else b.step(), dtype=F32)
        for p in parameters:
            b.label = f"optimizer {p.name}"
            zeros = Source.zeros(p.value.type)
            first, second = (self.start.slot(b, f"adam.{name}", p, zeros) for name in ("first", "second"))
            value, m, v = composites.adam(
                *(b.compose, p.value, p.gradient, first, second, step, rate),
                betas=self.betas,
                eps=self.eps,
                decay=self.weight_decay,
                decoupled=self.decoupled,
            )
            for slot, after in ((p.slot, value), (first, m), (second, v)):
                b.update(slot, after)


@dataclass(frozen=True, slots=True)
class Maximized(Optimizer):
    """Another rule that goes up the gradient."""

    rule: Optimizer

    def build(self, b: Builder, parameters: Sequence[Parameter], steps: int) -> None:
        self.rule.build(b, [replace(p, gradient=b.op("neg", p.gradient)) for p in parameters], steps)


@dataclass(frozen=True, slots=True)
class Averaged(Optimizer):
    """Another rule, and a moving average of the weights after each step, in slots `average.<name>`.

    The average begins with the weights themselves; after a step it is `decay` times itself plus `1 - decay` times the
    weights, as `torch.optim.swa_utils.get_ema_multi_avg_fn(decay)`.
    """

    rule: Optimizer
    decay: float = 0.999

    def build(self, b: Builder, parameters: Sequence[Parameter], steps: int) -> None:
        self.rule.build(b, parameters, steps)
        o = b.compose
        for p in parameters:
            b.label = f"average of {p.name}"
            average = b.slot(f"average.{p.name}", b.initial(p.slot))
            old = o.mul(o.scalar(self.decay), average)
            b.update(average, o.add(old, o.mul(o.scalar(1 - self.decay), b.updated(p.slot))))


@dataclass(frozen=True)
class Groups(Optimizer):
    """Parameter groups: each parameter follows the first rule that claims it.

    A claim is a list of names, or a function of the parameter. Raises CaptureError for a parameter that no rule claims.
    """

    groups: Sequence[tuple[Optimizer, Sequence[str] | Callable[[Parameter], bool]]]

    def build(self, b: Builder, parameters: Sequence[Parameter], steps: int) -> None:
        claimed: list[list[Parameter]] = [[] for _ in self.groups]
        for p in parameters:
            claimed[self._place(p)].append(p)
        for (rule, _), members in zip(self.groups, claimed, strict=True):
            rule.build(b, members, steps)

    def of(self, p: Parameter) -> Optimizer:
        """Return the rule that a parameter follows."""
        return self.groups[self._place(p)][0]

    def _place(self, p: Parameter) -> int:
        group = next((k for k, (_, claim) in enumerate(self.groups) if _claims(claim, p)), None)
        if group is None:
            raise CaptureError(
                f"no parameter group has {p.name}; add it to one, or freeze it (requires_grad = False)"
            )
        return group


def _claims(claim: Sequence[str] | Callable[[Parameter], bool], p: Parameter) -> bool:
    return claim(p) if callable(claim) else p.name in claim


def learning_rate(b: Builder, lr: LearningRate, steps: int) -> Ref:
    """Return this step's learning rate: a scalar, or an entry of a table of constants."""
    if isinstance(lr, int | float):
        return b.full(lr)
    table = np.asarray(lr, dtype=np.float32)
    if table.shape != (steps,):
        raise CaptureError(
            f"a learning-rate table of shape {table.shape} for {steps} steps; give one number for each step"
        )
    return b.op("take", b.table("learning_rate", table), step_index(b))


def step_index(b: Builder) -> Ref:
    """Return t - 1: the row of this step in a table."""
    return b.op("sub", b.step(), b.full(1, I64))


def clip_values(b: Builder, gradients: Sequence[Ref], limit: float) -> list[Ref]:
    """Bring every element of the gradients to +-`limit` at most, as `torch.nn.utils.clip_grad_value_`."""
    b.label = "gradient clipping"
    o = b.compose
    return [o.minimum(o.maximum(g, o.scalar(-limit)), o.scalar(limit)) for g in gradients]


def clip(b: Builder, gradients: Sequence[Ref], limit: float) -> list[Ref]:
    """Scale all gradients so that their common norm is at most `limit`, as `torch.nn.utils.clip_grad_norm_`.

    g min(1, limit / (sqrt(sum of squares) + 1e-6))
    """
    b.label = "gradient clipping"
    o = b.compose
    total: Ref | None = None
    for gradient in gradients:
        squares = o.sum(o.mul(gradient, gradient), dims=tuple(range(gradient.rank)), keepdim=0)
        total = squares if total is None else o.add(total, squares)
    if total is None:
        return list(gradients)
    ratio = o.div(o.scalar(limit), o.add(o.sqrt(total), o.scalar(1e-6)))
    factor = o.minimum(ratio, o.scalar(1.0))
    return [o.mul(gradient, factor) for gradient in gradients]
