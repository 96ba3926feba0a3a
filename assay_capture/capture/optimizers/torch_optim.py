"""PyTorch's optimizers and schedulers as ours: only their options are read, their code is never run."""

from __future__ import annotations

import copy
import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from repops.torch_arrays import to_numpy
from torch.utils._python_dispatch import TorchDispatchMode

from referee_py.commit.tensor import Array

from ..errors import CaptureError
from ..python_state import put_back
from ..python_values import PythonValues
from . import update_rules
from .builtin import SGD, Adam, Groups, LearningRate, Maximized, Optimizer, Parameter, Start

_NEVER = {"differentiable": False}  # options that must have this value
_SPEED = {
    "foreach",
    "fused",
    "capturable",
    "params",
    "param_names",
    "maximize",
}  # these change no result here
_SCHEDULE = {
    "lr",
    "initial_lr",
    "max_lr",
    "min_lr",
    "swa_lr",
    "base_momentum",
    "max_momentum",
}  # a scheduler's options


_UNCHECKED = _SCHEDULE | (_SPEED - {"maximize"})


def as_optimizer(
    optimizer: Optimizer | torch.optim.Optimizer, scheduler: Any = None, steps: int | None = None
) -> Optimizer:
    """Return an optimizer of either kind as one of ours. Raises CaptureError."""
    if isinstance(optimizer, torch.optim.Optimizer):
        return from_torch(optimizer, scheduler, steps)
    if not isinstance(optimizer, Optimizer):
        raise CaptureError(
            f"optimizer is {type(optimizer).__name__}; give one of assay_capture.capture or of torch.optim"
        )
    if scheduler is not None:
        raise CaptureError(
            f"a scheduler for {type(optimizer).__name__}, which has a rate of its own; "
            "give the rates as a list with one number for each step, or use an optimizer of torch.optim"
        )
    return optimizer


def from_torch(
    optimizer: torch.optim.Optimizer, scheduler: Any = None, steps: int | None = None
) -> Optimizer:
    """The same rule as an optimizer of PyTorch, from the state that it is in, parameter groups included.

    A scheduler is run for `steps` steps to note its rates, and then put back. Raises CaptureError for a kind or an
    option without a counterpart.
    """
    kind: Any = type(optimizer)
    # NOTE: a subclass that only sets options, as many libraries have, makes the steps of its parent. PyTorch wraps the
    # method again for each class.
    step = inspect.unwrap(kind.step)
    rule = next((_RULES[b] for b in kind.__mro__ if b in _RULES and inspect.unwrap(b.step) is step), None)
    if rule is None:
        known = ", ".join(kind.__name__ for kind in _RULES)
        raise CaptureError(
            f"{type(optimizer).__name__} has no counterpart; use one of torch.optim's {known}, or write its update as "
            "an UpdateRule(update, lr, states) of assay_capture.capture"
        )
    own = vars(optimizer).get("step")  # NOTE: schedulers put a wrapper there
    if own is not None and getattr(inspect.unwrap(own), "__func__", inspect.unwrap(own)) is not step:
        raise CaptureError(
            f"the step of this {type(optimizer).__name__} was replaced by {getattr(own, '__qualname__', own)}, which a "
            "program would leave out; write the rule with what it does as an UpdateRule"
        )
    if optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks:
        raise CaptureError(
            "the optimizer has hooks around its steps, which a program would leave out; write the rule with what they "
            "do as an UpdateRule, or what clamps weights into the module's forward()"
        )
    rates: list[LearningRate] = [float(group["lr"]) for group in optimizer.param_groups]
    if scheduler is not None:
        if steps is None:
            raise CaptureError(
                "a scheduler needs the number of steps: from_torch(optimizer, scheduler, steps)"
            )
        rates = list(schedule(optimizer, scheduler, steps))
    groups = [
        (_started(rule(group, rate), optimizer, group), _members(group))
        for group, rate in zip(optimizer.param_groups, rates, strict=True)
    ]
    return Groups(groups)


def _started(rule: Any, optimizer: torch.optim.Optimizer, group: Mapping[str, Any]) -> Optimizer:
    """Return a group's rule after the steps that it has made. Raises CaptureError if its tensors differ in these."""
    states = {id(tensor): optimizer.state[tensor] for tensor in group["params"] if tensor in optimizer.state}
    counts = {int(state["step"]) for state in states.values() if "step" in state}
    done = max(
        counts, default=int(any(state.get("momentum_buffer") is not None for state in states.values()))
    )
    if len(counts) > 1:
        raise CaptureError(
            f"tensors of one group of the {type(optimizer).__name__} have made from {min(counts)} to {done} "
            "steps; put those that were trained less into a group of their own"
        )
    if done:

        def of(tensor: torch.Tensor) -> Mapping[str, Array]:
            held = states.get(id(tensor), {})
            kept = {theirs: value for theirs, value in held.items() if theirs in STATES and value is not None}
            arrays = {theirs: to_numpy(value.detach().float()) for theirs, value in kept.items()}
            return {ours: array for theirs, array in arrays.items() for ours in STATES[theirs]}

        rule = replace(rule, start=Start(done, of))
    return Maximized(rule) if group.get("maximize") else rule


def _members(group: Mapping[str, Any]) -> Callable[[Parameter], bool]:
    members = {id(tensor): tensor for tensor in group["params"]}
    return lambda p: id(p.origin) in members


def schedule(optimizer: torch.optim.Optimizer, scheduler: Any, steps: int) -> list[list[float]]:
    """Return the rates of every group at every step. Leaves scheduler and optimizer as they were."""
    if getattr(scheduler, "optimizer", None) is not optimizer:
        raise CaptureError("the scheduler belongs to another optimizer")
    python = PythonValues()
    python.of_schedule(scheduler)
    state, groups = copy.deepcopy(scheduler.state_dict()), list(optimizer.param_groups)
    before = [{**group, "params": list(group["params"])} for group in groups]
    # NOTE: a rate that is a tensor is written in place.
    written = [(v, v.clone()) for group in before for v in group.values() if isinstance(v, torch.Tensor)]
    tables: list[list[float]] = [[] for _ in optimizer.param_groups]
    weights = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    trained, states = [weight.requires_grad for weight in weights], optimizer.state
    unread = _Unread(type(scheduler).__name__, weights)
    try:
        optimizer.state = unread.states
        for step in range(steps):
            if step:
                with unread:
                    _advance(scheduler)
            now = [weight for group in optimizer.param_groups for weight in group["params"]]
            if len(groups) != len(optimizer.param_groups) or list(map(id, now)) != list(map(id, weights)):
                raise CaptureError(
                    f"{type(scheduler).__name__} changes the parameter groups in step {step + 1}; train in two runs"
                )
            if trained != [weight.requires_grad for weight in weights]:
                raise CaptureError(
                    f"{type(scheduler).__name__} freezes a parameter in step {step + 1}; train in two runs"
                )
            for table, group, own in zip(tables, optimizer.param_groups, before, strict=True):
                table.append(float(group["lr"]))
                if changed := [k for k, v in group.items() if k not in _UNCHECKED and v != own[k]]:
                    raise CaptureError(
                        f"{type(scheduler).__name__} changes {', '.join(changed)}, not only the rate; "
                        "switch that off (cycle_momentum=False)"
                    )
    finally:
        optimizer.state = states
        for weight, requires in zip(weights, trained, strict=True):
            weight.requires_grad_(requires)
        scheduler.load_state_dict(state)
        optimizer.param_groups[:] = groups
        for group, own in zip(groups, before, strict=True):
            group.update(own)
        put_back(python)
        for tensor, value in written:
            tensor.copy_(value)
    return tables


class _Unread(TorchDispatchMode):
    """Raises CaptureError where a schedule reads a weight: a program would have the rates of the first weights.

    `states` raises where it reads or drops a state of the optimizer.
    """

    def __init__(self, scheduler: str, weights: Sequence[torch.Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._scheduler = scheduler
        self._memory = {weight.untyped_storage()._cdata for weight in weights}
        self.states = _UnreadStates(scheduler)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = [value for value in (*args, *(kwargs or {}).values()) if isinstance(value, torch.Tensor)]
        if any(tensor.untyped_storage()._cdata in self._memory for tensor in given):
            raise CaptureError(
                f"{self._scheduler} computes a rate from weights, and a schedule is a table that depends on the step "
                "number alone; write the update with it as an UpdateRule"
            )
        return func(*args, **(kwargs or {}))


class _UnreadStates:
    """Stands where an optimizer has its states."""

    def __init__(self, scheduler: str) -> None:
        self._scheduler = scheduler

    def __getattr__(self, name: str) -> Any:
        raise CaptureError(
            f"{self._scheduler} reads or changes the optimizer's state, and a schedule is a table of rates; write the "
            "update with it as an UpdateRule"
        )

    def __getitem__(self, name: Any) -> Any:
        return self.__getattr__(name)

    __setitem__ = __delitem__ = __contains__ = __iter__ = __len__ = __getitem__


def _advance(scheduler: Any) -> None:
    try:
        with warnings.catch_warnings(action="ignore"):  # the scheduler steps without its optimizer
            scheduler.step()
    except (TypeError, ValueError) as error:
        raise CaptureError(
            f"{type(scheduler).__name__} cannot be run by itself for all steps ({error}); "
            "a schedule is a table that depends on the step number alone"
        ) from error


def _options(kind: str, group: Mapping[str, Any], *used: str) -> dict[str, Any]:
    """Return the options that a rule reads. Raises CaptureError for one that it would have to ignore."""
    for name, value in group.items():
        if name in _NEVER and value != _NEVER[name]:
            raise CaptureError(f"{kind} with {name}={value} has no counterpart; use {name}={_NEVER[name]}")
        if name not in {*_NEVER, *_SPEED, *_SCHEDULE, *used}:
            raise CaptureError(
                f"{kind} has the option {name}, which is not known here; use another optimizer"
            )
    return {name: group[name] for name in used}


def _sgd(group: Mapping[str, Any], rate: LearningRate) -> Optimizer:
    return SGD(rate, **_options("SGD", group, "momentum", "weight_decay", "nesterov", "dampening"))


def _adam(group: Mapping[str, Any], rate: LearningRate) -> Optimizer:
    o = _options("Adam", group, "betas", "eps", "weight_decay", "decoupled_weight_decay", "amsgrad")
    betas, decoupled = _betas(o), o["decoupled_weight_decay"]
    if o["amsgrad"]:
        return update_rules.amsgrad(rate, betas, o["eps"], o["weight_decay"], decoupled)
    return Adam(rate, betas, o["eps"], o["weight_decay"], decoupled)


def _betas(options: Mapping[str, Any]) -> tuple[float, float]:
    first, second = options["betas"]
    return float(first), float(second)


def _rmsprop(group: Mapping[str, Any], rate: LearningRate) -> Optimizer:
    o = _options("RMSprop", group, "alpha", "eps", "weight_decay", "momentum", "centered")
    return update_rules.rmsprop(rate, *o.values())


def _adagrad(group: Mapping[str, Any], rate: LearningRate) -> Optimizer:
    o = _options("Adagrad", group, "lr_decay", "weight_decay", "initial_accumulator_value", "eps")
    return update_rules.adagrad(rate, *o.values())


def _adadelta(group: Mapping[str, Any], rate: LearningRate) -> Optimizer:
    return update_rules.adadelta(rate, *_options("Adadelta", group, "rho", "eps", "weight_decay").values())


def _adamax(group: Mapping[str, Any], rate: LearningRate) -> Optimizer:
    o = _options("Adamax", group, "betas", "eps", "weight_decay")
    return update_rules.adamax(rate, _betas(o), o["eps"], o["weight_decay"])


def _nadam(group: Mapping[str, Any], rate: LearningRate) -> Optimizer:
    o = _options("NAdam", group, "betas", "eps", "weight_decay", "momentum_decay", "decoupled_weight_decay")
    return update_rules.nadam(rate, _betas(o), *list(o.values())[1:])


def _radam(group: Mapping[str, Any], rate: LearningRate) -> Optimizer:
    o = _options("RAdam", group, "betas", "eps", "weight_decay", "decoupled_weight_decay")
    return update_rules.radam(rate, _betas(o), *list(o.values())[1:])


def _adafactor(group: Mapping[str, Any], rate: LearningRate) -> Optimizer:
    o = _options("Adafactor", group, "beta2_decay", "eps", "d", "weight_decay")
    return update_rules.adafactor(rate, *o.values())


def _muon(group: Mapping[str, Any], rate: LearningRate) -> Optimizer:
    o = _options(
        "Muon",
        group,
        *("weight_decay", "momentum", "nesterov", "ns_coefficients", "eps", "ns_steps", "adjust_lr_fn"),
    )
    return update_rules.muon(rate, *o.values())


STATES: dict[str, tuple[str, ...]] = {
    "momentum_buffer": ("momentum",),
    "exp_avg": ("adam.first", "mean"),
    "exp_avg_sq": ("adam.second", "square"),
    "max_exp_avg_sq": ("largest",),
    "exp_inf": ("largest",),
    "square_avg": ("square",),
    "grad_avg": ("mean",),
    "sum": ("sum",),
    "acc_delta": ("delta",),
    "row_var": ("row",),
    "variance": ("row",),
    "col_var": ("column",),
}
"""PyTorch's names of states, and those of our rules that have them."""

_RULES: dict[type, Callable[[Mapping[str, Any], LearningRate], Optimizer]] = {
    torch.optim.SGD: _sgd,
    torch.optim.Adam: _adam,
    torch.optim.AdamW: _adam,
    torch.optim.RMSprop: _rmsprop,
    torch.optim.Adagrad: _adagrad,
    torch.optim.Adadelta: _adadelta,
    torch.optim.Adamax: _adamax,
    torch.optim.NAdam: _nadam,
    torch.optim.RAdam: _radam,
    torch.optim.Adafactor: _adafactor,
    torch.optim.Muon: _muon,
}
