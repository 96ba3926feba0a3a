"""Trainers of tiny models that really train, and the programs captured from them. Nothing is downloaded."""

from __future__ import annotations

import string
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import repops
import torch
import transformers as hf
from tokenizers import Tokenizer, models, pre_tokenizers

from referee_py.commit.tensor import Array
from referee_py.execute import FastExecutor, Run, machine_for
from trainer_node.local.bundle import Bundle

WORDS = list(string.ascii_lowercase)
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "</s>", *WORDS]
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def tokenizer(**options: Any) -> Any:
    """Return a tokenizer of single letters."""
    words = Tokenizer(models.WordLevel({word: k for k, word in enumerate(VOCABULARY)}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return hf.PreTrainedTokenizerFast(
        tokenizer_object=words,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        eos_token="</s>",
        **options,
    )


def sentences(count: int, longest: int, seed: int = 0) -> list[list[int]]:
    """Return lists of tokens of different lengths. Each token follows from the one before: there is a rule to learn."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        start, step = rng.integers(0, 26), rng.integers(1, 4)
        found.append([6 + int(start + k * step) % 26 for k in range(rng.integers(3, longest + 1))])
    return found


def arguments(folder: Path, kind: Any = hf.TrainingArguments, **given: Any) -> Any:
    """Return TrainingArguments that report the loss of every step and write nothing."""
    base = {
        "output_dir": str(folder / "out"),
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": "none",
        "use_cpu": True,
        "disable_tqdm": True,
        "per_device_train_batch_size": 4,
        "max_steps": 8,
        "learning_rate": 5e-3,
    }
    return kind(**(base | given))


def run(bundle: Bundle) -> tuple[list[float], list[Array]]:
    """Run a bundle as an honest trainer does; return the loss of every step, and the slots after the last."""
    backend = repops.backend("cpu")
    machine = machine_for(backend)
    assert machine is not None
    executor = FastExecutor(bundle.program, bundle.constants, backend, bundle.metrics, machine)
    terms = bundle.terms
    whole = Run.of(
        bundle,
        backend,
        executor=executor,
    )
    losses: list[float] = []
    state = whole.advance(
        whole.initial(), terms.steps, lambda *_: losses.append(float(executor.latest["loss"]))
    )
    return losses, list(state.arrays)


def reported(trainer: Any) -> list[float]:
    """Return the loss of every step, as `train()` logged it."""
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


def put(module: torch.nn.Module, bundle: Bundle, arrays: Sequence[Array]) -> None:
    """Write the trained state into a module."""
    own = dict(module.named_parameters()) | dict(module.named_buffers())
    with torch.no_grad():
        for label, array in zip(bundle.labels["slots"], arrays, strict=True):
            kind, _, name = label.partition(".")
            if kind in ("param", "buffer"):
                own[name].copy_(torch.from_numpy(array))


def gpt2(**options: Any) -> Any:
    torch.manual_seed(1)
    base = {"n_layer": 2, "n_embd": 32, "n_head": 4, "n_positions": 64, "vocab_size": len(VOCABULARY)}
    without = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    return hf.GPT2LMHeadModel(hf.GPT2Config(**(base | without | options)))


def llama(**options: Any) -> Any:
    torch.manual_seed(2)
    return hf.LlamaForCausalLM(
        hf.LlamaConfig(
            vocab_size=len(VOCABULARY),
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=64,
            pad_token_id=0,
            eos_token_id=5,
            bos_token_id=2,
            **options,
        )
    )


def bert(kind: Any, **options: Any) -> Any:
    torch.manual_seed(3)
    config = hf.BertConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=32,
        **NO_DROPOUT,
        **options,
    )
    return kind(config)
