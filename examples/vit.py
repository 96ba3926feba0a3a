"""Classification of images with a vision transformer (ViT), in a loop of plain PyTorch.

Without dropout, so that the losses can be compared with those of the program.
"""

from __future__ import annotations

from typing import Any

import torch
import transformers as hf

from assay_capture.capture import Recipe
from examples import common

BATCH = 16


def model() -> Any:
    torch.manual_seed(0)
    config = hf.ViTConfig(
        image_size=16,
        patch_size=4,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_labels=len(common.SHAPES),
        id2label=dict(enumerate(common.SHAPES)),
        **common.CALM,
    )
    return hf.ViTForImageClassification(config).train()


def update(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=3e-4, weight_decay=0.05)


def train(steps: int = 50) -> list[float]:
    network = model()
    optimizer = update(network.parameters())
    images, shapes, _ = common.pictures()
    loader = common.loader(torch.utils.data.TensorDataset(images, shapes), BATCH)
    losses = []
    for pixels, labels in common.batches(loader, steps):
        loss = network(pixel_values=pixels, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def recipe(steps: int = 50) -> Recipe:
    network = model()
    images, shapes, _ = common.pictures()
    return Recipe(
        name="vit",
        module=network,
        loss=None,  # the model's own
        optimizer=update(network.parameters()),
        data={"pixel_values": images.numpy(), "labels": shapes.numpy()},
        steps=steps,
        batch_size=BATCH,
        initial="module",
        order=common.order(len(images), BATCH, steps),
    )


if __name__ == "__main__":
    for step, loss in enumerate(train(), 1):
        print(f"step {step}  loss {loss:.4f}")
