"""A `transformers.Trainer`, or TRL's `SFTTrainer`, as a recipe: the run that its `train()` would do.

batches, order      the trainer's own loader gives them (batches), as rows of one shape (rows)
loss                objective
update              the trainer's own optimizer and scheduler, of which only the options are read

Dropout draws from another generator than PyTorch's, so a run with dropout has other losses than `train()`, of the same
distribution. Everything else agrees up to rounding.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from repops.torch_arrays import from_numpy

from referee_py.commit.tensor import Array

from ..capture.errors import CaptureError
from ..capture.recipe import Recipe
from .arguments.check import check_arguments
from .batches import taken_steps
from .checkpoint import Checkpoint
from .objective import ITEMS, SCALE, TrainerLoss, defined_in
from .rows import Collected, Filling, Static, static

_LOOP = (
    *("train", "training_step", "get_batch_samples", "set_initial_training_values"),
    *("_prepare_inputs", "_prepare_input", "_inner_training_loop", "create_accelerator_and_postprocess"),
)
"""Methods of a trainer whose work a recipe does itself, so they must be the library's own."""
_PARTS = (
    *("_run_epoch", "_prepare_for_training", "_init_training_state", "_clip_grad_norm", "_wrap_model"),
    *("compute_loss_context_manager", "autocast_smart_context_manager"),
)
"""Likewise, in those versions of the library that have them."""
_ACCURACY = 2e-5
"""Relative difference of two losses that are equal but for rounding; bfloat16 has a thousandth of that precision."""


def recipe_of(trainer: Any, name: str | None = None, checkpoint: Path | None = None) -> Recipe:
    """Return the recipe of `trainer.train()`, or of what is left after a checkpoint.

    Raises CaptureError, which names what has no counterpart.
    """
    _check_trainer(trainer)
    check_arguments(trainer.args)
    _check_processes(trainer, checkpoint)
    _check_experts(trainer)
    module = _module(trainer)
    opened = None if checkpoint is None else Checkpoint.open(checkpoint)
    done = 0 if opened is None else opened.done
    collected, items, first = Collected(), [], None
    for taken in taken_steps(trainer, None if opened is None else opened.resumed()):
        first = first or taken
        collected.add(taken.parts)
        items.append(taken.items)
    if first is None and done:
        raise CaptureError(
            f"{checkpoint} is after step {done}, and training has no more; raise max_steps or num_train_epochs"
        )
    if first is None:
        raise CaptureError(
            "training has no step: the data are empty, or num_train_epochs is 0; give the trainer at least one batch"
        )
    rows = static(collected, _filling(trainer))
    loss = TrainerLoss.of_trainer(trainer, collected.constants)
    if 0 in items and loss.is_the_librarys:
        raise CaptureError(
            f"step {done + items.index(0) + 1} has no label that counts, so its loss is 0 / 0; leave out rows whose "
            "labels are all ignored, or cut them less"
        )
    if collected.dropped:
        _check_neutral(loss, first.parts[0], _part(rows, 0, 0), items[0])
    for step, part in rows.smallest:
        _check_neutral(loss, _collected_part(collected, step, part), _part(rows, step, part), items[step])
    if rows.filled:
        _check_filling(module)
    optimizer, scheduler = _update(trainer, done + len(items), opened)
    parts = rows.weights.shape[1]
    return Recipe(
        name=name
        or str(getattr(getattr(module, "config", None), "model_type", type(module).__name__.lower())),
        module=module,
        loss=loss,
        optimizer=optimizer,
        scheduler=scheduler,
        data=rows.data,
        order=rows.order,
        tables=_tables(trainer, rows, items),
        steps=len(items),
        batch_size=rows.order.shape[1],
        seed=trainer.args.seed + done,
        initial="module" if opened is None else opened.initial(module),
        micro_batches=parts,
        clip_norm=trainer.args.max_grad_norm or None,
        autocast=_autocast(trainer),
        processor=trainer.processing_class,
    )


# ------------------------------------------------------------------------------------------------- what it is


def _check_trainer(trainer: Any) -> None:
    """Raise CaptureError for a trainer whose loop is not the one that a recipe follows."""
    for method in (*_LOOP, *(part for part in _PARTS if hasattr(trainer, part))):
        found = defined_in(trainer, method) if hasattr(trainer, method) else "nowhere"
        if not found.startswith(
            ("transformers.trainer", "trl.trainer.sft_trainer", "trl.trainer.base_trainer")
        ):
            raise CaptureError(
                f"{type(trainer).__name__}.{method} is defined in {found}; taken in are transformers.Trainer and "
                "trl.SFTTrainer, and subclasses that only change the data, the loss or the optimizer"
            )
    if trainer.model_init is not None:
        raise CaptureError("a trainer with model_init makes its model in train(); give it the model itself")
    for callback in trainer.callback_handler.callbacks:
        kind = type(callback)
        if (
            not kind.__module__.startswith(("transformers.", "trl."))
            or kind.__name__ == "EarlyStoppingCallback"
        ):
            raise CaptureError(
                f"the callback {kind.__name__} may change the run; take it off with trainer.remove_callback"
            )


def _check_processes(trainer: Any, checkpoint: Path | None) -> None:
    """Raise CaptureError where several processes do what no program does."""
    if trainer.args.world_size == 1:
        return
    if checkpoint is not None:
        raise CaptureError(
            "each process of a checkpoint has random numbers of its own; continue it on one device, with "
            "gradient_accumulation_steps that give the same batch"
        )
    if not trainer.args.average_tokens_across_devices and trainer.model_accepts_loss_kwargs:
        raise CaptureError(
            "with average_tokens_across_devices=False each process divides by its own labels; leave it at True"
        )


def _check_experts(trainer: Any) -> None:
    """Raise CaptureError where TRL weighs the loss that balances experts otherwise than the model itself does."""
    if not getattr(trainer, "aux_loss_enabled", False):
        return
    model = trainer.model.get_base_model() if hasattr(trainer.model, "peft_config") else trainer.model
    coefficient = trainer.router_aux_loss_coef
    own = getattr(model, "router_aux_loss_coef", coefficient)
    if own != coefficient:
        raise CaptureError(
            f"router_aux_loss_coef is {coefficient}, and the model was made with {own}, which it continues using; make "
            "it with that coefficient in its configuration"
        )
    if trainer.args.gradient_accumulation_steps > 1:
        raise CaptureError(
            "over the batches of a step TRL averages the loss that balances experts, which the model adds to that of "
            "tokens; use gradient_accumulation_steps=1, or router_aux_loss_coef=0"
        )


def _module(trainer: Any) -> torch.nn.Module:
    """Return the model in training mode, as `train()` prepares it."""
    module: torch.nn.Module = getattr(trainer.model, "_orig_mod", trainer.model)
    if getattr(module, "is_activation_checkpointing", False):
        module.activation_checkpointing_disable()  # type: ignore[operator]
        warnings.warn(
            "activation checkpointing was switched off: whoever runs the program decides what to keep",
            stacklevel=4,
        )
    if trainer.processing_class is not None and hasattr(module, "config"):
        from transformers import PreTrainedTokenizerBase, ProcessorMixin
        from transformers.trainer_utils import align_special_tokens

        if isinstance(trainer.processing_class, PreTrainedTokenizerBase | ProcessorMixin):
            align_special_tokens(module, trainer.processing_class)
    return module.train()


def _autocast(trainer: Any) -> torch.dtype | None:
    precision = trainer.accelerator.mixed_precision
    if precision not in ("no", "bf16"):
        raise CaptureError(f"mixed precision {precision!r} has no counterpart; use bf16, or none")
    return torch.bfloat16 if precision == "bf16" else None


def _update(trainer: Any, steps: int, opened: Checkpoint | None) -> tuple[torch.optim.Optimizer, Any]:
    """Return the optimizer and scheduler that `train()` would make, or was given. The trainer forgets them."""
    before = {name: getattr(trainer, name) for name in ("optimizer", "lr_scheduler", "_created_lr_scheduler")}
    making = f"optimizer {trainer.args.optim!r}", "use optim='adamw_torch'"
    try:
        if trainer._created_lr_scheduler:  # NOTE: train() makes it again, for the steps that there are
            trainer.lr_scheduler, trainer._created_lr_scheduler = None, False
        trainer.create_optimizer()
        making = f"schedule {trainer.args.lr_scheduler_type!r}", "see its options in lr_scheduler_kwargs"
        trainer.create_scheduler(num_training_steps=steps)
        _check_scheduler(trainer.lr_scheduler)
        if opened is not None:
            opened.load(getattr(trainer.optimizer, "optimizer", trainer.optimizer), trainer.lr_scheduler)
        return getattr(trainer.optimizer, "optimizer", trainer.optimizer), trainer.lr_scheduler
    except (ImportError, TypeError, ValueError, RuntimeError) as error:
        raise CaptureError(f"the trainer cannot make its {making[0]}: {error}; {making[1]}") from error
    finally:
        for name, value in before.items():
            setattr(trainer, name, value)


def _check_scheduler(scheduler: Any) -> None:
    """Raise CaptureError for one whose rates are no table that depends on the step number alone."""
    if isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
        raise CaptureError(
            "the scheduler ReduceLROnPlateau sets the rate by losses that are known only while training; use one that "
            "depends on the step number alone, such as lr_scheduler_type='cosine', or LambdaLR of "
            "torch.optim.lr_scheduler"
        )


def _filling(trainer: Any) -> Filling:
    """Return what pads a row. NOTE: a tokenizer that pads on the left continues doing so."""
    processor = trainer.processing_class
    tokenizer = getattr(processor, "tokenizer", processor)
    config = getattr(trainer.model, "config", None)
    known = (getattr(owner, "pad_token_id", None) for owner in (tokenizer, config))
    token = next((token for token in known if isinstance(token, int)), 0)
    return Filling(token, getattr(tokenizer, "padding_side", "right") == "left")


# ------------------------------------------------------------------------------------------- how it is weighted


def _tables(trainer: Any, rows: Static, items: list[float | None]) -> dict[str, Array]:
    """Return what a step's parts are divided by and multiplied with.

    A program averages over the parts. The trainer sums losses that are divided by the labels of the whole step, and
    otherwise averages over the batches that a step really has. Over processes gradients are averaged, for which the
    library makes up only where it has counted labels itself.
    """
    counted = all(count is not None for count in items)
    parts = rows.weights.shape[1]
    scaled = (
        (trainer.model_accepts_loss_kwargs and counted) or trainer.compute_loss_func is not None
        if trainer.loss_is_scaled_for_ga is None
        else trainer.loss_is_scaled_for_ga
    )
    real = rows.weights.sum(axis=1, keepdims=True)
    made_up = counted and defined_in(trainer, "compute_loss").startswith(("transformers.", "trl."))
    averaged = np.float32(1 if made_up else trainer.args.world_size)
    scale = rows.weights * np.float32(parts) / (averaged if scaled else real)
    tables: dict[str, Array] = {}
    if counted:
        column = np.array(items, np.float32)[:, None]
        tables[ITEMS] = np.ascontiguousarray(np.broadcast_to(column, rows.weights.shape))
    if (scale != 1).any():
        tables[SCALE] = scale.astype(np.float32)
    return tables


def _part(rows: Static, step: int, part: int) -> dict[str, torch.Tensor]:
    """Return a batch of a step as the program takes it."""
    size = rows.order.shape[1] // rows.weights.shape[1]
    chosen = rows.order[step, part * size : (part + 1) * size]
    return {name: from_numpy(array[chosen]) for name, array in rows.data.items()}


def _collected_part(collected: Collected, step: int, part: int) -> dict[str, torch.Tensor]:
    """Return a batch of a step as the trainer takes it."""
    chosen = [collected.rows[n] for n in collected.taken[step][part]]
    return {name: from_numpy(np.stack([row[k] for row in chosen])) for k, name in enumerate(collected.names)}


def _check_neutral(
    loss: TrainerLoss, own: Mapping[str, Any], ours: Mapping[str, Any], items: float | None
) -> None:
    """Raise CaptureError if a batch that was padded or filled up has another loss than before.

    NOTE: padding may be seen by a model in ways that no rule about names foresees (positions that count padding, losses
    that average over it). So the loss itself decides.
    """
    module = loss.trainer.model
    device = next(module.parameters()).device
    count = None if items is None else torch.tensor(items, device=device)
    training = module.training
    try:
        module.eval()
        with torch.no_grad():
            before, after = (float(loss.unscaled(module, _on(device, batch), count)) for batch in (own, ours))
    finally:
        module.train(training)
    narrow = any(p.dtype == torch.bfloat16 for p in module.parameters())
    if not math.isclose(before, after, rel_tol=_ACCURACY * (1000 if narrow else 1), abs_tol=1e-6):
        raise CaptureError(
            f"padding changes the loss of a batch from {before:.6g} to {after:.6g}: this model sees it; collate to one "
            "shape (padding='max_length') and set dataloader_drop_last=True"
        )


def _on(device: torch.device, batch: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v.to(device) if isinstance(v, torch.Tensor) else v for k, v in batch.items()}


def _check_filling(module: torch.nn.Module) -> None:
    if getattr(getattr(module, "config", None), "output_router_logits", False):
        raise CaptureError(
            "a batch has fewer examples than others, and the loss that balances experts counts all rows; set "
            "dataloader_drop_last=True, or output_router_logits=False in the model's configuration"
        )
    for name, layer in module.named_modules():
        if isinstance(layer, torch.nn.modules.batchnorm._BatchNorm):
            raise CaptureError(
                f"a batch has fewer examples than others, and {name} averages over the batch; set "
                "dataloader_drop_last=True, and choose gradient_accumulation_steps that divide an epoch"
            )
