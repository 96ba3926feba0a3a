"""Sequence classification: an encoder of BERT's kind says whether the writer of a review liked the thing.

Batches are padded to their longest text. Without dropout, so that the losses can be compared with those of the program.
"""

from __future__ import annotations

import torch
import transformers as hf

from assay_capture.capture import Recipe
from examples import common


def trainer(steps: int = 50) -> hf.Trainer:
    words = common.tokenizer("bert")
    torch.manual_seed(0)
    model = hf.BertForSequenceClassification(
        hf.BertConfig(
            vocab_size=len(words),
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=4,
            max_position_embeddings=64,
            num_labels=2,
            id2label={0: "disliked", 1: "liked"},
            label2id={"disliked": 0, "liked": 1},
            **common.CALM,
        )
    )
    arguments = hf.TrainingArguments(
        **common.QUIET,
        max_steps=steps,
        per_device_train_batch_size=8,
        learning_rate=1e-3,
        warmup_steps=5,
    )
    rows = [{**words(text), "labels": liked} for text, liked in common.reviews()]
    return hf.Trainer(model, arguments, hf.DataCollatorWithPadding(words), rows, processing_class=words)


def recipe(steps: int = 50) -> Recipe:
    return Recipe.from_trainer(trainer(steps), "classification")


if __name__ == "__main__":
    trainer().train()
