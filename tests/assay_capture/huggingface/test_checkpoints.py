"""`checkpoint-N` of a trainer: what is left of the run, against the trainer's own resumption."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import peft
import pytest
import torch
import transformers as hf

from assay_capture.capture import CaptureError, Recipe, build

from . import tiny
from .test_trainer import causal_rows

SAVED = {"save_strategy": "steps", "logging_steps": 1}
Make = Callable[[Path, dict[str, Any]], Any]


def causal(folder: Path, given: dict[str, Any]) -> Any:
    return hf.Trainer(tiny.gpt2(), tiny.arguments(folder, **given), train_dataset=causal_rows())


def accumulated(folder: Path, given: dict[str, Any]) -> Any:
    given = {"gradient_accumulation_steps": 2, "per_device_train_batch_size": 2, "weight_decay": 0.1, **given}
    return causal(folder, {"lr_scheduler_type": "cosine", "warmup_steps": 2, **given})


def momentum(folder: Path, given: dict[str, Any]) -> Any:
    model = tiny.gpt2()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    arguments = tiny.arguments(folder, **given)
    return hf.Trainer(model, arguments, train_dataset=causal_rows(), optimizers=(optimizer, schedule))


def lora(folder: Path, given: dict[str, Any]) -> Any:
    torch.manual_seed(5)
    config = peft.LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    model = peft.get_peft_model(tiny.llama(), config)
    return hf.Trainer(model, tiny.arguments(folder, learning_rate=2e-2, **given), train_dataset=causal_rows())


def masked(folder: Path, given: dict[str, Any]) -> Any:
    """Its collator draws from a generator, which the checkpoint has."""
    rows = [{"input_ids": [2, *row, 3]} for row in tiny.sentences(18, 12)]
    collator = hf.DataCollatorForLanguageModeling(tiny.tokenizer(), mlm_probability=0.3)
    return hf.Trainer(tiny.bert(hf.BertForMaskedLM), tiny.arguments(folder, **given), collator, rows)


CASES: dict[str, tuple[Make, int, int]] = {
    "middle of an epoch": (causal, 9, 4),
    "end of an epoch": (causal, 15, 6),
    "third epoch": (causal, 16, 13),
    "accumulated": (accumulated, 10, 3),
    "momentum": (momentum, 8, 3),
    "lora": (lora, 8, 4),
    "masked": (masked, 9, 5),
}
QUICK = ("middle of an epoch", "lora", "masked")


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in CASES]
)
def test_a_run_continues_from_a_checkpoint(name: str, tmp_path: Path) -> None:
    make, steps, done = CASES[name]
    given = {**SAVED, "save_steps": done, "max_steps": steps}
    make(tmp_path, given).train()
    folder = tmp_path / "out" / f"checkpoint-{done}"
    ours, _ = tiny.run(build(Recipe.from_trainer(make(tmp_path, given), resume_from_checkpoint=folder)))
    trainer = make(tmp_path, given)
    trainer.train(resume_from_checkpoint=str(folder))
    theirs = tiny.reported(trainer)[done:]
    assert len(ours) == steps - done
    np.testing.assert_allclose(ours, theirs, rtol=5e-5)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    causal(tmp_path, {**SAVED, "save_steps": 2, "max_steps": 2}).train()
    return tmp_path / "out" / "checkpoint-2"


def resumed(folder: Path, checkpoint: Path, **given: Any) -> Recipe:
    return Recipe.from_trainer(causal(folder, {"max_steps": 4, **given}), resume_from_checkpoint=checkpoint)


def test_what_is_no_checkpoint_is_named(checkpoint: Path, tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match=r"is no checkpoint of a trainer: trainer_state.json"):
        resumed(tmp_path, tmp_path)
    with pytest.raises(CaptureError, match="is after step 2, and training has no more; raise max_steps"):
        resumed(tmp_path, checkpoint, max_steps=2)
    for name, message in (
        ("optimizer.pt", r"optimizer.pt cannot be read: .*save_only_model=False"),
        ("model.safetensors", "has no safetensors"),
    ):
        broken = tmp_path / name.partition(".")[0]
        shutil.copytree(checkpoint, broken)
        (broken / name).unlink()
        with pytest.raises(CaptureError, match=message):
            resumed(tmp_path, broken)
    state = json.loads((checkpoint / "trainer_state.json").read_text())
    for done in (-1, 0, "2", None, True, 2.5):
        (checkpoint / "trainer_state.json").write_text(json.dumps({**state, "global_step": done}))
        with pytest.raises(CaptureError, match="it must be a number of steps"):
            resumed(tmp_path, checkpoint)


def test_another_model_or_optimizer_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    other = hf.Trainer(tiny.llama(), tiny.arguments(tmp_path, max_steps=4), train_dataset=causal_rows())
    with pytest.raises(CaptureError, match=r"is not of this trainer's|is no tensor of the model"):
        Recipe.from_trainer(other, resume_from_checkpoint=checkpoint)
    larger = hf.Trainer(
        tiny.gpt2(n_embd=64), tiny.arguments(tmp_path, max_steps=4), train_dataset=causal_rows()
    )
    with pytest.raises(CaptureError, match=r"the module has|it must be"):
        build(Recipe.from_trainer(larger, resume_from_checkpoint=checkpoint))


class Evil:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("name", ["optimizer.pt", "scheduler.pt", "rng_state.pth"])
def test_nothing_of_a_checkpoint_is_executed(name: str, checkpoint: Path, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    torch.save({"state": Evil(mark)}, checkpoint / name)
    with pytest.raises(CaptureError, match=f"{name} cannot be read"):
        resumed(tmp_path, checkpoint)
    assert not mark.exists()
