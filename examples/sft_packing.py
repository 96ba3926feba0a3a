"""Supervised fine-tuning with packing: TRL's `SFTTrainer` puts several prompts with their answers into one row.

Only the answers count, and no answer sees another one's prompt. Llama has no dropout, so the losses can be compared
with those of the program.
"""

from __future__ import annotations

import datasets
import torch
import transformers as hf
import trl

from assay_capture.capture import Recipe
from examples import common


def trainer(steps: int = 50) -> trl.SFTTrainer:
    words = common.tokenizer()
    torch.manual_seed(0)
    model = hf.LlamaForCausalLM(
        hf.LlamaConfig(
            vocab_size=len(words),
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=128,
            pad_token_id=words.pad_token_id,
            bos_token_id=words.bos_token_id,
            eos_token_id=words.eos_token_id,
        )
    )
    rows = datasets.Dataset.from_list(
        [{"prompt": text, "completion": f" In short: {short}"} for text, short in common.reports()]
    )
    arguments = trl.SFTConfig(
        **common.QUIET,
        max_steps=steps,
        per_device_train_batch_size=2,
        learning_rate=3e-3,
        packing=True,
        max_length=96,
        bf16=False,
        gradient_checkpointing=False,
    )
    return trl.SFTTrainer(model, arguments, train_dataset=rows, processing_class=words)


def recipe(steps: int = 50) -> Recipe:
    return Recipe.from_trainer(trainer(steps), "sft-packing")


if __name__ == "__main__":
    trainer().train()
