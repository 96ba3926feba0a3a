"""Mixtures of experts as their authors wrote them: with places for all tokens, their gradients are those of PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf

from assay_capture.capture import SGD, capture
from assay_capture.capture.replacements import experts
from assay_capture.capture.seeded import data_order

from .. import eager

TOKENS = np.random.default_rng(1).integers(0, 64, (8, 12))
DATA = {"input_ids": TOKENS, "labels": TOKENS}
ORDER = data_order(0, 8, 4, 4)
BASE: dict[str, Any] = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "num_experts_per_tok": 2,
}


def gpt_oss() -> Any:
    kinds = ["sliding_attention", "full_attention"]
    return hf.GptOssForCausalLM(
        hf.GptOssConfig(**BASE, head_dim=8, num_local_experts=4, layer_types=kinds, sliding_window=8)
    )


def deepseek() -> Any:
    sizes = {
        "qk_rope_head_dim": 8,
        "qk_nope_head_dim": 8,
        "v_head_dim": 8,
        "q_lora_rank": 16,
        "kv_lora_rank": 16,
    }
    groups = {"n_routed_experts": 8, "n_shared_experts": 1, "n_group": 2, "topk_group": 1}
    base = {**BASE, "num_key_value_heads": 4}
    return hf.DeepseekV3ForCausalLM(
        hf.DeepseekV3Config(**base, **sizes, **groups, moe_intermediate_size=24, first_k_dense_replace=1)
    )


def qwen3() -> Any:
    """With the loss that balances the experts' loads."""
    return hf.Qwen3MoeForCausalLM(
        hf.Qwen3MoeConfig(
            **BASE, head_dim=8, moe_intermediate_size=24, num_experts=8, output_router_logits=True
        )
    )


QUICK = ("mixtral", "gpt-oss", "granite")
"""The other ones are slow tests."""

MODELS: dict[str, Callable[[], Any]] = {
    "mixtral": lambda: hf.MixtralForCausalLM(hf.MixtralConfig(**BASE, num_local_experts=4)),
    "olmoe": lambda: hf.OlmoeForCausalLM(hf.OlmoeConfig(**BASE, num_experts=8)),
    "qwen2": lambda: hf.Qwen2MoeForCausalLM(
        hf.Qwen2MoeConfig(**BASE, moe_intermediate_size=24, shared_expert_intermediate_size=24, num_experts=8)
    ),
    "qwen3": qwen3,
    "gpt-oss": gpt_oss,
    "deepseek": deepseek,
    "granite": lambda: hf.GraniteMoeForCausalLM(hf.GraniteMoeConfig(**BASE, num_local_experts=4)),
}


def model(name: str) -> Any:
    torch.manual_seed(0)
    return MODELS[name]().train()


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in MODELS]
)
def test_gradients_are_those_of_fp64(name: str) -> None:
    module = model(name)
    built = capture(module, None, SGD(0.1), DATA, ORDER, gradients=True)
    module.config._experts_implementation = "eager"  # the form that PyTorch has for FP64
    eager.check_gradients(built, module, eager.own_loss, DATA, ORDER, 1e-5)


def test_a_run_stays_with_eager_pytorch() -> None:
    module = model("mixtral")
    built = capture(module, None, SGD(0.1), DATA, ORDER)
    ours, _ = eager.run_program(built, 4)
    module.config._experts_implementation = "eager"
    optimizer = torch.optim.SGD(module.parameters(), 0.1)
    np.testing.assert_allclose(
        ours, eager.run_eager(module, eager.own_loss, optimizer, DATA, ORDER), rtol=1e-4
    )


def test_a_full_expert_leaves_tokens_out() -> None:
    """Sixteen tokens choose the first of four experts: with half of an even share of places, two are computed."""
    torch.manual_seed(0)
    layer = hf.models.mixtral.modeling_mixtral.MixtralExperts(hf.MixtralConfig(**BASE, num_local_experts=4))
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter)
    x, chosen, weights = torch.randn(16, 32), torch.zeros(16, 1, dtype=torch.long), torch.ones(16, 1)
    whole = experts.experts_forward(layer, x, chosen, weights)
    with experts.capacity(0.5):
        some = experts.experts_forward(layer, x, chosen, weights)
    torch.testing.assert_close(some[:2], whole[:2])
    assert whole[2:].abs().min() > 0
    assert not some[2:].any()
