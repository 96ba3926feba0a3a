"""The batches that a trainer would take, step by step.

The trainer's own loader, sampler and collator give them, with the random numbers that `train()` would draw, so nothing
here has to know how examples are shuffled, grouped, packed, padded or masked.

NOTE: a collator that draws from PyTorch's generator (masked language models) draws what `train()` would draw if the
model draws nothing. Dropout draws, too; then `train()` has other masks of the same distribution.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ..capture.errors import CaptureError


@dataclass(frozen=True)
class Taken:
    """The batches of one step, in the order in which their gradients are added; and by what the loss is divided."""

    parts: list[dict[str, Any]]
    items: float | None


def taken_steps(trainer: Any) -> Iterator[Taken]:
    """Yield the steps of `trainer.train()`. Raises CaptureError if the data end before the last step."""
    arguments = trainer.args
    with _generators_kept():
        loader = trainer.get_train_dataloader()
        epochs, updates, _, _, _, batches, steps = trainer.set_initial_training_values(arguments, loader)
        together, done = arguments.gradient_accumulation_steps, 0
        for epoch in range(epochs):
            _set_epoch(loader, epoch)
            iterator, began, position = iter(loader), done, 0
            for update in range(updates):
                last = update == updates - 1
                wanted = (batches % together or together) if last else together
                parts, items = trainer.get_batch_samples(iterator, wanted, torch.device("cpu"))
                if not parts:
                    break
                position += len(parts)
                if position % together and position != batches:
                    raise CaptureError(
                        f"the data end after {position} batches, in the middle of a step of {together}: the trainer "
                        "adds what is left to the next epoch's first step, which no program does; give a data set that "
                        "knows its length, or gradient_accumulation_steps that divide the number of its batches"
                    )
                yield Taken(list(parts), None if items is None else float(items))
                done += 1
                if done == steps:
                    return
            if done == began:
                raise CaptureError(
                    f"the training data end after step {done} of {steps}; lower max_steps, or give a data set that "
                    "knows its length"
                )


def _set_epoch(loader: Any, epoch: int) -> None:
    """Tell loader and sampler the epoch, as the trainer's loop does."""
    if hasattr(loader, "set_epoch"):
        loader.set_epoch(epoch)
    inner: Any = getattr(getattr(loader, "batch_sampler", None), "batch_sampler", None)
    if hasattr(inner, "set_epoch"):
        inner.set_epoch(epoch)


@contextlib.contextmanager
def _generators_kept() -> Iterator[None]:
    """Put the global random generators back, so that the trainer can still train as if nothing had been drawn."""
    python, numbers = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=[]):
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numbers)
