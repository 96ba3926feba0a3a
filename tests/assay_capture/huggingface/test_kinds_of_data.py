"""Trainers whose data are unusual: streams, prompts, packs without padding, several labels, seeds of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest
import torch
import transformers as hf
import trl

from assay_capture.capture import CaptureError, Recipe, build

from . import tiny

ROWS = [
    {"input_ids": row, "labels": row} for row in (torch.tensor((r * 8)[:8]) for r in tiny.sentences(24, 8))
]


class Stream(torch.utils.data.IterableDataset):
    """Ten rows and then no more; a trainer begins anew then."""

    def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
        return iter(ROWS[:10])


def stream(folder: Path) -> Any:
    return hf.Trainer(tiny.gpt2(), tiny.arguments(folder, max_steps=5), train_dataset=Stream())


def seeds(folder: Path) -> Any:
    given = {"data_seed": 7, "seed": 3, "dataloader_drop_last": True, "gradient_accumulation_steps": 3}
    arguments = tiny.arguments(
        folder, num_train_epochs=2, max_steps=-1, lr_scheduler_type="cosine_with_min_lr",
        lr_scheduler_kwargs={"min_lr": 1e-4}, per_device_train_batch_size=5, **given
    )  # fmt: skip
    return hf.Trainer(tiny.gpt2(), arguments, train_dataset=ROWS)


def last_token(folder: Path) -> Any:
    """A decoder that classifies by its last token that is not padding."""
    config = hf.GPT2Config(
        n_layer=1, n_embd=32, n_head=4, n_positions=32, vocab_size=32, pad_token_id=0,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
    )  # fmt: skip
    rows = [{"input_ids": row, "labels": row[0] % 2} for row in tiny.sentences(22, 14)]
    torch.manual_seed(0)
    words = tiny.tokenizer()
    return hf.Trainer(
        hf.GPT2ForSequenceClassification(config),
        tiny.arguments(folder, max_steps=6),
        hf.DataCollatorWithPadding(words),
        rows,
        processing_class=words,
    )


def several_labels(folder: Path) -> Any:
    rows = [{"input_ids": (r * 4)[:4], "labels": [float(r[0] % 2), 1.0, 0.0]} for r in tiny.sentences(16, 8)]
    model = tiny.bert(
        hf.BertForSequenceClassification, num_labels=3, problem_type="multi_label_classification"
    )
    return hf.Trainer(model, tiny.arguments(folder, max_steps=5), train_dataset=rows)


def prompts(folder: Path) -> Any:
    rows = [{"prompt": "a b c", "completion": " d e"}, {"prompt": "x", "completion": " y z w"}] * 8
    return supervised(folder, datasets.Dataset.from_list(rows))


def without_padding(folder: Path) -> Any:
    rows = datasets.Dataset.from_dict({"input_ids": tiny.sentences(20, 9)})
    return supervised(folder, rows, padding_free=True, max_length=None)


def wrapped(folder: Path) -> Any:
    rows = datasets.Dataset.from_list([{"text": "a b c d e"}, {"text": "x y z"}] * 20)
    return supervised(folder, rows, packing=True, packing_strategy="wrapped", max_length=8)


def supervised(folder: Path, rows: Any, **options: Any) -> Any:
    arguments = tiny.arguments(folder, trl.SFTConfig, bf16=False, max_steps=4, **options)
    return trl.SFTTrainer(tiny.llama(), arguments, train_dataset=rows, processing_class=tiny.tokenizer())


@pytest.mark.parametrize(
    "make",
    [
        *(stream, last_token, prompts),
        *(
            pytest.param(make, marks=pytest.mark.slow)
            for make in (seeds, several_labels, without_padding, wrapped)
        ),
    ],
    ids=lambda f: f.__name__,
)
def test_losses_are_those_of_the_trainer(make: Callable[[Path], Any], tmp_path: Path) -> None:
    trainer = make(tmp_path)
    ours, _ = tiny.run(build(Recipe.from_trainer(trainer)))
    trainer.train()
    np.testing.assert_allclose(ours, tiny.reported(trainer), rtol=2e-5)


def test_statistics_of_a_batch_cannot_be_filled_up(tmp_path: Path) -> None:
    config = hf.ResNetConfig(num_labels=2, embedding_size=8, hidden_sizes=[8], depths=[1])
    rows = [{"pixel_values": torch.randn(3, 16, 16), "labels": k % 2} for k in range(6)]
    trainer = hf.Trainer(
        hf.ResNetForImageClassification(config), tiny.arguments(tmp_path), train_dataset=rows
    )
    with pytest.raises(CaptureError, match="normalization averages over the batch; set dataloader_drop_last"):
        Recipe.from_trainer(trainer)


def test_other_losses_of_trl_are_refused(tmp_path: Path) -> None:
    trainer = supervised(
        tmp_path, datasets.Dataset.from_dict({"input_ids": tiny.sentences(8, 9)}), loss_type="dft"
    )
    with pytest.raises(CaptureError, match="use loss_type='nll'"):
        Recipe.from_trainer(trainer)
