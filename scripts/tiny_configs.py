"""Small configurations of any family of `transformers`, by the names of their numbers.

A configuration is shrunk by rules; where the model of it cannot be made, only depth and vocabulary are.
"""

from __future__ import annotations

import re
import warnings
from typing import Any

import torch
import transformers
from transformers import CONFIG_MAPPING

MOST_PARAMETERS = 60_000_000
WIDTH, HEADS, LAYERS, WORDS, PLACES = 32, 4, 2, 100, 64
_DEPTH: dict[str, int] = {
    r"(num_hidden_layers|num_layers|n_layers?|depth)": LAYERS,
    r"((num_)?(encoder|decoder|text|vision)_?(hidden_)?layers|num_(encoder|decoder)_blocks)": LAYERS,
    r"vocab_size.*|.*_vocab_size|n_words|max_2d_position_embeddings": WORDS,
    r"num_labels": 2,
    r"(num_)?mtp.*layers|num_nextn_predict_layers": 0,
}
_WIDTHS: dict[str, int] = {
    r"hidden_size|d_model|n_embd|dim|embed_dim|emb_dim|embedding_size|text_embed_dim|d_embed|hidden_dim_text": WIDTH,
    r"embed_proj_dim|word_embed_proj_dim|projection_dim": WIDTH,
    r"(encoder|decoder)_hidden_size|cross_attention_hidden_size|pooler_hidden_size": WIDTH,
    r"intermediate_size|n_inner|d_ff|hidden_dim|ffn_dim|.*_ffn_dim|ffn_hidden_size|moe_.*intermediate_size": 2
    * WIDTH,
    r".*_intermediate_size|intermediate_size_.*|d_inner|mlp_dim": 2 * WIDTH,
    r"num_attention_heads|n_heads?|num_heads|(encoder|decoder)_attention_heads|num_.*attention_heads": HEADS,
    r"head_dim|d_kv|d_head|attention_head_size|global_head_dim|kv_channels": WIDTH // HEADS,
    r"qk_nope_head_dim|qk_rope_head_dim|v_head_dim|qk_head_dim|index_head_dim": WIDTH // HEADS,
    r"(q|kv|o)_lora_rank": WIDTH // 2,
    r"max_position_embeddings|n_positions|n_ctx|max_seq(uence)?_len(gth)?|max_source_positions": PLACES,
    r"(num|n)_(local_|routed_)?experts|moe_num_experts": 4,
    r"(num_experts_per_tok|moe_k|top_k_experts|moe_topk|num_selected_experts)": 2,
    r"n_group|topk_group|num_expert_groups": 1,
    r"image_size": 32,
    r"patch_size": 8,
    r"(attention_)?window_size|sliding_window|local_attention|attention_chunk_size": 8,
}
_KEPT = ("num_key_value_heads", "num_kv_heads", "multi_query_group_num")
_DERIVED = (
    "transformers_version",
    "model_type",
    "architectures",
    "out_features",
    "out_indices",
    "stage_names",
)
_MARKED = re.compile(r".*_token_id|.*_token_index")


class NotTiny(Exception):
    """No small model of the family could be made."""


def tiny_model(family: str, cls: str, image: int) -> torch.nn.Module:
    """Return a small model of a class, in training mode. Raises NotTiny, with the reason."""
    maker = getattr(transformers, cls, None)
    if maker is None:
        raise NotTiny(f"transformers has no {cls}")
    reasons = []
    for shrink in (_small, _shallow):
        try:
            config = shrink(_config(family, maker), image)
            with torch.device("meta"):
                size = sum(p.numel() for p in maker(config).parameters())
            if size > MOST_PARAMETERS:
                raise NotTiny(f"{size:,} parameters of {MOST_PARAMETERS:,}")
            model: torch.nn.Module = maker(config).float().train()
            return model
        except Exception as error:
            reasons.append(f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
    raise NotTiny("; ".join(dict.fromkeys(reasons))[:300])


def _config(family: str, maker: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = getattr(maker, "config_class", None) or CONFIG_MAPPING[family]
        return made()


def _small(config: Any, image: int) -> Any:
    plain = {"num_attention_heads": HEADS, "head_dim": WIDTH // HEADS, "image_size": image}
    return _shrunk(config, {**plain, **_DEPTH, **_WIDTHS})


def _shallow(config: Any, image: int) -> Any:  # noqa: ARG001  (both have one signature)
    return _shrunk(config, _DEPTH)


def _shrunk(config: Any, rules: dict[str, int]) -> Any:
    """Return the configuration with numbers by the rules, and the configurations inside it, too."""
    given = config.to_dict()
    changed: dict[str, Any] = {}
    for name, value in given.items():
        inner = getattr(config, name, None)
        if isinstance(inner, transformers.PretrainedConfig):
            changed[name] = _shrunk(inner, rules).to_dict()
        elif name in _KEPT and isinstance(value, int | None):
            heads = given.get("num_attention_heads") or HEADS
            few = rules.get("num_attention_heads", heads)
            changed[name] = few if value in (None, heads) else min(value, max(few // 2, 1))
        elif name == "pad_token_id" and value is None:  # which classes of sequences ask for
            changed[name] = 0
        elif value is None and name in ("vocab_size", "head_dim"):
            changed[name] = WORDS if name == "vocab_size" else rules.get("head_dim")
        elif isinstance(value, int) and not isinstance(value, bool):
            rule = next((new for pattern, new in rules.items() if re.fullmatch(pattern, name)), value)
            changed[name] = min(rule, value) if value > 0 else value
            if _MARKED.fullmatch(name) and value >= WORDS:
                changed[name] = 1
    layers = changed.get("num_hidden_layers", given.get("num_hidden_layers"))
    for name, value in given.items():
        if name in ("layer_types", "mlp_layer_types", "layers_block_type", "attention_types") and isinstance(
            value, list
        ):
            changed[name] = _spread(value, layers) if isinstance(layers, int) else value
        if re.fullmatch(r"depths?|num_layers|.*_depths?|num_blocks", name) and isinstance(
            value, list | tuple
        ):
            changed[name] = [min(v, 1) if isinstance(v, int) else v for v in value]
    if "attention_types" in given:  # of GPT-Neo, which repeats kinds
        changed["attention_types"] = [[["global", "local"], 1]]
    made = type(config)(**{**_settable(given), **changed})
    if getattr(made, "is_encoder_decoder", False) and getattr(made, "decoder_start_token_id", None) is None:
        made.decoder_start_token_id = 0
    return made


def _settable(given: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name not in _DERIVED}


def _spread(kinds: list[Any], count: int) -> list[Any]:
    """Return `count` kinds of layers, different ones if there are some."""
    different = list(dict.fromkeys(map(str, kinds)))
    found = [next(kind for kind in kinds if str(kind) == name) for name in different][:count]
    return (found + kinds)[:count]
