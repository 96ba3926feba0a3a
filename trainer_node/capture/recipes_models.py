"""Built-in recipes of full-size models, as `transformers` has them, on synthetic data. Nothing is downloaded."""

from __future__ import annotations

from typing import Any

from . import synthetic
from .errors import CaptureError
from .optimizers import SGD, Adam
from .recipe import Recipe


def transformers() -> Any:
    try:
        import transformers
    except ImportError as error:
        raise CaptureError("these recipes need transformers; install the extra [models]") from error
    return transformers


def gpt2_small(steps: int = 100, batch_size: int = 4, seed: int = 0, length: int = 128) -> Recipe:
    """GPT-2 small (124M parameters), AdamW."""
    hf = transformers()
    module = hf.GPT2LMHeadModel(hf.GPT2Config(use_cache=False))
    ids = synthetic.tokens(seed, 256, length, module.config.vocab_size)
    return Recipe(
        name="gpt2-small",
        module=module.train(),
        loss=None,
        optimizer=Adam(lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1, decoupled=True),
        data={"input_ids": ids, "labels": ids},
        steps=steps,
        batch_size=batch_size,
        seed=seed,
    )


def resnet50(steps: int = 100, batch_size: int = 16, seed: int = 0) -> Recipe:
    """ResNet-50 on 32 x 32 images of 10 classes, SGD with momentum."""
    hf = transformers()
    module = hf.ResNetForImageClassification(hf.ResNetConfig(num_labels=10))
    pixels, labels = synthetic.images(seed, 512, (3, 32, 32), 10)
    return Recipe(
        name="resnet50",
        module=module.train(),
        loss=None,
        optimizer=SGD(lr=0.05, momentum=0.9, weight_decay=5e-4),
        data={"pixel_values": pixels, "labels": labels},
        steps=steps,
        batch_size=batch_size,
        seed=seed,
    )


def distilbert(steps: int = 100, batch_size: int = 8, seed: int = 0, length: int = 128) -> Recipe:
    """DistilBERT (66M parameters) with a classification head, AdamW."""
    hf = transformers()
    module = hf.DistilBertForSequenceClassification(hf.DistilBertConfig(num_labels=2))
    ids, mask, labels = synthetic.sentences(seed, 512, length, module.config.vocab_size)
    return Recipe(
        name="distilbert",
        module=module.train(),
        loss=None,
        optimizer=Adam(lr=5e-5, weight_decay=0.01, decoupled=True),
        data={"input_ids": ids, "attention_mask": mask, "labels": labels},
        steps=steps,
        batch_size=batch_size,
        seed=seed,
    )
