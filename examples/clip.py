"""Contrastive training of two encoders (CLIP): which caption belongs to which picture of a batch.

CLIP has no dropout by default, so the losses can be compared with those of the program.
"""

from __future__ import annotations

from typing import Any

import torch
import transformers as hf

from examples import common
from trainer_node.capture import Recipe


def examples(words: Any) -> list[dict[str, Any]]:
    """Pictures and captions such as "a red disc on a grey ground"."""
    found = []
    for image, shape, colour in zip(*common.pictures(), strict=True):
        caption = f"a {common.COLOURS[colour]} {common.SHAPES[shape]} on a grey ground"
        tokens = words(f"{caption}{words.eos_token}", padding="max_length", max_length=24)
        found.append({"pixel_values": image, **{k: tokens[k] for k in ("input_ids", "attention_mask")}})
    return found


def collate(rows: list[dict[str, Any]]) -> dict[str, Any]:
    batch = hf.default_data_collator(rows)
    batch["return_loss"] = True
    return batch


def trainer(steps: int = 50) -> hf.Trainer:
    words = common.tokenizer()
    sizes = {
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "projection_dim": 32,
    }
    text = {
        **sizes,
        "vocab_size": len(words),
        "max_position_embeddings": 24,
        "eos_token_id": words.eos_token_id,
    }
    torch.manual_seed(0)
    model = hf.CLIPModel(
        hf.CLIPConfig(
            text_config=text,
            vision_config={**sizes, "image_size": 16, "patch_size": 4},
            projection_dim=32,
        )
    )
    arguments = hf.TrainingArguments(
        **common.QUIET, max_steps=steps, per_device_train_batch_size=16, learning_rate=1e-3
    )
    return hf.Trainer(model, arguments, collate, examples(words), processing_class=words)


def recipe(steps: int = 50) -> Recipe:
    return Recipe.from_trainer(trainer(steps), "clip")


if __name__ == "__main__":
    trainer().train()
