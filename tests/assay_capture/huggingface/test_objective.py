"""Losses of one's own: what they may read, and entries of batches that are not tensors."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf

from assay_capture.capture import CaptureError, Recipe, Unsupported, build

from . import tiny

ROWS = [
    {"input_ids": row, "labels": row} for row in (torch.tensor((r * 8)[:8]) for r in tiny.sentences(24, 8))
]


def summed(outputs: Any, labels: torch.Tensor) -> torch.Tensor:
    scores = outputs.logits[:, :-1].flatten(0, 1)
    return torch.nn.functional.cross_entropy(scores, labels[:, 1:].flatten(), reduction="sum")


class Reading(hf.Trainer):
    """A loss that depends on a field of the trainer's state."""

    field = "global_step"

    def compute_loss(self, model, inputs, **_):
        labels = inputs.pop("labels")
        loss = summed(model(**inputs), labels) / labels.numel()
        return loss * 2 if getattr(self.state, self.field) else loss


@pytest.mark.parametrize("field", ["global_step", "epoch", "log_history", "best_metric", "max_steps"])
def test_a_loss_that_reads_what_changes_while_training_is_refused(field: str, tmp_path: Path) -> None:
    trainer = Reading(tiny.gpt2(), tiny.arguments(tmp_path), train_dataset=ROWS)
    trainer.field = field
    state = trainer.state
    with pytest.raises(
        Unsupported, match=rf"compute_loss: the loss reads trainer\.state\.{field}.*trainer\.args"
    ):
        build(Recipe.from_trainer(trainer))
    assert trainer.state is state


def test_other_fields_of_the_state_can_be_read(tmp_path: Path) -> None:
    trainer = Reading(tiny.gpt2(), tiny.arguments(tmp_path, max_steps=3), train_dataset=ROWS)
    trainer.field = "is_world_process_zero"
    ours, _ = tiny.run(build(Recipe.from_trainer(trainer)))
    trainer.train()
    np.testing.assert_allclose(ours, tiny.reported(trainer), rtol=2e-5)


def test_a_function_that_reads_the_state_is_refused(tmp_path: Path) -> None:
    trainer: Any = hf.Trainer(
        tiny.gpt2(),
        tiny.arguments(tmp_path),
        train_dataset=ROWS,
        compute_loss_func=lambda outputs, labels, num_items_in_batch: (
            summed(outputs, labels) / num_items_in_batch * (1 + trainer.state.epoch)
        ),
    )
    with pytest.raises(Unsupported, match=r"reads trainer\.state\.epoch"):
        build(Recipe.from_trainer(trainer))


def test_the_number_of_labels_is_no_number_of_python(tmp_path: Path) -> None:
    trainer = hf.Trainer(
        tiny.gpt2(),
        tiny.arguments(tmp_path, gradient_accumulation_steps=2, max_steps=3),
        train_dataset=ROWS,
        compute_loss_func=lambda outputs, labels, num_items_in_batch: (
            summed(outputs, labels) / (num_items_in_batch or 1)
        ),
    )
    with pytest.raises(Unsupported, match=r"divide by num_items_in_batch itself.*leave out 'or 1'"):
        build(Recipe.from_trainer(trainer))
    trainer.compute_loss_func = lambda outputs, labels, num_items_in_batch: (
        summed(outputs, labels) / num_items_in_batch
    )
    ours, _ = tiny.run(build(Recipe.from_trainer(trainer)))
    trainer.train()
    np.testing.assert_allclose(ours, tiny.reported(trainer), rtol=2e-5)


def clip() -> Any:
    torch.manual_seed(0)
    size = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    words = {"vocab_size": len(tiny.VOCABULARY), "max_position_embeddings": 8, "eos_token_id": 5}
    config = hf.CLIPConfig(
        text_config=size | words, vision_config=size | {"image_size": 8, "patch_size": 4}, projection_dim=8
    )
    return hf.CLIPModel(config)


def pairs(rows: list[dict[str, Any]]) -> dict[str, Any]:
    stacked = {name: torch.stack([row[name] for row in rows]) for name in ("input_ids", "pixel_values")}
    return {**stacked, "return_loss": True, "position_ids": None}


def test_entries_of_a_batch_that_are_true_or_false_reach_the_model(tmp_path: Path) -> None:
    torch.manual_seed(1)
    rows = [{"input_ids": row["input_ids"], "pixel_values": torch.randn(3, 8, 8)} for row in ROWS]
    arguments = tiny.arguments(tmp_path, remove_unused_columns=False, max_steps=4)
    trainer = hf.Trainer(clip(), arguments, pairs, rows)
    recipe = Recipe.from_trainer(trainer)
    assert set(recipe.data) == {"input_ids", "pixel_values"}
    ours, _ = tiny.run(build(recipe))
    trainer.train()
    np.testing.assert_allclose(ours, tiny.reported(trainer), rtol=2e-5)
    turns = itertools.cycle([True, False])
    trainer = hf.Trainer(clip(), arguments, lambda part: pairs(part) | {"return_loss": next(turns)}, rows)
    with pytest.raises(CaptureError, match=r"a batch has .'return_loss': .*give every batch the same"):
        Recipe.from_trainer(trainer)


def test_a_trainer_that_counts_its_losses_is_refused(tmp_path: Path) -> None:
    class Counting(hf.Trainer):
        calls = 0

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.calls = 0

        def compute_loss(self, model, inputs, **_):
            self.calls += 1
            labels = inputs.pop("labels")
            loss = summed(model(**inputs), labels) / labels.numel()
            return loss * 2 if self.calls > 100 else loss

    trainer = Counting(tiny.gpt2(), tiny.arguments(tmp_path), train_dataset=ROWS)
    with pytest.raises(Unsupported, match=r"depends on Counting\.calls, which it changes itself"):
        build(Recipe.from_trainer(trainer))
    assert trainer.calls == 0
