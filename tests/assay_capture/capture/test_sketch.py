"""Programs of models whose weights are not in memory: structure first, tensors later and one by one."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import peft
import pytest
import torch
import transformers as hf
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from assay_capture.capture import SGD, Adam, CaptureError, capture, sketch
from assay_capture.capture.recipes import synthetic
from assay_capture.capture.seeded import data_order
from referee_py.program.read import read_skeleton

from .families import EXAMPLES, FAMILIES, family, llama_module, padded

ORDER = data_order(1, EXAMPLES, 4, 2)
CONTEXTS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "meta": lambda: torch.device("meta"),
    "fake": lambda: FakeTensorMode(),
}


@pytest.mark.parametrize("context", ["meta", pytest.param("fake", marks=pytest.mark.slow)])
def test_a_model_without_weights_has_the_same_structure(context: str) -> None:
    real = capture(llama_module().train(), None, Adam(), padded(), ORDER)
    with CONTEXTS[context]():
        module = llama_module().train()
    draft = sketch(module, None, Adam(), padded(), ORDER)
    assert draft.skeleton == real.program.skeleton
    assert read_skeleton(draft.skeleton.to_bytes()).structure_root == real.program.structure_root


def test_tensors_are_read_one_by_one_when_they_are_wanted() -> None:
    """Values come from functions, as they would from a file on disk."""
    real = llama_module().train()
    values = {**dict(real.named_parameters()), **dict(real.named_buffers())}
    read: list[str] = []

    def reader(name: str) -> Callable[[], np.ndarray[Any, Any]]:
        def function() -> np.ndarray[Any, Any]:
            read.append(name)
            return values[name].detach().numpy()

        return function

    with torch.device("meta"):
        module = llama_module().train()
    draft = sketch(module, None, SGD(0.1), padded(), ORDER, {name: reader(name) for name in values})
    assert not read, "nothing is read for the structure"
    assert draft.program() == capture(real, None, SGD(0.1), padded(), ORDER).program
    assert sorted(read) == sorted(set(values) - {"model.rotary_emb.original_inv_freq"}), "each once"


def linear() -> nn.Module:
    with torch.device("meta"):
        return nn.Linear(6, 4)


X, Y = synthetic.images(1, EXAMPLES, (6,), 4)
WEIGHT, BIAS = np.zeros((4, 6), np.float32), np.zeros(4, np.float32)
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no values": ({}, "param.weight has no values"),
    "half of the values": ({"weight": WEIGHT}, "param.bias has no values"),
    "a name that is not the module's": (
        {"wait": WEIGHT},
        "initial values for wait, which the module does not",
    ),
    "another shape": (
        {"weight": WEIGHT.T, "bias": BIAS},
        r"weight is f32\[6, 4\], the module has f32\[4, 6\]",
    ),
    "another shape, read late": ({"weight": lambda: WEIGHT[:1], "bias": BIAS}, r"read as f32\[1, 6\]; the"),
    "another dtype, read late": (
        {"weight": lambda: WEIGHT.astype(np.int64), "bias": BIAS},
        r"read as i64\[4, 6\]; the module has f32",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_values_that_are_missing_or_wrong_are_refused(name: str) -> None:
    initial, message = WRONG[name]
    with pytest.raises(CaptureError, match=message):
        capture(linear(), nn.functional.cross_entropy, SGD(0.1), {"x": X, "y": Y}, ORDER, initial)


# ------------------------------------------------------------------------------------ in every process the same

ROOTS = """
from assay_capture.capture import Adam, sketch
from assay_capture.capture.seeded import data_order
from tests.assay_capture.capture.families import EXAMPLES, FAMILIES, family
for name in FAMILIES:
    member = family(name)
    draft = sketch(member.module, member.loss, Adam(), member.data, data_order(1, EXAMPLES, 4, 2))
    print(name, draft.skeleton.structure_root.hex(), draft.skeleton.slot_root.hex())
"""


@pytest.mark.slow
def test_structures_do_not_depend_on_process_hash_seed_or_threads() -> None:
    outputs = set()
    for seed, threads in (("0", "1"), ("4242", "2")):
        environment = {
            **os.environ,
            "PYTHONHASHSEED": seed,
            "OMP_NUM_THREADS": threads,
            "PYTHONPATH": os.pathsep.join(filter(None, [str(Path.cwd()), *sys.path])),
            "TRANSFORMERS_VERBOSITY": "error",
        }
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", ROOTS], env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        outputs.add(done.stdout)
    assert len(outputs) == 1
    assert len(outputs.pop().splitlines()) == len(FAMILIES)


@pytest.mark.slow
def test_the_structure_does_not_depend_on_weights_or_data() -> None:
    """Other weights, the same graph: nothing is baked in."""
    roots = set()
    for seed in (0, 1):
        member = family("distilbert", seed)
        data = {name: array[::-1].copy() if seed else array for name, array in member.data.items()}
        draft = sketch(member.module, None, SGD(0.1), data, ORDER)
        roots.add(draft.skeleton.structure_root)
    assert len(roots) == 1


# ---------------------------------------------------------------------------------------------------- large models


def llama_1b() -> nn.Module:
    """Build a model with the dimensions of Llama 3.2 1B."""
    rope = {
        "rope_type": "llama3",
        "factor": 32.0,
        "high_freq_factor": 4.0,
        "low_freq_factor": 1.0,
        "original_max_position_embeddings": 8192,
        "rope_theta": 500000.0,
    }
    return hf.LlamaForCausalLM(
        hf.LlamaConfig(
            vocab_size=128256,
            hidden_size=2048,
            intermediate_size=8192,
            num_hidden_layers=16,
            num_attention_heads=32,
            num_key_value_heads=8,
            head_dim=64,
            max_position_embeddings=131072,
            rms_norm_eps=1e-5,
            tie_word_embeddings=True,
            rope_parameters=rope,
        )
    )


def llama_8b_lora() -> nn.Module:
    """Build a frozen model with the dimensions of Llama 3 8B, with adapters of rank 16."""
    base = hf.LlamaForCausalLM(
        hf.LlamaConfig(
            vocab_size=128256,
            hidden_size=4096,
            intermediate_size=14336,
            num_hidden_layers=32,
            num_attention_heads=32,
            num_key_value_heads=8,
            rms_norm_eps=1e-5,
        )
    )
    return peft.get_peft_model(
        base,
        peft.LoraConfig(r=16, lora_dropout=0.05, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"),
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "billions", "slots"), [(llama_1b, 1.236, 146 * 3), (llama_8b_lora, 8.037, 128 * 3)]
)
def test_a_large_model_is_captured_written_and_read_without_its_weights(
    make: Callable[[], nn.Module], billions: float, slots: int
) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with torch.device("meta"):
        module = make().train()
    assert abs(sum(p.numel() for p in module.parameters()) / 1e9 - billions) < 0.001
    ids = synthetic.tokens(0, 8, 256, 128256)
    data = {"input_ids": ids, "attention_mask": np.ones_like(ids), "labels": ids}
    draft = sketch(module, None, Adam(weight_decay=0.1, decoupled=True), data, data_order(0, 8, 2, 3))
    again = read_skeleton(draft.skeleton.to_bytes())
    assert again.structure_root == draft.skeleton.structure_root
    assert len(again.initial) == slots
    assert sum(t.nbytes for t in (*again.initial, *again.constants)) > billions * 4e9
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2 << 20, "less than 2 GiB more"
