"""Names of the built-in recipes, for those who must not wait until torch is loaded: a shell that completes them."""

from __future__ import annotations

DIGITS = ("digits-mlp", "digits-mlp-adam", "digits-mlp-bf16", "digits-cnn")
"""Functions of `capture.recipes.digits`, with an underscore for each hyphen."""
MODELS = (
    "logistic",
    "vgg11",
    "resnet-tiny",
    "resnet50",
    "gpt2-tiny",
    "gpt2-tiny-bf16",
    "gpt2-small",
    "llama-100m",
    "distilbert-tiny",
    "distilbert",
    "llama-tiny",
    "llama-lora-tiny",
    "llama-lora-tiny-bf16",
)
"""Functions of `capture.recipes.models`."""
