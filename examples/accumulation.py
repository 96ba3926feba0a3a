"""Gradients added up over four batches, warm-up and cosine, clipping: a GPT-NeoX in a loop of plain PyTorch.

Without dropout, so that the losses can be compared with those of the program.
"""

from __future__ import annotations

from typing import Any

import torch
import transformers as hf

from assay_capture.capture import Recipe
from examples import common

BATCH, PARTS, LENGTH = 2, 4, 48


def model(vocabulary: int) -> Any:
    torch.manual_seed(0)
    config = hf.GPTNeoXConfig(
        vocab_size=vocabulary,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=LENGTH,
        hidden_dropout=0.0,
        attention_dropout=0.0,
    )
    return hf.GPTNeoXForCausalLM(config).train()


def update(parameters: Any, steps: int) -> tuple[torch.optim.Optimizer, Any]:
    optimizer = torch.optim.AdamW(parameters, lr=3e-3)
    return optimizer, hf.get_cosine_schedule_with_warmup(optimizer, steps // 10, steps)


def train(steps: int = 50) -> list[float]:
    words = common.tokenizer()
    network = model(len(words))
    optimizer, schedule = update(network.parameters(), steps)
    batches = common.batches(common.loader(common.blocks(words, LENGTH), BATCH), steps * PARTS)
    losses = []
    for _ in range(steps):
        total = 0.0
        for _ in range(PARTS):
            rows = next(batches)
            loss = network(input_ids=rows, labels=rows).loss / PARTS
            loss.backward()
            total += loss.item()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        losses.append(total)
    return losses


def recipe(steps: int = 50) -> Recipe:
    words = common.tokenizer()
    network = model(len(words))
    optimizer, schedule = update(network.parameters(), steps)
    rows = common.blocks(words, LENGTH).numpy()
    return Recipe(
        name="accumulation",
        module=network,
        loss=None,  # the model's own
        optimizer=optimizer,
        scheduler=schedule,
        data={"input_ids": rows, "labels": rows},
        steps=steps,
        batch_size=BATCH * PARTS,
        micro_batches=PARTS,
        clip_norm=1.0,
        initial="module",
        order=common.order(len(rows), BATCH, steps * PARTS).reshape(steps, BATCH * PARTS),
        processor=words,
    )


if __name__ == "__main__":
    for step, loss in enumerate(train(), 1):
        print(f"step {step}  loss {loss:.4f}")
