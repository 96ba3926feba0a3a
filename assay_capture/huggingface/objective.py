"""The loss of a batch as the trainer computes it: the model's own, a smoothed one, or that of a function.

Losses of tokens are divided by the number of labels in the whole step, not in one of its batches. That number depends
on the step, so it is a table of the program.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException

from ..capture.errors import CaptureError, Unsupported
from ..capture.trace import Objective

ITEMS, SCALE = "num_items_in_batch", "loss_scale"
"""Tables of the program: labels in a step; and the factor that undoes the average over a step's parts."""
_WHILE_TRAINING = [
    "epoch",
    "global_step",
    "max_steps",
    "logging_steps",
    "eval_steps",
    "save_steps",
    "train_batch_size",
    "num_train_epochs",
    "total_flos",
    "num_input_tokens_seen",
    "log_history",
    "best_metric",
    "best_global_step",
    "best_model_checkpoint",
]
"""Fields of a trainer's state that change from step to step, or are set when training begins."""
_OURS = ("transformers.trainer", "transformers.trainer_seq2seq", "trl.trainer.sft_trainer")


@dataclass(frozen=True)
class TrainerLoss(Objective):
    """Computes what `trainer.compute_loss` would, without what it only reports.

    `constants` are entries of every batch that are not tensors (return_loss=True); the model gets them as they are.
    """

    trainer: Any
    constants: Mapping[str, bool] = field(default_factory=dict)

    @classmethod
    def of_trainer(cls, trainer: Any, constants: Mapping[str, bool]) -> TrainerLoss:
        return cls(None, (), trainer, constants)

    @property
    def is_the_librarys(self) -> bool:
        """True if no function of the user's own takes part."""
        return self.trainer.compute_loss_func is None and defined_in(self.trainer, "compute_loss") in _OURS

    @property
    def beside(self) -> Any:
        return self.trainer

    def __call__(self, forward: Callable[..., Any], batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
        inputs = dict(batch)
        items, scale = inputs.pop(ITEMS, None), inputs.pop(SCALE, None)
        loss = self.unscaled(forward, inputs, items)
        return loss if scale is None else loss * scale

    def unscaled(
        self, forward: Callable[..., Any], batch: Mapping[str, torch.Tensor], items: torch.Tensor | None
    ) -> torch.Tensor:
        """Return the loss of one batch. `items` is the number of labels in the step."""
        trainer, inputs = self.trainer, {**self.constants, **batch}
        if defined_in(trainer, "compute_loss") not in _OURS:
            model = _Model(forward, trainer.model)
            with _code_of_the_user(trainer, items):
                return _tensor(trainer.compute_loss(model, inputs, num_items_in_batch=items))
        custom = trainer.compute_loss_func or trainer.label_smoother
        labels = inputs.pop("labels", None) if custom is not None else None
        if trainer.model_accepts_loss_kwargs and items is not None:
            inputs[ITEMS] = items
        outputs = forward(**inputs)
        if trainer.compute_loss_func is not None:
            with _code_of_the_user(trainer, items):
                return _tensor(trainer.compute_loss_func(outputs, labels, num_items_in_batch=items))
        if labels is not None:
            return _tensor(
                trainer.label_smoother(
                    outputs, labels, shift_labels=_predicts_next(trainer.model), num_items_in_batch=items
                )
            )
        return _tensor(outputs["loss"] if isinstance(outputs, dict) else outputs[0])


def defined_in(trainer: Any, method: str) -> str:
    """Return the name of the Python module whose code runs when this method of the trainer is called.

    NOTE: the code's own globals decide. A method may have been put into the object or the library's class, and a
    decorator may say that it is from where the decorated function is.
    """
    found = getattr(trainer, method)
    function = getattr(found, "__func__", found)
    return str(getattr(function, "__globals__", {}).get("__name__", type(function).__module__))


def _tensor(loss: Any) -> torch.Tensor:
    if not isinstance(loss, torch.Tensor):
        raise CaptureError(
            f"the model gives {type(loss).__name__} as its loss; give it labels, or the trainer a compute_loss_func"
        )
    return loss


def _predicts_next(model: Any) -> bool:
    """Return whether labels are shifted before they are smoothed: for causal language models, as in the trainer."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    base = model.get_base_model() if hasattr(model, "peft_config") else model
    return type(base).__name__ in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values()


@contextlib.contextmanager
def _code_of_the_user(trainer: Any, items: torch.Tensor | None) -> Iterator[None]:
    """Refuse what is known only while training, and say what to write for a branch on the number of labels."""
    state = trainer.state
    trainer.state = _State(state)
    try:
        yield
    except DataDependentOutputException as error:
        if items is None or "_local_scalar_dense" not in str(error.func):
            raise
        raise Unsupported(
            "the loss turns a tensor into a number of Python, as item() and a condition do",
            "divide by num_items_in_batch itself: it is a tensor, and never None or 0, so leave out 'or 1' and 'if'; "
            "use torch.where in place of other conditions",
        ) from error
    finally:
        trainer.state = state


class _State:
    """A trainer's state without what is known only while training: a program would keep its first value for ever."""

    def __init__(self, state: Any) -> None:
        self._state = state

    def __getattr__(self, name: str) -> Any:
        if name in _WHILE_TRAINING:
            raise Unsupported(
                f"the loss reads trainer.state.{name}, which is known only while training",
                "compute the loss from the batch and from trainer.args; a program is the same in every step",
                "compute_loss",
            )
        return getattr(self._state, name)


class _Model:
    """The model with the tensors that are traced, for a `compute_loss` of somebody's own."""

    def __init__(self, forward: Callable[..., Any], model: Any) -> None:
        self._forward, self._model = forward, model

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._forward(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """NOTE: the library asks what kind of model it is, for instance before it shifts labels."""
        return type(self._model)
