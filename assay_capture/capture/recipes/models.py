"""Built-in recipes of models, full-size and tiny, on synthetic data. Nothing is downloaded.

Those of `transformers` are built from a configuration, with the library's own code and loss.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import nn

from referee_py.commit.tensor import Array

from ..errors import CaptureError
from ..optimizers import SGD, Adam, Groups, Optimizer, Parameter
from ..recipe import Recipe
from . import synthetic

EXAMPLES = 512


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise CaptureError(f"this recipe needs {name}; install the extra [models]") from error


def decayed(lr: float, decay: float, betas: tuple[float, float] = (0.9, 0.999)) -> Optimizer:
    """Return AdamW with weight decay on matrices only, not on biases and norms."""
    matrices = Adam(lr=lr, betas=betas, weight_decay=decay, decoupled=True)
    others = Adam(lr=lr, betas=betas)
    return Groups([(matrices, _is_matrix), (others, lambda _: True)])


def _is_matrix(p: Parameter) -> bool:
    return p.value.rank > 1


# ------------------------------------------------------------------------------------------ regression, images


def logistic(steps: int = 100, batch_size: int = 16, seed: int = 0) -> Recipe:
    """Logistic regression on 20 numbers."""
    x, y = synthetic.images(seed, EXAMPLES, (20,), 2)
    return Recipe(
        name="logistic",
        module=nn.Linear(20, 1),
        loss=nn.functional.binary_cross_entropy_with_logits,
        optimizer=SGD(lr=0.1),
        data={"x": x, "y": y[:, None].astype(np.float32)},
        steps=steps,
        batch_size=batch_size,
        seed=seed,
    )


def vgg11(steps: int = 100, batch_size: int = 16, seed: int = 0) -> Recipe:
    """VGG-11 (Simonyan and Zisserman, configuration A) for 32 x 32 images, with batch norm and dropout."""
    layers: list[nn.Module] = []
    channels = 3
    for wide in (64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0):
        if wide:
            convolution = nn.Conv2d(channels, wide, 3, padding=1, bias=False)
            layers += [convolution, nn.BatchNorm2d(wide), nn.ReLU(inplace=True)]
            channels = wide
        else:
            layers.append(nn.MaxPool2d(2))
    head = [nn.Linear(512, 512), nn.ReLU(inplace=True), nn.Dropout(0.5), nn.Linear(512, 10)]
    pixels, labels = synthetic.images(seed, EXAMPLES, (3, 32, 32), 10)
    return Recipe(
        name="vgg11",
        module=nn.Sequential(*layers, nn.Flatten(), *head),
        loss=nn.functional.cross_entropy,
        optimizer=SGD(lr=0.01, momentum=0.9, weight_decay=5e-4),
        data={"x": pixels, "y": labels},
        steps=steps,
        batch_size=batch_size,
        seed=seed,
    )


def _resnet(name: str, optimizer: Optimizer, steps: int, batch_size: int, seed: int, **config: Any) -> Recipe:
    hf = _library("transformers")
    pixels, labels = synthetic.images(seed, EXAMPLES, (3, 32, 32), 10)
    return _own_loss(
        name,
        hf.ResNetForImageClassification(hf.ResNetConfig(num_labels=10, **config)),
        optimizer,
        {"pixel_values": pixels, "labels": labels},
        (steps, batch_size, seed),
    )


def resnet50(steps: int = 100, batch_size: int = 16, seed: int = 0) -> Recipe:
    """ResNet-50 (24M parameters) on 32 x 32 images of 10 classes, SGD with momentum."""
    return _resnet("resnet50", SGD(lr=0.05, momentum=0.9, weight_decay=5e-4), steps, batch_size, seed)


def resnet_tiny(steps: int = 100, batch_size: int = 16, seed: int = 0) -> Recipe:
    """Three narrow bottleneck blocks like those of ResNet-50."""
    small = {"embedding_size": 8, "hidden_sizes": [16, 32], "depths": [1, 2]}
    return _resnet("resnet-tiny", SGD(lr=0.02, momentum=0.9), steps, batch_size, seed, **small)


# ----------------------------------------------------------------------------------------------------- language


def _own_loss(
    name: str, module: nn.Module, optimizer: Optimizer, data: Mapping[str, Array], size: tuple[int, int, int]
) -> Recipe:
    """Return the recipe of a model that computes its own loss; `size` is (steps, batch size, seed)."""
    return Recipe(name, module.train(), None, optimizer, data, *size)


def _language(seed: int, length: int, vocabulary: int) -> dict[str, Array]:
    ids = synthetic.tokens(seed, EXAMPLES, length, vocabulary)
    return {"input_ids": ids, "labels": ids}


def gpt2_small(steps: int = 100, batch_size: int = 4, seed: int = 0, length: int = 128) -> Recipe:
    """GPT-2 small (124M parameters), AdamW."""
    hf = _library("transformers")
    module = hf.GPT2LMHeadModel(hf.GPT2Config(use_cache=False))
    data = _language(seed, length, module.config.vocab_size)
    return _own_loss("gpt2-small", module, decayed(6e-4, 0.1, (0.9, 0.95)), data, (steps, batch_size, seed))


def gpt2_tiny(steps: int = 100, batch_size: int = 8, seed: int = 0, length: int = 32) -> Recipe:
    """GPT-2 with two layers of width 64, AdamW."""
    hf = _library("transformers")
    # NOTE: the tokens that begin and end a text by default are beyond this vocabulary.
    ends = {"bos_token_id": None, "eos_token_id": None}
    config = hf.GPT2Config(
        vocab_size=256, n_layer=2, n_embd=64, n_head=4, n_positions=max(64, length), use_cache=False, **ends
    )
    data = _language(seed, length, 256)
    optimizer = decayed(3e-3, 0.1, (0.9, 0.95))
    return _own_loss("gpt2-tiny", hf.GPT2LMHeadModel(config), optimizer, data, (steps, batch_size, seed))


def gpt2_tiny_bf16(steps: int = 100, batch_size: int = 8, seed: int = 0, length: int = 32) -> Recipe:
    """`gpt2_tiny` as inside torch.autocast(dtype=torch.bfloat16): weights are f32, products bf16."""
    recipe = gpt2_tiny(steps, batch_size, seed, length)
    return replace(recipe, name="gpt2-tiny-bf16", autocast=torch.bfloat16)


def _llama() -> nn.Module:
    """Build two layers of width 64, with two queries to a key."""
    hf = _library("transformers")
    config = hf.LlamaConfig(
        vocab_size=256,
        hidden_size=64,
        intermediate_size=176,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=128,
        use_cache=False,
    )
    module: nn.Module = hf.LlamaForCausalLM(config)
    return module


def llama_tiny(steps: int = 100, batch_size: int = 8, seed: int = 0, length: int = 32) -> Recipe:
    """Llama with two layers of width 64 and grouped queries, AdamW."""
    size = (steps, batch_size, seed)
    return _own_loss("llama-tiny", _llama(), decayed(3e-3, 0.1), _language(seed, length, 256), size)


def llama_100m(steps: int = 100, batch_size: int = 4, seed: int = 0, length: int = 128) -> Recipe:
    """Llama of twelve layers of width 768 with grouped queries and a tied head (107M parameters), AdamW."""
    hf = _library("transformers")
    config = hf.LlamaConfig(
        vocab_size=32000,
        hidden_size=768,
        intermediate_size=2304,
        num_hidden_layers=12,
        num_attention_heads=12,
        num_key_value_heads=4,
        max_position_embeddings=1024,
        tie_word_embeddings=True,
        use_cache=False,
    )
    module, size = hf.LlamaForCausalLM(config), (steps, batch_size, seed)
    data = _language(seed, length, config.vocab_size)
    return _own_loss("llama-100m", module, decayed(3e-4, 0.1), data, size)


def llama_lora_tiny(steps: int = 100, batch_size: int = 8, seed: int = 0, length: int = 32) -> Recipe:
    """Low-rank adapters on all projections of a frozen tiny Llama: only the adapters are in the state."""
    peft, base = _library("peft"), _llama()
    config = peft.LoraConfig(r=8, lora_alpha=16, target_modules="all-linear", task_type="CAUSAL_LM")
    size = (steps, batch_size, seed)
    module = peft.get_peft_model(base, config)
    return _own_loss("llama-lora-tiny", module, Adam(lr=1e-2), _language(seed, length, 256), size)


def llama_lora_tiny_bf16(steps: int = 100, batch_size: int = 8, seed: int = 0, length: int = 32) -> Recipe:
    """`llama_lora_tiny` with its frozen weights in bfloat16, inside torch.autocast; the adapters are f32."""
    recipe = llama_lora_tiny(steps, batch_size, seed, length)
    for parameter in recipe.module.parameters():
        if not parameter.requires_grad:
            parameter.data = parameter.data.bfloat16()
    return replace(recipe, name="llama-lora-tiny-bf16", autocast=torch.bfloat16)


def _distilbert(name: str, config: Any, lr: float, length: int, size: tuple[int, int, int]) -> Recipe:
    hf = _library("transformers")
    module = hf.DistilBertForSequenceClassification(config)
    ids, mask, labels = synthetic.sentences(size[2], EXAMPLES, length, config.vocab_size)
    data = {"input_ids": ids, "attention_mask": mask, "labels": labels}
    return _own_loss(name, module, decayed(lr, 0.01), data, size)


def distilbert(steps: int = 100, batch_size: int = 8, seed: int = 0, length: int = 128) -> Recipe:
    """DistilBERT (66M parameters) with a classification head, AdamW."""
    config = _library("transformers").DistilBertConfig(num_labels=2)
    return _distilbert("distilbert", config, 5e-5, length, (steps, batch_size, seed))


def distilbert_tiny(steps: int = 100, batch_size: int = 16, seed: int = 0, length: int = 16) -> Recipe:
    """DistilBERT with two layers of width 32."""
    config = _library("transformers").DistilBertConfig(
        vocab_size=64,
        n_layers=2,
        dim=32,
        hidden_dim=64,
        n_heads=4,
        max_position_embeddings=max(32, length),
        num_labels=2,
    )
    return _distilbert("distilbert-tiny", config, 3e-3, length, (steps, batch_size, seed))
