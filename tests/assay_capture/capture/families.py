"""Small members of every family of models that capture must accept unchanged. No weights are downloaded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import peft
import torch
import transformers as hf
from torch import nn

from assay_capture.capture.recipes import synthetic

from . import eager

EXAMPLES = 32


@dataclass(frozen=True)
class Family:
    """A module in training mode, its data, and its loss (None: the module's own loss)."""

    module: nn.Module
    data: dict[str, np.ndarray[Any, Any]]
    loss: Callable[..., torch.Tensor] | None = None

    @property
    def objective(self) -> eager.Objective:
        return eager.own_loss if self.loss is None else eager.of(self.loss)


def logistic() -> Family:
    """Logistic regression with one score, trained with binary cross-entropy."""
    x, y = synthetic.images(1, EXAMPLES, (6,), 2)
    target = y[:, None].astype(np.float32)
    loss = nn.functional.binary_cross_entropy_with_logits
    return Family(nn.Linear(6, 1), {"x": x, "y": target}, loss)


def softmax_regression() -> Family:
    x, y = synthetic.images(2, EXAMPLES, (6,), 4)
    return Family(nn.Linear(6, 4), {"x": x, "y": y}, nn.functional.cross_entropy)


def vgg11(width: int = 4) -> Family:
    """VGG-11 for 32 x 32 images (Simonyan and Zisserman, configuration A), at a fraction of its width; no dropout."""
    layers: list[nn.Module] = []
    channels = 3
    for wide in (1, "M", 2, "M", 4, 4, "M", 8, 8, "M", 8, 8, "M"):
        if wide == "M":
            layers.append(nn.MaxPool2d(2))
            continue
        layers += [nn.Conv2d(channels, int(wide) * width, 3, padding=1), nn.ReLU(inplace=True)]
        channels = int(wide) * width
    head = [nn.Linear(channels, 32), nn.ReLU(inplace=True), nn.Linear(32, 4)]
    x, y = synthetic.images(3, EXAMPLES, (3, 32, 32), 4)
    module = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), *head)
    for layer in module:
        if isinstance(layer, nn.Conv2d | nn.Linear):  # with the default initial weights it does not learn
            nn.init.kaiming_normal_(layer.weight)
    return Family(module, {"x": x, "y": y}, nn.functional.cross_entropy)


def resnet() -> Family:
    """Bottleneck blocks and batch norm with running statistics, as in ResNet-50."""
    config = hf.ResNetConfig(
        embedding_size=8, hidden_sizes=[16, 32], depths=[1, 2], layer_type="bottleneck", num_labels=4
    )
    x, y = synthetic.images(4, EXAMPLES, (3, 32, 32), 4)
    return Family(hf.ResNetForImageClassification(config), {"pixel_values": x, "labels": y})


def gpt2(dropout: float = 0.0) -> Family:
    """A language model whose head is tied to its embedding."""
    config = hf.GPT2Config(
        vocab_size=200,
        n_layer=2,
        n_embd=32,
        n_head=4,
        n_positions=32,
        **dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), dropout),
    )
    ids = synthetic.tokens(5, EXAMPLES, 16, 200)
    return Family(hf.GPT2LMHeadModel(config), {"input_ids": ids, "labels": ids})


def distilbert(dropout: float = 0.0) -> Family:
    config = hf.DistilBertConfig(
        vocab_size=200,
        n_layers=2,
        dim=32,
        hidden_dim=64,
        n_heads=4,
        max_position_embeddings=32,
        num_labels=2,
        **dict.fromkeys(("dropout", "attention_dropout", "seq_classif_dropout"), dropout),
    )
    ids, mask, labels = synthetic.sentences(6, EXAMPLES, 16, 200)
    data = {"input_ids": ids, "attention_mask": mask, "labels": labels}
    return Family(hf.DistilBertForSequenceClassification(config), data)


def llama_module() -> nn.Module:
    config = hf.LlamaConfig(
        vocab_size=200,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
    )
    return hf.LlamaForCausalLM(config)


def padded() -> dict[str, np.ndarray[Any, Any]]:
    """Return sequences of different lengths; padding is masked, and -100 in the labels."""
    ids = synthetic.tokens(7, EXAMPLES, 16, 200)
    mask = (np.arange(16) < synthetic.integers(7, "length", (EXAMPLES, 1), 8) + 9).astype(np.int64)
    return {"input_ids": ids * mask, "attention_mask": mask, "labels": np.where(mask == 1, ids, -100)}


def llama() -> Family:
    """Rotary embeddings, RMSNorm, grouped queries, padding."""
    return Family(llama_module(), padded())


def lora() -> Family:
    """Low-rank adapters on a frozen Llama."""
    config = peft.LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    return Family(peft.get_peft_model(llama_module(), config), padded())


FAMILIES: dict[str, Callable[[], Family]] = {
    "logistic regression": logistic,
    "softmax regression": softmax_regression,
    "vgg11": vgg11,
    "resnet": resnet,
    "gpt2": gpt2,
    "distilbert": distilbert,
    "llama": llama,
    "llama with lora": lora,
}


def family(name: str, seed: int = 0) -> Family:
    """Build a family with weights from torch's generator at a fixed seed."""
    torch.manual_seed(seed)
    made = FAMILIES[name]()
    made.module.train()
    return made
