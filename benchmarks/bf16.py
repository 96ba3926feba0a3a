"""Training in bf16: the losses of programs and of eager autocast, and whether every way gives the same root.

A GPT-2 of 10.7 M parameters, a vision transformer, and adapters on a Llama whose frozen weights are bf16.
"""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import repops
import torch
from repops.host.library import BEST_ISA, ISA_NAMES
from repops.sums import SumMode

from assay_capture.capture import Adam, Recipe, build
from assay_capture.capture.recipe import seeded_parameters
from assay_capture.capture.recipes import synthetic
from assay_capture.capture.seeded import data_order
from referee_py.commit.tensor import Array
from referee_py.execute import FastExecutor, Run
from trainer_node.local.bundle import Bundle

from .eager import loss_of
from .report import Table

STEPS = 200
EXAMPLES = 512
ROOT_STEPS = 3
"""Steps of the runs whose roots are compared."""


def gpt(steps: int = STEPS) -> Recipe:
    """GPT-2 with six layers of width 384: 10.7 M parameters besides the embedding."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=256,
        n_layer=6,
        n_embd=384,
        n_head=6,
        n_positions=64,
        use_cache=False,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
    )
    ids = synthetic.tokens(0, EXAMPLES, 64, 256)
    data = {"input_ids": ids, "labels": ids}
    return Recipe("gpt-10m", GPT2LMHeadModel(config).train(), None, Adam(lr=3e-4), data, steps, 8)


def vit(steps: int = STEPS) -> Recipe:
    """A vision transformer with six layers of width 192 on 32 x 32 images."""
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        image_size=32,
        patch_size=4,
        hidden_size=192,
        num_hidden_layers=6,
        num_attention_heads=3,
        intermediate_size=768,
        num_labels=10,
        hidden_dropout_prob=0.0,
    )
    pixels, labels = synthetic.images(0, EXAMPLES, (3, 32, 32), 10)
    data: dict[str, Array] = {"pixel_values": pixels, "labels": labels}
    return Recipe("vit", ViTForImageClassification(config).train(), None, Adam(lr=3e-4), data, steps, 16)


def lora(steps: int = STEPS) -> Recipe:
    """Adapters of rank 8 on a frozen Llama of bfloat16 with four layers of width 256."""
    from peft import LoraConfig, get_peft_model
    from transformers import LlamaConfig, LlamaForCausalLM

    base = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=256,
            hidden_size=256,
            intermediate_size=704,
            num_hidden_layers=4,
            num_attention_heads=8,
            num_key_value_heads=4,
            max_position_embeddings=64,
            use_cache=False,
        )
    )
    adapters = LoraConfig(r=8, lora_alpha=16, target_modules="all-linear", task_type="CAUSAL_LM")
    module = get_peft_model(base, adapters)
    for parameter in module.parameters():
        if not parameter.requires_grad:
            parameter.data = parameter.data.bfloat16()
    ids = synthetic.tokens(0, EXAMPLES, 64, 256)
    return Recipe(
        "llama-lora", module.train(), None, Adam(lr=1e-3), {"input_ids": ids, "labels": ids}, steps, 8
    )


RECIPES: dict[str, Callable[[int], Recipe]] = {"gpt-10m": gpt, "vit": vit, "llama-lora": lora}


def measure() -> Table:
    """Return the losses after `STEPS` steps, and the root mean square distances of the curves."""
    columns = [
        "model",
        "trained parameters",
        "first loss",
        "ours, bf16",
        "ours, tc16",
        "eager autocast",
        "eager f32",
    ]
    apart = ["ours to eager f32", "tc16 to eager f32", "eager autocast to eager f32"]
    table = Table("bf16", [*columns, "ours to eager autocast", *apart, "same root"])
    for name, make in RECIPES.items():
        recipe = replace(make(STEPS), autocast=torch.bfloat16)
        _seed(recipe)
        bundle = build(recipe)
        ours, tc16 = (
            program_curve(bundle, recipe.steps, sums) for sums in (SumMode.REPOPS_F32, SumMode.TC16)
        )
        theirs, f32 = eager_curve(recipe, True), eager_curve(recipe, False)
        size = sum(p.numel() for p in recipe.module.parameters() if p.requires_grad)
        table.add(
            name,
            f"{size / 1e6:.2f} M",
            f"{ours[0]:.4f}",
            *(f"{np.mean(curve[-10:]):.4f}" for curve in (ours, tc16, theirs, f32)),
            f"{_apart(ours, theirs):.1e}",
            *(f"{_apart(curve, f32):.1e}" for curve in (ours, tc16, theirs)),
            same_roots(name),
        )
    return table


def _seed(recipe: Recipe) -> None:
    """Give the module the weights that the program starts with."""
    values = seeded_parameters(recipe.module, recipe.seed)
    for name, parameter in recipe.module.named_parameters():
        if name in values:
            parameter.data.copy_(torch.from_numpy(values[name]()))


def _apart(first: Sequence[float], second: Sequence[float]) -> float:
    return float(np.sqrt(np.mean((np.array(first) - np.array(second)) ** 2)))


def program_curve(bundle: Bundle, steps: int, sums: SumMode) -> list[float]:
    """Return the loss of each step of the program in a mode."""
    backend = repops.backend("cpu", sums)
    executor = FastExecutor(bundle.program, bundle.constants, backend, bundle.metrics)
    run = Run(bundle.program, bundle.constants, bundle.initial, steps, (steps, 1), backend, executor=executor)
    losses: list[float] = []
    run.advance(run.initial(), steps, lambda *_: losses.append(float(executor.latest["loss"])))
    return losses


def eager_curve(recipe: Recipe, autocast: bool) -> list[float]:
    """Return the loss of each step of eager training, inside autocast or in f32 throughout."""
    module = copy.deepcopy(recipe.module)
    if not autocast:
        module.float()
    trained = [p for p in module.parameters() if p.requires_grad]
    assert isinstance(recipe.optimizer, Adam)
    optimizer = torch.optim.Adam(trained, float(recipe.optimizer.lr))  # type: ignore[arg-type]
    data = {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in recipe.data.items()}
    losses = []
    for rows in torch.from_numpy(data_order(recipe.seed, EXAMPLES, recipe.batch_size, recipe.steps)):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            loss = loss_of(recipe, module, {name: tensor[rows] for name, tensor in data.items()})
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


# ------------------------------------------------------------------------------------------------------- run roots


def same_roots(name: str) -> str:
    """Compare the run roots of processes with other instruction sets and numbers of threads, in each mode."""
    found = {}
    for sums in SumMode:
        roots = {_root(name, sums, isa, threads) for isa in ISA_NAMES[: BEST_ISA + 1] for threads in (1, 2)}
        found[sums] = len(roots) == 1
    wrong = [mode for mode, same in found.items() if not same]
    return (
        f"differs: {', '.join(wrong)}"
        if wrong
        else f"{ROOT_STEPS} steps, {2 * (BEST_ISA + 1)} processes a mode"
    )


def _root(name: str, sums: SumMode, isa: str, threads: int) -> str:
    environment = {**os.environ, "REPOPS_ISA": isa, "REPOPS_NUM_THREADS": str(threads)}
    line = f"from benchmarks.bf16 import root_of; print(root_of({name!r}, {str(sums)!r}))"
    folder = Path(__file__).resolve().parent.parent
    command = [sys.executable, "-W", "ignore", "-c", line]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip().splitlines()[-1]


def root_of(name: str, mode: str) -> str:
    """Return the run root of a few steps in a mode."""
    bundle = build(replace(RECIPES[name](ROOT_STEPS), autocast=torch.bfloat16))
    backend = repops.backend("cpu", SumMode(mode))
    run = Run(bundle.program, bundle.constants, bundle.initial, ROOT_STEPS, (1,), backend)
    return run.commit_run().root.hex()
