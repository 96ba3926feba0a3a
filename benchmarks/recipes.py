"""Recipes for measurements: the built-in ones, and larger models of `transformers`, unmodified."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from assay_capture.capture import Adam, Recipe, load_recipe
from assay_capture.capture.recipes import synthetic

EXAMPLES = 64
LR = 5e-5


def built_in(name: str, **options: Any) -> Recipe:
    """Return a recipe of this name that can be captured."""
    if name in LARGE:
        return LARGE[name](**options)
    recipe = load_recipe(name, **options)
    assert isinstance(recipe, Recipe)
    return recipe


def bert_base(steps: int = 100, batch_size: int = 8) -> Recipe:
    """BERT-base (109.5 M parameters) with a classification head, on sentences of 128 tokens."""
    from transformers import BertConfig, BertForSequenceClassification

    config = BertConfig(num_labels=2)
    module = BertForSequenceClassification(config).train()
    ids, mask, labels = synthetic.sentences(0, EXAMPLES, 128, config.vocab_size)
    data = {"input_ids": ids, "attention_mask": mask, "labels": labels}
    return Recipe("bert-base", module, None, Adam(lr=LR), data, steps, batch_size)


def vit_base(steps: int = 100, batch_size: int = 4) -> Recipe:
    """ViT-base (85.8 M parameters), on images of 224 x 224."""
    from transformers import ViTConfig, ViTForImageClassification

    return _of_images("vit-base", ViTForImageClassification(ViTConfig(num_labels=10)), steps, batch_size)


def convnext_tiny(steps: int = 100, batch_size: int = 4) -> Recipe:
    """ConvNeXt-tiny (27.8 M parameters), on images of 224 x 224."""
    from transformers import ConvNextConfig, ConvNextForImageClassification

    module = ConvNextForImageClassification(ConvNextConfig(num_labels=10))
    return _of_images("convnext-tiny", module, steps, batch_size)


def _of_images(name: str, module: Any, steps: int, batch_size: int) -> Recipe:
    pixels, labels = synthetic.images(0, EXAMPLES, (3, 224, 224), 10)
    data: dict[str, Any] = {"pixel_values": pixels, "labels": labels}
    return Recipe(name, module.train(), None, Adam(lr=LR), data, steps, batch_size)


LARGE: dict[str, Callable[..., Recipe]] = {
    "bert-base": bert_base,
    "vit-base": vit_base,
    "convnext-tiny": convnext_tiny,
}
