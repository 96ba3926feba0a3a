"""Full fine-tuning of a causal language model: GPT-2, `transformers.Trainer`, paragraphs of different lengths.

Without dropout, so that the losses can be compared with those of the program.
"""

from __future__ import annotations

import torch
import transformers as hf

from assay_capture.capture import Recipe
from examples import common


def trainer(steps: int = 50) -> hf.Trainer:
    words = common.tokenizer()
    torch.manual_seed(0)
    model = hf.GPT2LMHeadModel(
        hf.GPT2Config(
            vocab_size=len(words),
            n_positions=128,
            n_embd=64,
            n_layer=2,
            n_head=4,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            bos_token_id=words.bos_token_id,
            eos_token_id=words.eos_token_id,
        )
    )
    arguments = hf.TrainingArguments(
        **common.QUIET,
        max_steps=steps,
        per_device_train_batch_size=4,
        learning_rate=2e-3,
        weight_decay=0.01,
    )
    return hf.Trainer(
        model,
        arguments,
        hf.DataCollatorForLanguageModeling(words, mlm=False),
        [words(line, truncation=True, max_length=64) for line in common.lines()],
        processing_class=words,
    )


def recipe(steps: int = 50) -> Recipe:
    return Recipe.from_trainer(trainer(steps), "finetune")


if __name__ == "__main__":
    trainer().train()
