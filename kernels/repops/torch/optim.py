"""torch.optim's SGD, Adam and AdamW on the composites of repops: the same parameters, bit for bit, everywhere.

On the CPU each parameter's step is one kernel that overwrites the parameter and its moments. State and hyperparameters
are in `state` and `param_groups` as in torch, so schedulers and state_dict() work.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

import torch

from .. import torch_executor
from ..fuse import composites
from ..opset import AttrError

Tensor = torch.Tensor


def _update(
    function: Callable[..., Any], written: list[Tensor], grad: Tensor, scalars: list[float], **options: Any
) -> None:
    """Write the results of `function(p, grad, *state, *scalars)` to `written`, which holds p and the state."""
    parameter, *state = written
    made = [torch.tensor(value, dtype=torch.float32, device=parameter.device) for value in scalars]
    torch_executor.apply(function, parameter, grad, *state, *made, out=written, **options)


class _Optimizer(torch.optim.Optimizer, ABC):
    """Base class that updates every parameter with a gradient."""

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                grad = parameter.grad
                if grad is not None:  # a gradient that is not dense is refused by name
                    self._step(parameter, grad.contiguous() if grad.layout is torch.strided else grad, group)
        return loss

    @abstractmethod
    def _step(self, parameter: Tensor, grad: Tensor, group: dict[str, Any]) -> None:
        """Update one parameter and its state by its gradient."""


def _check(lower: dict[str, float]) -> None:
    for name, value in lower.items():
        if not value >= 0:
            raise AttrError(f"{name} must not be negative", value=value)


class SGD(_Optimizer):
    """p - lr g, or with momentum p - lr v for v = momentum v + g; g includes weight_decay p. v starts at zero."""

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, momentum: float = 0.0, weight_decay: float = 0.0
    ):
        _check({"lr": lr, "momentum": momentum, "weight_decay": weight_decay})
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    def _step(self, parameter: Tensor, grad: Tensor, group: dict[str, Any]) -> None:
        rate, decay, momentum = [float(group["lr"])], float(group["weight_decay"]), float(group["momentum"])
        if not momentum:
            return _update(composites.sgd, [parameter], grad, rate, decay=decay)
        state = self.state[parameter]
        if not state:
            state["momentum_buffer"] = torch.zeros_like(parameter, memory_format=torch.contiguous_format)
        written = [parameter, state["momentum_buffer"]]
        return _update(composites.momentum_sgd, written, grad, rate, momentum=momentum, decay=decay)


class Adam(_Optimizer):
    """Adam with bias correction (Kingma and Ba, 2015); weight_decay p is added to the gradient."""

    DECOUPLED = False

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ):
        _check({"lr": lr, "eps": eps, "weight_decay": weight_decay})
        if len(betas) != 2 or not all(0 <= beta < 1 for beta in betas):
            raise AttrError("betas must be two numbers in [0, 1)", value=betas)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    def _step(self, parameter: Tensor, grad: Tensor, group: dict[str, Any]) -> None:
        state = self.state[parameter]
        if not state:
            state["step"] = torch.tensor(0.0)
            for moment in ("exp_avg", "exp_avg_sq"):
                state[moment] = torch.zeros_like(parameter, memory_format=torch.contiguous_format)
        state["step"] += 1
        _update(
            composites.adam,
            [parameter, state["exp_avg"], state["exp_avg_sq"]],
            grad,
            [state["step"].item(), float(group["lr"])],
            betas=tuple(group["betas"]),
            eps=group["eps"],
            decay=group["weight_decay"],
            decoupled=self.DECOUPLED,
        )


class AdamW(Adam):
    """Adam whose weight decay multiplies the parameter by 1 - lr weight_decay (Loshchilov and Hutter, 2019)."""

    DECOUPLED = True

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
    ):
        super().__init__(params, lr, betas, eps, weight_decay)
