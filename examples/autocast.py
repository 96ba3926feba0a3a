"""Training in bfloat16: a Llama in a loop of plain PyTorch, forward pass and loss inside `torch.autocast`.

Llama has no dropout, so the losses can be compared with those of the program; they agree to the precision of bfloat16.
"""

from __future__ import annotations

from typing import Any

import torch
import transformers as hf

from assay_capture.capture import Recipe
from examples import common

BATCH, LENGTH = 4, 48


def model(vocabulary: int) -> Any:
    torch.manual_seed(0)
    config = hf.LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=LENGTH,
    )
    return hf.LlamaForCausalLM(config).train()


def update(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=2e-3, betas=(0.9, 0.95), weight_decay=0.1)


def train(steps: int = 50) -> list[float]:
    words = common.tokenizer()
    network = model(len(words))
    optimizer = update(network.parameters())
    losses = []
    for rows in common.batches(common.loader(common.blocks(words, LENGTH), BATCH), steps):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = network(input_ids=rows, labels=rows).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def recipe(steps: int = 50) -> Recipe:
    words = common.tokenizer()
    network = model(len(words))
    rows = common.blocks(words, LENGTH).numpy()
    return Recipe(
        name="autocast",
        module=network,
        loss=None,  # the model's own
        optimizer=update(network.parameters()),
        data={"input_ids": rows, "labels": rows},
        steps=steps,
        batch_size=BATCH,
        initial="module",
        order=common.order(len(rows), BATCH, steps),
        autocast=torch.bfloat16,
        processor=words,
    )


if __name__ == "__main__":
    for step, loss in enumerate(train(), 1):
        print(f"step {step}  loss {loss:.4f}")
