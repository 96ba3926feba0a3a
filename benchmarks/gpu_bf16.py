"""Training in bf16 in the mode tc16 on a GPU: the roots of the processor, and the time of eager autocast.

Needs what `gpu_steps` needs. A program's products are of bf16 as inside torch.autocast; the rest is f32.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Any

import torch
from repops.sums import SumMode

from assay_capture.capture import Recipe, build
from assay_capture.capture.recipes import synthetic
from assay_capture.capture.recipes.models import decayed
from trainer_node.local.bundle import Bundle

from .eager import eager_step
from .gpu_steps import step_of
from .recipes import built_in

PEAK = 989e12
"""Operations a second of an H100 or H200 with products of bf16, by the data sheet, without sparsity."""
WARM, TURNS = 4, 9


def llama(batch_size: int, length: int, steps: int = 100) -> Recipe:
    """Llama of 26 layers of width 1,024 with grouped queries, AdamW."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=16384,
        hidden_size=1024,
        intermediate_size=2816,
        num_hidden_layers=26,
        num_attention_heads=16,
        num_key_value_heads=8,
        max_position_embeddings=length,
        use_cache=False,
    )
    ids = synthetic.tokens(0, 64, length, config.vocab_size)
    data = {"input_ids": ids, "labels": ids}
    return Recipe(
        "llama", LlamaForCausalLM(config).train(), None, decayed(3e-4, 0.1), data, steps, batch_size
    )


COMPARED: Mapping[str, Callable[[], Recipe]] = {
    "gpt2-small": partial(built_in, "gpt2-small", steps=100),
    "resnet50": partial(built_in, "resnet50", steps=100),
    "distilbert": partial(built_in, "distilbert", steps=100),
    "llama": partial(llama, 1, 128),
}
"""Models whose states and checkpoints are compared with the processor's, in small batches."""
TIMED: Mapping[str, Callable[[], Recipe]] = {
    "gpt2-small": partial(built_in, "gpt2-small", steps=100, batch_size=8, length=1024),
    "llama": partial(llama, 4, 1024),
}
"""Models and batches whose steps are timed."""


@cache
def _built(make: Callable[[], Recipe]) -> tuple[Recipe, Bundle]:
    recipe = replace(make(), autocast=torch.bfloat16)
    return recipe, build(recipe, check=False)


def bundle_of(name: str) -> Bundle:
    """Return the program of one of `COMPARED`."""
    return _built(COMPARED[name])[1]


def timing(name: str) -> str:
    """Return a line: milliseconds of a step, ours (replayed CUDA graphs), eager autocast's and torch.compile's, in
    turns; their share of the device's peak, and the memory that each takes at most."""
    recipe, bundle = _built(TIMED[name])
    makers: dict[str, Callable[[], Callable[[], object]]] = {
        "tc16": lambda: step_of(bundle, SumMode.TC16),
        "eager autocast": lambda: eager_step(recipe, device="cuda", autocast=True),
        "torch.compile": lambda: eager_step(recipe, device="cuda", autocast=True, compiled=True),
    }
    works: dict[str, Callable[[], object]] = {}
    memory: dict[str, float] = {}
    for what, make in makers.items():
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        works[what] = make()
        for _ in range(WARM):
            works[what]()
        torch.cuda.synchronize()
        memory[what] = (torch.cuda.max_memory_allocated() - before) / 2**30
    times: dict[str, list[float]] = {what: [] for what in works}
    for _ in range(TURNS):
        for what, work in works.items():
            torch.cuda.synchronize()
            began = time.perf_counter()
            work()
            torch.cuda.synchronize()
            times[what].append(time.perf_counter() - began)
    seconds = {what: statistics.median(found) for what, found in times.items()}
    needed = operations(recipe)
    parts = [
        f"{what} {1e3 * s:.2f} ms (ratio {s / seconds['tc16']:.2f}, {100 * needed / s / PEAK:.0f} % of peak, "
        f"{memory[what]:.1f} GiB)"
        for what, s in seconds.items()
    ]
    return f"{name}: {', '.join(parts)}"


def operations(recipe: Recipe) -> float:
    """Return operations of a step of a language model: six for each parameter and token, and attention's full square
    (PaLM, arXiv 2204.02311, appendix B). Its embeddings count once, as the head."""
    config: Any = recipe.module.config
    batch, length = recipe.batch_size, next(iter(recipe.data.values())).shape[1]
    size = sum(p.numel() for name, p in recipe.module.named_parameters() if "wpe" not in name)
    if not config.tie_word_embeddings:
        size -= config.vocab_size * config.hidden_size
    attention = 12 * config.num_hidden_layers * config.hidden_size * length
    return float(batch * length * (6 * size + attention))
