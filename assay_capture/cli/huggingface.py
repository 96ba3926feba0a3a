"""Flags of `assay program build` for a model of transformers in a local folder."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from referee_py.errors import InvalidInput
from trainer_node.cli.flags import flag

_option = functools.partial(flag, panel="Models of transformers")
FLAGS: dict[str, Any] = {
    "hf": _option(
        Path, "--hf", "Folder of the model: config.json, safetensors, tokenizer. Only JOB follows."
    ),
    "task": _option(
        str,
        "--task",
        "causal-lm, masked-lm, seq2seq-lm, sequence-classification, token-classification or image-classification.",
    ),
    "arguments": _option(Path, "--arguments", "YAML file with TrainingArguments by name."),
    "lora": _option(str, "--lora", "Train adapters: r=16,alpha=32,targets=q_proj,v_proj."),
    "max_length": _option(int, "--max-length", "Most tokens of a row.", min=2),
    "packing": _option(bool, "--packing", "Fill each row with several texts (causal-lm)."),
    "dtype": _option(str, "--dtype", "Weights: float32 (the default) or bfloat16."),
}


def from_folder(given: dict[str, Any], steps: int | None, seed: int | None) -> Any:
    """Return the recipe of a model in a folder. Raises InvalidInput if an option is missing or does not apply."""
    if foreign := sorted(set(given) - set(FLAGS) - {"data"}):
        raise InvalidInput(f"--{foreign[0].replace('_', '-')} is for ONNX files; with --hf, use --arguments")
    for name in ("task", "data"):
        if name not in given:
            raise InvalidInput(f"{given['hf']} does not give {name}; add --{name}")
    from ..huggingface.folder import Source
    from ..huggingface.lora import Lora

    return Source(
        given["hf"],
        given["task"],
        given["data"],
        given.get("arguments"),
        Lora.parse(given["lora"]) if "lora" in given else None,
        given.get("max_length"),
        given.get("packing", False),
        given.get("dtype", "float32"),
    ).recipe(steps, seed)
