"""The definition of a training step, before it is captured: the arguments of `capture`, once."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ParamSpec, TypeVar

import torch

from referee_py.commit.tensor import Array

from .optimizers import Optimizer
from .trace import Loss

Initial = Mapping[str, Array | Callable[[], Array]]
"""Values of parameters and buffers by name: an array, or a function that reads one when it is needed."""
P = ParamSpec("P")
D = TypeVar("D")
T = TypeVar("T")


@dataclass(frozen=True)
class StepDefinition:
    """All that is known of a training step.

    data        arrays of the same length, f32, bf16, i64 or bool
    loss        `loss(output, *rest)`, where `rest` are the arrays not in `inputs`; None: the output's own `.loss`. An
                `Objective` of one's own decides itself what the module gets
    optimizer   one of ours, or one of torch.optim that has not stepped; `scheduler` is the latter's, if it has one
    inputs      names of the arrays given to the module: the first array if None; several are given by keyword. With no
                loss, every array is given by keyword
    order       i64 [steps, batch]: `order[t-1]` lists the examples of step t
    tables      f32 [steps, parts] by name: a number for each step and part of its batch, which the objective gets next
                to the arrays
    initial     replaces parameters and buffers by name; the others start with the module's values
    seed        of dropout, below 2^64
    micro_batches  number of parts into which the batch is split; their gradients (and losses) are added in a balanced
                binary tree and divided by that number, so that many workers can train (docs/programs.md, section 12)
    accumulate  the same with sums one after the other, as programs had them before; at most one of the two is above 1
    clip_norm   scales the gradients so that their common norm is at most this
    clip_value  brings each element of the gradients into +-this, after clip_norm
    expert_capacity  places of each expert of a mixture, in even shares of the tokens; None: no token is left out
    autocast    torch.bfloat16: forward pass and loss run as inside torch.autocast
    gradients   adds a metric `gradient.<parameter>` for each parameter: its gradient before clipping
    outputs     adds a metric `output.<module>.<call>` for what each module gives
    """

    module: torch.nn.Module
    loss: Loss | None
    optimizer: Optimizer | torch.optim.Optimizer
    data: Mapping[str, Array]
    order: Array
    initial: Initial | None = None
    _: KW_ONLY
    inputs: Sequence[str] | None = None
    tables: Mapping[str, Array] | None = None
    scheduler: Any = None
    seed: int = 0
    micro_batches: int = 1
    accumulate: int = 1
    clip_norm: float | None = None
    clip_value: float | None = None
    expert_capacity: float | None = None
    gradients: bool = False
    outputs: bool = False
    autocast: torch.dtype | None = None

    @property
    def parts(self) -> int:
        """The number of parts of a batch."""
        return max(self.micro_batches, self.accumulate)


def by_fields(definition: Callable[P, D]) -> Callable[[Callable[[D], T]], Callable[P, T]]:
    """Decorate a function of a definition, so that it is called with the definition's fields."""

    def decorate(function: Callable[[D], T]) -> Callable[P, T]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            return function(definition(*args, **kwargs))

        returns = inspect.signature(function).return_annotation
        call.__signature__ = inspect.signature(definition).replace(return_annotation=returns)  # type: ignore[attr-defined]
        return call

    return decorate
