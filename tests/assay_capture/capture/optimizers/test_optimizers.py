"""Optimizers equal those of torch.optim: every option, groups, schedules, clipping, accumulation; or they refuse."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler

from assay_capture.capture import (
    SGD,
    Adam,
    Built,
    CaptureError,
    Groups,
    Optimizer,
    capture,
    from_torch,
)
from assay_capture.capture.recipes import synthetic
from assay_capture.capture.seeded import data_order

from .. import eager

STEPS, ROWS = 30, 8
ORDER = data_order(3, 32, ROWS, STEPS)
X, Y = synthetic.images(9, 32, (6,), 4)
DATA: dict[str, np.ndarray[Any, Any]] = {"x": X, "y": Y}
cross_entropy = nn.functional.cross_entropy
Parameters = Iterable[nn.Parameter]


def mlp() -> nn.Module:
    torch.manual_seed(4)
    return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.LayerNorm(16), nn.Linear(16, 4))


def captured(module: nn.Module, optimizer: Optimizer, **options: Any) -> Built:
    return capture(module, cross_entropy, optimizer, DATA, ORDER, **options)


def check(
    built: Built, module: nn.Module, train: Callable[[nn.Module], list[float]], rtol: float = 1e-4
) -> None:
    """Compare losses and parameters after all steps; `train` runs eager PyTorch and changes the module."""
    ours, slots = eager.run_program(built, STEPS)
    theirs = train(module)
    np.testing.assert_allclose(ours, theirs, rtol=rtol)
    for name, parameter in module.named_parameters():
        np.testing.assert_allclose(
            slots[f"param.{name}"], parameter.detach().numpy(), rtol=10 * rtol, atol=10 * rtol * 0.1
        )


def plain(optimizer: torch.optim.Optimizer) -> Callable[[nn.Module], list[float]]:
    return lambda module: eager.run_eager(module, eager.of(cross_entropy), optimizer, DATA, ORDER)


KINDS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "sgd": lambda p: torch.optim.SGD(p, 0.1),
    "decay": lambda p: torch.optim.SGD(p, 0.1, weight_decay=0.01),
    "momentum": lambda p: torch.optim.SGD(p, 0.05, momentum=0.9),
    "momentum, decay": lambda p: torch.optim.SGD(p, 0.05, momentum=0.9, weight_decay=0.01),
    "dampening": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, dampening=0.3),
    "dampening, decay": lambda p: torch.optim.SGD(p, 0.1, momentum=0.8, dampening=0.5, weight_decay=0.02),
    "dampening without momentum": lambda p: torch.optim.SGD(p, 0.1, dampening=0.5),
    "nesterov": lambda p: torch.optim.SGD(p, 0.05, momentum=0.9, nesterov=True),
    "nesterov, decay": lambda p: torch.optim.SGD(p, 0.05, momentum=0.9, nesterov=True, weight_decay=0.01),
    "adam": lambda p: torch.optim.Adam(p, 0.01),
    "adam, decay": lambda p: torch.optim.Adam(p, 0.01, weight_decay=0.05),
    "adam, betas and eps": lambda p: torch.optim.Adam(p, 0.01, betas=(0.7, 0.95), eps=1e-4),
    "adamw": lambda p: torch.optim.AdamW(p, 0.01),
    "adamw, decay": lambda p: torch.optim.AdamW(p, 0.01, weight_decay=0.3, betas=(0.8, 0.99)),
    "adamw without decay": lambda p: torch.optim.AdamW(p, 0.01, weight_decay=0.0),
    "amsgrad": lambda p: torch.optim.Adam(p, 0.01, amsgrad=True, weight_decay=0.01),
    "amsgrad, decoupled": lambda p: torch.optim.AdamW(p, 0.01, amsgrad=True, weight_decay=0.1),
    "maximize": lambda p: torch.optim.SGD(p, 0.003, momentum=0.5, maximize=True),
    "rmsprop": lambda p: torch.optim.RMSprop(p, 0.005),
    "rmsprop, all": lambda p: torch.optim.RMSprop(
        p, 0.005, alpha=0.9, momentum=0.5, centered=True, weight_decay=0.01
    ),
    "adagrad": lambda p: torch.optim.Adagrad(
        p, 0.05, lr_decay=0.1, weight_decay=0.01, initial_accumulator_value=0.1
    ),
    "adadelta": lambda p: torch.optim.Adadelta(p, 1.0, weight_decay=0.01),
    "adamax": lambda p: torch.optim.Adamax(p, 0.01, weight_decay=0.01),
    "nadam": lambda p: torch.optim.NAdam(p, 0.01, weight_decay=0.01),
    "nadam, decoupled": lambda p: torch.optim.NAdam(p, 0.01, weight_decay=0.1, decoupled_weight_decay=True),
    "radam": lambda p: torch.optim.RAdam(p, 0.01, weight_decay=0.01),
    "adafactor": lambda p: torch.optim.Adafactor(p, 0.05, weight_decay=0.01),
    "subclass": lambda p: type("AdamWOfALibrary", (torch.optim.AdamW,), {})(p, 0.01),
    "a rate that is a tensor": lambda p: torch.optim.Adam(p, torch.tensor(0.01)),
}


@pytest.mark.parametrize("name", KINDS)
def test_an_optimizer_of_pytorch_is_taken_with_its_options(name: str) -> None:
    module = mlp()
    optimizer = KINDS[name](module.parameters())
    check(captured(module, from_torch(optimizer)), module, plain(optimizer))


DONE = 7


@pytest.mark.parametrize("name", KINDS)
def test_a_run_continues_from_the_state_of_an_optimizer_that_has_stepped(name: str) -> None:
    """State, count of steps and schedule: rates, corrections of bias and first steps are those of step 8."""
    module = mlp()
    optimizer = KINDS[name](module.parameters())
    schedule = lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))
    eager.run_eager(module, eager.of(cross_entropy), optimizer, DATA, ORDER[:DONE], schedule)
    rest = ORDER[DONE:]
    built = capture(module, cross_entropy, from_torch(optimizer, schedule, len(rest)), DATA, rest)
    ours, slots = eager.run_program(built, len(rest))
    theirs = eager.run_eager(module, eager.of(cross_entropy), optimizer, DATA, rest, schedule)
    np.testing.assert_allclose(ours, theirs, rtol=1e-4)
    for key, parameter in module.named_parameters():
        np.testing.assert_allclose(slots[f"param.{key}"], parameter.detach().numpy(), rtol=1e-3, atol=1e-4)


def test_an_optimizer_that_has_stepped_says_where_it_cannot_be_continued() -> None:
    module = mlp()
    module[3].requires_grad_(False)  # type: ignore[index]
    optimizer = torch.optim.Adam(module.parameters(), 0.01)
    eager.run_eager(module, eager.of(cross_entropy), optimizer, DATA, ORDER[:2])
    module[3].requires_grad_(True)  # type: ignore[index]
    with pytest.raises(
        CaptureError, match=r"3.weight has no state in the optimizer, and others have made 2 steps"
    ):
        captured(module, from_torch(optimizer))
    eager.run_eager(module, eager.of(cross_entropy), optimizer, DATA, ORDER[:3])
    with pytest.raises(
        CaptureError, match="have made from 3 to 5 steps; put those that were trained less into a"
    ):
        captured(module, from_torch(optimizer))
    other = torch.optim.Adam(module.parameters(), 0.01)
    eager.run_eager(module, eager.of(cross_entropy), other, DATA, ORDER[:1])
    other.state[module[0].weight]["exp_avg"] = torch.zeros(3)  # type: ignore[index]
    with pytest.raises(CaptureError, match=r"state adam.first of 0.weight is \[3\]; it must be \[16, 6\]"):
        captured(module, from_torch(other))


def by_decay(module: nn.Module) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """Return the matrices, and the biases with the norms."""
    parameters = list(module.parameters())
    return [p for p in parameters if p.ndim > 1], [p for p in parameters if p.ndim == 1]


def test_parameter_groups_keep_their_options() -> None:
    module = mlp()
    weights, others = by_decay(module)
    optimizer = torch.optim.AdamW(
        [{"params": weights, "weight_decay": 0.5}, {"params": others, "lr": 0.002}], 0.02, weight_decay=0.0
    )
    check(captured(module, from_torch(optimizer)), module, plain(optimizer))


def test_groups_of_our_own_by_name_or_by_a_function() -> None:
    module = mlp()
    weights, others = by_decay(module)
    ours = Groups(
        [(Adam(0.01, weight_decay=0.1, decoupled=True), ["0.weight", "3.weight"]), (SGD(0.1), lambda _: True)]
    )
    optimizers = [torch.optim.AdamW(weights, 0.01, weight_decay=0.1), torch.optim.SGD(others, 0.1)]

    class Both(torch.optim.Optimizer):
        def __init__(self) -> None:
            super().__init__([*weights, *others], {})

        def step(self, _: Any = None) -> Any:
            for optimizer in optimizers:
                optimizer.step()

    check(captured(module, ours), module, plain(Both()))


SCHEDULES: dict[str, Callable[[torch.optim.Optimizer], Any]] = {
    "warm-up, then cosine": lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.LinearLR(o, 0.1, total_iters=5), lr_scheduler.CosineAnnealingLR(o, 25)], [5]
    ),
    "one cycle": lambda o: lr_scheduler.OneCycleLR(o, 0.05, total_steps=STEPS, cycle_momentum=False),
    "function": lambda o: lr_scheduler.LambdaLR(o, lambda step: 1 / (1 + step)),
    "steps": lambda o: lr_scheduler.StepLR(o, 7, 0.5),
    "towards averaging": lambda o: torch.optim.swa_utils.SWALR(o, swa_lr=0.01, anneal_epochs=5),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_scheduler_becomes_a_table_of_rates(name: str) -> None:
    module = mlp()
    optimizer = torch.optim.AdamW(
        [{"params": part, "lr": lr} for part, lr in zip(by_decay(module), (0.02, 0.01), strict=True)]
    )
    scheduler = SCHEDULES[name](optimizer)
    before = copy.deepcopy(scheduler.state_dict()["last_epoch"]), [g["lr"] for g in optimizer.param_groups]
    built = captured(module, from_torch(optimizer, scheduler, STEPS))
    assert before == (scheduler.last_epoch, [g["lr"] for g in optimizer.param_groups]), "it was put back"

    def train(module: nn.Module) -> list[float]:
        losses = []
        for rows in ORDER:
            losses += eager.run_eager(module, eager.of(cross_entropy), optimizer, DATA, rows[None])
            if len(losses) < STEPS:
                scheduler.step()
        return losses

    check(built, module, train)


def test_groups_with_the_same_rates_share_a_table() -> None:
    module = mlp()
    optimizer = torch.optim.AdamW([{"params": part} for part in by_decay(module)], 0.01)
    scheduler = lr_scheduler.LinearLR(optimizer)
    labels = captured(module, from_torch(optimizer, scheduler, STEPS)).labels
    assert [name for name in labels.constants if name.startswith("learning_rate")] == ["learning_rate"]


@pytest.mark.parametrize("limit", [0.05, 0.5, 100.0])
def test_gradients_are_clipped_by_their_common_norm(limit: float) -> None:
    module = mlp()
    optimizer = torch.optim.SGD(module.parameters(), 0.1, momentum=0.9)

    def train(module: nn.Module) -> list[float]:
        losses = []
        for batch in eager.batches(DATA, ORDER):
            optimizer.zero_grad()
            value = cross_entropy(module(batch["x"]), batch["y"])
            value.backward()
            nn.utils.clip_grad_norm_(module.parameters(), limit)
            optimizer.step()
            losses.append(value.item())
        return losses

    check(captured(module, from_torch(optimizer), clip_norm=limit), module, train)


@pytest.mark.parametrize("parts", [2, 4, 8])
def test_a_batch_in_parts_averages_their_gradients(parts: int) -> None:
    """Batch norm sees each part separately, so this differs from the whole batch."""
    torch.manual_seed(1)
    module = nn.Sequential(
        nn.Linear(6, 8, bias=False), nn.BatchNorm1d(8, eps=0.1), nn.Tanh(), nn.Linear(8, 4)
    )
    if parts == 8:  # a single example has no variance
        module[1] = nn.LayerNorm(8)
    optimizer = torch.optim.Adam(module.parameters(), 0.01)

    def train(module: nn.Module) -> list[float]:
        losses = []
        for batch in eager.batches(DATA, ORDER):
            optimizer.zero_grad()
            values = [
                cross_entropy(module(x), y) / parts
                for x, y in zip(batch["x"].chunk(parts), batch["y"].chunk(parts), strict=True)
            ]
            for value in values:
                value.backward()
            optimizer.step()
            losses.append(sum(value.item() for value in values))
        return losses

    built = captured(module, from_torch(optimizer), accumulate=parts)
    check(built, module, train)
    if parts < 8:
        slots = eager.run_program(built, STEPS)[1]
        assert slots["buffer.1.num_batches_tracked"] == STEPS * parts
        np.testing.assert_allclose(
            slots["buffer.1.running_var"], module.get_buffer("1.running_var").numpy(), rtol=1e-3
        )


def test_adam_takes_fourteen_nodes_a_tensor() -> None:
    def nodes(optimizer: Optimizer, depth: int) -> int:
        module = nn.Sequential(*(nn.Linear(6, 6, bias=False) for _ in range(depth)))
        return len(captured(module, optimizer).program.nodes)

    def each(optimizer: Optimizer) -> int:
        """Return the nodes for one more tensor, without those of forward and backward."""
        without = nodes(SGD(0.1), 3) - nodes(SGD(0.1), 2) - 2
        return nodes(optimizer, 3) - nodes(optimizer, 2) - without

    assert each(SGD(0.1, momentum=0.9)) == 4
    assert each(Adam(0.1)) == 13
    assert each(Adam(0.1, weight_decay=0.1, decoupled=True)) == 14


def plateau(p: Parameters) -> Optimizer:
    optimizer = torch.optim.SGD(p, 0.1)
    return from_torch(optimizer, lr_scheduler.ReduceLROnPlateau(optimizer), STEPS)


def cycled(p: Parameters) -> Optimizer:
    """The momentum of this schedule moves against the rate."""
    optimizer = torch.optim.SGD(p, 0.1, momentum=0.9)
    return from_torch(optimizer, lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=STEPS), STEPS)


def scheduled(p: Parameters, steps: int | None, own: bool = True) -> Optimizer:
    parameters = list(p)
    optimizer, other = (torch.optim.SGD(parameters, 0.1) for _ in range(2))
    return from_torch(optimizer, lr_scheduler.StepLR(optimizer if own else other, 2), steps)


REFUSED: dict[str, tuple[Callable[[Parameters], Optimizer], str]] = {
    "differentiable": (
        lambda p: from_torch(torch.optim.SGD(p, 0.1, differentiable=True)),
        "differentiable=True has no",
    ),
    "lbfgs": (
        lambda p: from_torch(torch.optim.LBFGS(p)),
        "LBFGS has no counterpart; use one of .* UpdateRule",
    ),
    "muon of a vector": (
        lambda p: from_torch(torch.optim.Muon([x for x in p if x.ndim == 2])),
        "no parameter group",
    ),
    "plateau": (plateau, "ReduceLROnPlateau cannot be run by itself"),
    "a cycle of momentum": (cycled, "OneCycleLR changes momentum, not only the rate"),
    "a scheduler without steps": (lambda p: scheduled(p, None), "needs the number of steps"),
    "a scheduler of another optimizer": (
        lambda p: scheduled(p, 9, own=False),
        "belongs to another optimizer",
    ),
    "a table of another length": (lambda p: scheduled(p, 9), "shape \\(9,\\) for 30 steps"),
    "a parameter in no group": (
        lambda _: Groups([(SGD(0.1), ["0.weight"])]),
        "no parameter group has 0.bias",
    ),
    "nesterov and dampening": (lambda _: SGD(0.1, 0.9, nesterov=True, dampening=0.1), "no dampening"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_counterpart_is_refused(name: str) -> None:
    make, message = REFUSED[name]
    module = mlp()
    with pytest.raises(CaptureError, match=message):
        captured(module, make(module.parameters()))


def test_a_batch_that_cannot_be_parted_is_refused() -> None:
    with pytest.raises(CaptureError, match="a batch of 8 cannot be taken in 3 equal parts"):
        captured(mlp(), SGD(0.1), accumulate=3)
