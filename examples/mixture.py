"""A mixture of experts (Mixtral's kind): each token goes to two of four experts; a second loss balances their loads.

Mixtral has no dropout, so the losses can be compared with those of the program.
"""

from __future__ import annotations

import torch
import transformers as hf

from assay_capture.capture import Recipe
from examples import common


def trainer(steps: int = 50) -> hf.Trainer:
    words = common.tokenizer()
    torch.manual_seed(0)
    model = hf.MixtralForCausalLM(
        hf.MixtralConfig(
            vocab_size=len(words),
            hidden_size=64,
            intermediate_size=96,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            num_local_experts=4,
            num_experts_per_tok=2,
            output_router_logits=True,
            router_aux_loss_coef=0.02,
            max_position_embeddings=64,
            pad_token_id=words.pad_token_id,
            bos_token_id=words.bos_token_id,
            eos_token_id=words.eos_token_id,
        )
    )
    rows = [{"input_ids": row, "labels": row} for row in common.blocks(words, 32)]
    arguments = hf.TrainingArguments(
        **common.QUIET,
        max_steps=steps,
        per_device_train_batch_size=4,
        dataloader_drop_last=True,  # the balance of the loads would count what fills a smaller batch up
        learning_rate=1e-3,
    )
    return hf.Trainer(model, arguments, train_dataset=rows, processing_class=words)


def recipe(steps: int = 50) -> Recipe:
    return Recipe.from_trainer(trainer(steps), "mixture")


if __name__ == "__main__":
    trainer().train()
