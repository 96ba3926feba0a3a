"""More architectures of `transformers`, unchanged: capture has no code for any of them.

`make test` runs four, `make test-all` all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf
from torch import nn

from assay_capture.capture import SGD, capture
from assay_capture.capture.recipes import synthetic
from assay_capture.capture.seeded import data_order

from . import eager

VOCABULARY, LENGTH, EXAMPLES = 100, 12, 8
ORDER = data_order(0, EXAMPLES, 4, 1)
Data = dict[str, np.ndarray[Any, Any]]

IDS = synthetic.tokens(0, EXAMPLES, LENGTH, VOCABULARY - 2) + 2
MASK = (np.arange(LENGTH) < synthetic.integers(7, "length", (EXAMPLES, 1), 6) + 7).astype(np.int64)
CLASSES = synthetic.integers(1, "classes", (EXAMPLES,), 3)
LANGUAGE = {"input_ids": IDS, "attention_mask": MASK, "labels": np.where(MASK == 1, IDS, -100)}
SENTENCES = {"input_ids": IDS, "attention_mask": MASK, "labels": CLASSES}
IMAGES: Data = {"pixel_values": synthetic.images(0, EXAMPLES, (3, 32, 32), 3)[0], "labels": CLASSES}

WIDE = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
WORDS = {"vocab_size": VOCABULARY, **WIDE}
CALM = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
GROUPED = {"num_key_value_heads": 2}
PATCHES = {"image_size": 32, "patch_size": 8, "num_labels": 3, **WIDE, **CALM}

Model = Callable[[], nn.Module]
MODELS: dict[str, tuple[Data, Model]] = {
    "bert": (
        SENTENCES,
        lambda: hf.BertForSequenceClassification(hf.BertConfig(**WORDS, **CALM, num_labels=3)),
    ),
    "t5": (
        LANGUAGE,
        lambda: hf.T5ForConditionalGeneration(
            hf.T5Config(
                vocab_size=VOCABULARY,
                d_model=32,
                d_kv=8,
                d_ff=64,
                num_layers=2,
                num_heads=4,
                dropout_rate=0.0,
                decoder_start_token_id=0,
            )
        ),
    ),
    "swin": (
        IMAGES,
        lambda: hf.SwinForImageClassification(
            hf.SwinConfig(
                image_size=32,
                patch_size=2,
                embed_dim=8,
                depths=[2, 2],
                num_heads=[2, 2],
                window_size=4,
                num_labels=3,
                drop_path_rate=0.0,
                **CALM,
            )
        ),
    ),
    "gpt-j": (
        LANGUAGE,
        lambda: hf.GPTJForCausalLM(
            hf.GPTJConfig(
                vocab_size=VOCABULARY,
                n_embd=32,
                n_layer=2,
                n_head=4,
                rotary_dim=4,
                n_positions=32,
                resid_pdrop=0.0,
                embd_pdrop=0.0,
                attn_pdrop=0.0,
            )
        ),
    ),
    "bert, masked": (LANGUAGE, lambda: hf.BertForMaskedLM(hf.BertConfig(**WORDS, **CALM))),
    "roberta": (
        LANGUAGE,
        lambda: hf.RobertaForMaskedLM(
            hf.RobertaConfig(**WORDS, **CALM, max_position_embeddings=40, pad_token_id=1)
        ),
    ),
    "electra": (
        SENTENCES,
        lambda: hf.ElectraForSequenceClassification(
            hf.ElectraConfig(**WORDS, **CALM, embedding_size=16, num_labels=3)
        ),
    ),
    "albert": (
        SENTENCES,
        lambda: hf.AlbertForSequenceClassification(
            hf.AlbertConfig(**WORDS, **CALM, embedding_size=16, num_labels=3, classifier_dropout_prob=0.0)
        ),
    ),
    "mistral": (
        LANGUAGE,
        lambda: hf.MistralForCausalLM(hf.MistralConfig(**WORDS, **GROUPED, sliding_window=4)),
    ),
    "qwen2": (LANGUAGE, lambda: hf.Qwen2ForCausalLM(hf.Qwen2Config(**WORDS, **GROUPED))),
    "qwen3": (LANGUAGE, lambda: hf.Qwen3ForCausalLM(hf.Qwen3Config(**WORDS, **GROUPED, head_dim=8))),
    "gemma": (LANGUAGE, lambda: hf.GemmaForCausalLM(hf.GemmaConfig(**WORDS, **GROUPED, head_dim=8))),
    "gemma 2": (LANGUAGE, lambda: hf.Gemma2ForCausalLM(hf.Gemma2Config(**WORDS, **GROUPED, head_dim=8))),
    "phi": (LANGUAGE, lambda: hf.PhiForCausalLM(hf.PhiConfig(**WORDS, resid_pdrop=0.0, embd_pdrop=0.0))),
    "phi 3": (LANGUAGE, lambda: hf.Phi3ForCausalLM(hf.Phi3Config(**WORDS, **GROUPED, pad_token_id=0))),
    "gpt-neox": (LANGUAGE, lambda: hf.GPTNeoXForCausalLM(hf.GPTNeoXConfig(**WORDS))),
    "opt": (
        LANGUAGE,
        lambda: hf.OPTForCausalLM(
            hf.OPTConfig(
                vocab_size=VOCABULARY,
                hidden_size=32,
                ffn_dim=64,
                num_hidden_layers=2,
                num_attention_heads=4,
                max_position_embeddings=32,
                dropout=0.0,
                word_embed_proj_dim=32,
            )
        ),
    ),
    "bloom": (
        LANGUAGE,
        lambda: hf.BloomForCausalLM(
            hf.BloomConfig(
                vocab_size=VOCABULARY,
                hidden_size=32,
                n_layer=2,
                n_head=4,
                hidden_dropout=0.0,
                attention_dropout=0.0,
            )
        ),
    ),
    "bart": (
        LANGUAGE,
        lambda: hf.BartForConditionalGeneration(
            hf.BartConfig(
                vocab_size=VOCABULARY,
                d_model=32,
                encoder_layers=2,
                decoder_layers=2,
                encoder_attention_heads=4,
                decoder_attention_heads=4,
                encoder_ffn_dim=64,
                decoder_ffn_dim=64,
                max_position_embeddings=32,
                dropout=0.0,
            )
        ),
    ),
    "vit": (IMAGES, lambda: hf.ViTForImageClassification(hf.ViTConfig(**PATCHES))),
    "deit": (IMAGES, lambda: hf.DeiTForImageClassification(hf.DeiTConfig(**PATCHES))),
    "convnext": (
        IMAGES,
        lambda: hf.ConvNextForImageClassification(
            hf.ConvNextConfig(hidden_sizes=[8, 16, 16, 16], depths=[1, 1, 1, 1], num_labels=3)
        ),
    ),
    "mobilenet": (
        IMAGES,
        lambda: hf.MobileNetV2ForImageClassification(
            hf.MobileNetV2Config(num_labels=3, classifier_dropout_prob=0.0, depth_multiplier=0.35)
        ),
    ),
    "regnet": (
        IMAGES,
        lambda: hf.RegNetForImageClassification(
            hf.RegNetConfig(
                embedding_size=8, hidden_sizes=[8, 16, 16, 16], depths=[1] * 4, groups_width=8, num_labels=3
            )
        ),
    ),
}

QUICK = ("bert", "gpt-j")
BATCH_NORM = (
    "mobilenet",
    "regnet",
)  # a variance over few numbers amplifies rounding: for these, as near as eager FP32


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in MODELS]
)
def test_gradients_are_those_of_fp64(name: str) -> None:
    data, make = MODELS[name]
    torch.manual_seed(0)
    module = make().train()
    built = capture(module, None, SGD(0.1), data, ORDER, gradients=True)
    tolerance = 1e-5
    if name in BATCH_NORM:
        exact = eager.gradients_f64(module, eager.own_loss, data, ORDER)[1]
        single = eager.gradients_f32(module, eager.own_loss, data, ORDER)
        tolerance = 4 * eager.relative_error(single, exact)
    eager.check_gradients(built, module, eager.own_loss, data, ORDER, tolerance)
