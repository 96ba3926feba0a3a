"""Masked language modelling: an encoder of BERT's kind learns words that a collator has masked, again in each epoch.

Without dropout, so that PyTorch's generator draws the same masks for both, and the losses can be compared.
"""

from __future__ import annotations

import torch
import transformers as hf

from assay_capture.capture import Recipe
from examples import common


def trainer(steps: int = 50) -> hf.Trainer:
    words = common.tokenizer("bert")
    torch.manual_seed(0)
    model = hf.BertForMaskedLM(
        hf.BertConfig(
            vocab_size=len(words),
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=4,
            max_position_embeddings=64,
            **common.CALM,
        )
    )
    arguments = hf.TrainingArguments(
        **common.QUIET, max_steps=steps, per_device_train_batch_size=4, learning_rate=2e-3
    )
    return hf.Trainer(
        model,
        arguments,
        hf.DataCollatorForLanguageModeling(words, mlm_probability=0.15),
        [words(line, truncation=True, max_length=48) for line in common.lines()],
        processing_class=words,
    )


def recipe(steps: int = 50) -> Recipe:
    return Recipe.from_trainer(trainer(steps), "masked-lm")


if __name__ == "__main__":
    trainer().train()
