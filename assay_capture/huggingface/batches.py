"""The batches that a trainer would take, step by step.

The trainer's own loader, sampler and collator give them, with the random numbers that `train()` would draw, so nothing
here has to know how examples are shuffled, grouped, packed, padded or masked.

A trainer that `torchrun` has started as several processes takes their batches together: those of one round are parts of
a step, in the order of the processes, which is that of the examples. All processes must ask at the same time.

NOTE: a collator that draws from PyTorch's generator (masked language models) draws what `train()` would draw if the
model draws nothing. Dropout draws, too; then `train()` has other masks of the same distribution.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.distributed

from ..capture.errors import CaptureError


@dataclass(frozen=True)
class Taken:
    """The batches of one step, in the order in which their gradients are added; and by what the loss is divided."""

    parts: list[dict[str, Any]]
    items: float | None


@dataclass(frozen=True)
class Resumed:
    """The steps that are done, and what puts the generators where they were then."""

    done: int
    restore: Callable[[], None]


def taken_steps(trainer: Any, resumed: Resumed | None = None) -> Iterator[Taken]:
    """Yield the steps of `trainer.train()`, or those that are left. Raises CaptureError if the data end before."""
    arguments = trainer.args
    with _generators_kept():
        loader = trainer.get_train_dataloader()
        epochs, updates, _, _, _, batches, steps = trainer.set_initial_training_values(arguments, loader)
        together, done = arguments.gradient_accumulation_steps, 0 if resumed is None else resumed.done
        first, skipped = divmod(done, updates)
        for epoch in range(first, epochs if done < steps else first):
            _set_epoch(loader, epoch)
            begins = resumed if epoch == first else None
            # NOTE: as in the trainer's loop, generators are put back before an epoch or after a rest's first batches.
            iterator = iter(_rest(loader, begins, skipped * together))
            began, position = done, skipped * together if begins is not None else 0
            for update in range(skipped if begins is not None else 0, updates):
                last = update == updates - 1
                wanted = (batches % together or together) if last else together
                parts, items = trainer.get_batch_samples(iterator, wanted, torch.device("cpu"))
                if not parts:
                    break
                if begins is not None and skipped and done == began:
                    begins.restore()
                position += len(parts)
                if position % together and position != batches:
                    raise CaptureError(
                        f"the data end after {position} batches, in the middle of a step of {together}: the trainer "
                        "adds what is left to the next epoch's first step, which no program does; give a data set that "
                        "knows its length, or gradient_accumulation_steps that divide the number of its batches"
                    )
                yield Taken(_of_all(trainer, list(parts)), None if items is None else float(items))
                done += 1
                if done == steps:
                    return
            if done == began:
                raise CaptureError(
                    f"the training data end after step {done} of {steps}; lower max_steps, or give a data set that "
                    "knows its length"
                )


def _of_all(trainer: Any, parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the batches that all processes of a trainer take in a step."""
    if trainer.args.world_size == 1:
        return parts
    found: list[Any] = [None] * trainer.args.world_size
    # SAFETY: this pickles, among processes of one torchrun, which trust each other with all that they have.
    torch.distributed.all_gather_object(found, parts)
    if len({len(theirs) for theirs in found}) > 1:
        raise CaptureError(
            "some processes have fewer batches in a step than others, which no program does; leave even_batches of "
            "accelerator_config as it is, or set dataloader_drop_last=True"
        )
    return [part for together in zip(*found, strict=True) for part in together]


def _rest(loader: Any, begins: Resumed | None, batches: int) -> Any:
    """Return the loader without an epoch's first batches."""
    if begins is None:
        return loader
    if not batches:
        begins.restore()
        return loader
    from accelerate import skip_first_batches  # type: ignore[import-untyped]

    return skip_first_batches(loader, batches)


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
