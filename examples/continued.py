"""Continued pretraining of a model in a folder of `config.json`, `model.safetensors` and `tokenizer.json`.

    python examples/continued.py FOLDER

Without a FOLDER the script makes one: a small Qwen2 that has seen the first half of the text for some steps. Without
dropout, so that the losses can be compared with those of the program.
"""

from __future__ import annotations

import functools
import sys
import tempfile
from pathlib import Path

import torch
import transformers as hf

from assay_capture.capture import Recipe
from examples import common

LENGTH = 48


@functools.cache
def pretrained() -> Path:
    """Write the folder that somebody else would have written."""
    words = common.tokenizer()
    torch.manual_seed(0)
    model = hf.Qwen2ForCausalLM(
        hf.Qwen2Config(
            vocab_size=len(words),
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=LENGTH,
            tie_word_embeddings=True,
            bos_token_id=words.bos_token_id,
            eos_token_id=words.eos_token_id,
        )
    )
    rows = common.blocks(words, LENGTH)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(20):
        batch = rows[: len(rows) // 2]
        optimizer.zero_grad()
        model(input_ids=batch, labels=batch).loss.backward()
        optimizer.step()
    folder = Path(tempfile.mkdtemp())
    model.save_pretrained(folder)
    words.save_pretrained(folder)
    return folder


def trainer(steps: int = 50, folder: Path | None = None) -> hf.Trainer:
    folder = folder or pretrained()
    words = hf.AutoTokenizer.from_pretrained(folder)
    model = hf.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    rows = [{"input_ids": row, "labels": row} for row in common.blocks(words, LENGTH)]
    arguments = hf.TrainingArguments(
        **common.QUIET,
        max_steps=steps,
        per_device_train_batch_size=4,
        learning_rate=1e-3,
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=5,
        weight_decay=0.1,
        adam_beta2=0.95,
    )
    return hf.Trainer(model, arguments, train_dataset=rows, processing_class=words)


def recipe(steps: int = 50, folder: Path | None = None) -> Recipe:
    return Recipe.from_trainer(trainer(steps, folder), "continued")


if __name__ == "__main__":
    trainer(folder=Path(sys.argv[1]) if sys.argv[1:] else None).train()
