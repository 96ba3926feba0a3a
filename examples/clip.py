"""Contrastive training of two encoders (CLIP) in a loop of plain PyTorch: which caption belongs to which picture.

CLIP has no dropout by default, so the losses can be compared with those of the program.
"""

from __future__ import annotations

from typing import Any

import torch
import transformers as hf
from torch.nn import functional

from assay_capture.capture import Recipe
from examples import common

BATCH, LENGTH = 16, 24
INPUTS = ("input_ids", "attention_mask", "pixel_values")
WORDS = common.tokenizer()


def model() -> Any:
    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
    text = {"vocab_size": len(WORDS), "max_position_embeddings": LENGTH, "eos_token_id": WORDS.eos_token_id}
    torch.manual_seed(0)
    config = hf.CLIPConfig(
        text_config={**sizes, **text},
        vision_config={**sizes, "image_size": 16, "patch_size": 4},
        projection_dim=32,
    )
    return hf.CLIPModel(config).train()


def data() -> dict[str, torch.Tensor]:
    """Pictures, and captions such as "a red disc on a grey ground"."""
    images, shapes, colours = common.pictures()
    captions = [
        f"a {common.COLOURS[colour]} {common.SHAPES[shape]} on a grey ground{WORDS.eos_token}"
        for shape, colour in zip(shapes, colours, strict=True)
    ]
    tokens = WORDS(captions, padding="max_length", max_length=LENGTH, return_tensors="pt")
    return {
        "input_ids": tokens["input_ids"],
        "attention_mask": tokens["attention_mask"],
        "pixel_values": images,
        "kind": shapes * len(common.COLOURS) + colours,
    }


def contrastive(output: Any, kind: torch.Tensor) -> torch.Tensor:
    """Each picture should choose its caption, and each caption its picture; those of one kind are equally right."""
    scores = output.logits_per_image
    same = (kind[:, None] == kind[None, :]).float()
    right = same / same.sum(1, keepdim=True)
    return (functional.cross_entropy(scores, right) + functional.cross_entropy(scores.T, right)) / 2


def update(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=5e-4, weight_decay=0.1)


def train(steps: int = 50) -> list[float]:
    network, arrays = model(), data()
    optimizer = update(network.parameters())
    losses = []
    for rows in common.batches(common.loader(range(len(arrays["input_ids"])), BATCH), steps):
        loss = contrastive(network(**{name: arrays[name][rows] for name in INPUTS}), arrays["kind"][rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def recipe(steps: int = 50) -> Recipe:
    network, arrays = model(), data()
    return Recipe(
        name="clip",
        module=network,
        loss=contrastive,
        optimizer=update(network.parameters()),
        data={name: array.numpy() for name, array in arrays.items()},
        inputs=INPUTS,
        steps=steps,
        batch_size=BATCH,
        initial="module",
        order=common.order(len(arrays["input_ids"]), BATCH, steps),
        processor=WORDS,
    )


if __name__ == "__main__":
    for step, loss in enumerate(train(), 1):
        print(f"step {step}  loss {loss:.4f}")
