"""Low-rank adapters (LoRA) on a frozen Llama, with `peft` and `transformers.Trainer`.

The adapters have no dropout, so that the losses can be compared with those of the program.
"""

from __future__ import annotations

from typing import Any

import peft
import torch
import transformers as hf

from assay_capture.capture import Recipe
from examples import common


def base() -> Any:
    """The model that the adapters belong to. Usually it is a folder that somebody else has trained."""
    words = common.tokenizer()
    torch.manual_seed(0)
    return hf.LlamaForCausalLM(
        hf.LlamaConfig(
            vocab_size=len(words),
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=64,
            pad_token_id=words.pad_token_id,
            bos_token_id=words.bos_token_id,
            eos_token_id=words.eos_token_id,
        )
    )


def trainer(steps: int = 50) -> hf.Trainer:
    words = common.tokenizer()
    config = peft.LoraConfig(
        r=8,
        lora_alpha=16,
        lora_dropout=0.0,
        target_modules=["q_proj", "v_proj", "up_proj", "down_proj"],
        task_type="CAUSAL_LM",
    )
    model = peft.get_peft_model(base(), config)
    rows = [{"input_ids": row, "labels": row} for row in common.blocks(words, 48)]
    arguments = hf.TrainingArguments(
        **common.QUIET, max_steps=steps, per_device_train_batch_size=4, learning_rate=1e-2
    )
    return hf.Trainer(model, arguments, train_dataset=rows, processing_class=words)


def recipe(steps: int = 50) -> Recipe:
    return Recipe.from_trainer(trainer(steps), "lora")


if __name__ == "__main__":
    trainer().train()
