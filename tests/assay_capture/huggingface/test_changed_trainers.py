"""Trainers that somebody has changed, or has used before: what they would train, or a refusal that names the change."""

from __future__ import annotations

import functools
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import peft
import pytest
import repops
import torch
import transformers as hf
import trl

from assay_capture.capture import SGD, CaptureError, Recipe, Unsupported, build
from assay_capture.inference import Evaluate
from referee_py.execute import Run
from trainer_node.local.evaluation import Evaluation

from . import tiny

ROWS = [
    {"input_ids": row, "labels": row} for row in (torch.tensor((r * 8)[:8]) for r in tiny.sentences(24, 8))
]


def trainer_of(folder: Path, kind: Any = hf.Trainer, model: Any = None, **given: Any) -> Any:
    arguments = tiny.arguments(folder, **{"max_steps": 4, **given})
    return kind(model or tiny.gpt2(), arguments, train_dataset=ROWS)


def check_same(trainer: Any) -> None:
    """Compare the program's losses with those of `train()`."""
    ours, _ = tiny.run(build(Recipe.from_trainer(trainer)))
    trainer.train()
    np.testing.assert_allclose(ours, tiny.reported(trainer), rtol=2e-5)


def doubled(_self: Any, model: Any, inputs: Any, **_: Any) -> Any:
    return 2 * model(**inputs)["loss"]


def test_a_loss_that_was_put_into_the_object_is_followed(tmp_path: Path) -> None:
    trainer = trainer_of(tmp_path)
    trainer.compute_loss = types.MethodType(doubled, trainer)
    check_same(trainer)


@pytest.mark.slow
def test_a_loss_that_was_put_into_the_library_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrapped = functools.wraps(hf.Trainer.compute_loss)(doubled)
    assert wrapped.__module__ == "transformers.trainer", "it says that it is the library's own"
    monkeypatch.setattr(hf.Trainer, "compute_loss", wrapped)
    check_same(trainer_of(tmp_path))


@pytest.mark.parametrize("method", ["training_step", "_run_epoch", "_clip_grad_norm", "get_batch_samples"])
def test_a_loop_that_was_changed_is_refused(method: str, tmp_path: Path) -> None:
    own = functools.wraps(getattr(hf.Trainer, method))(lambda *_, **__: None)
    trainer = trainer_of(tmp_path)
    setattr(trainer, method, types.MethodType(own, trainer))
    with pytest.raises(CaptureError, match=rf"Trainer\.{method} is defined in .*test_changed_trainers"):
        Recipe.from_trainer(trainer)
    kind = type("Other", (hf.Trainer,), {method: own})
    with pytest.raises(CaptureError, match=rf"Other\.{method} is defined in .*test_changed_trainers"):
        Recipe.from_trainer(trainer_of(tmp_path, kind))


class Stream(torch.utils.data.IterableDataset):
    """Six batches of four, and then no more; it does not know its length."""

    def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
        return iter(ROWS)


def test_a_stream_that_ends_within_a_step_is_refused(tmp_path: Path) -> None:
    """The trainer adds the two batches that are left to the first step of the next epoch."""
    trainer = hf.Trainer(
        tiny.gpt2(), tiny.arguments(tmp_path, gradient_accumulation_steps=4), train_dataset=Stream()
    )
    with pytest.raises(CaptureError, match=r"end after 6 batches, in the middle of a step of 4.*that divide"):
        Recipe.from_trainer(trainer)
    trainer.args.gradient_accumulation_steps = 3
    check_same(trainer)


def test_no_steps_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="max_steps is 0; give a whole number from 1"):
        Recipe.from_trainer(trainer_of(tmp_path, max_steps=0))
    with pytest.raises(CaptureError, match=r"training has no step.*num_train_epochs is 0"):
        Recipe.from_trainer(trainer_of(tmp_path, max_steps=-1, num_train_epochs=0))


def test_a_step_without_labels_is_refused(tmp_path: Path) -> None:
    ignored = {**ROWS[0], "labels": torch.full((8,), -100)}
    arguments = tiny.arguments(tmp_path, max_steps=4, train_sampling_strategy="sequential")
    trainer = hf.Trainer(tiny.gpt2(), arguments, train_dataset=[*ROWS[:4], *[ignored] * 4, *ROWS[:8]])
    with pytest.raises(CaptureError, match=r"step 2 has no label that counts.*leave out rows"):
        Recipe.from_trainer(trainer)


@pytest.mark.slow
def test_a_part_of_an_epoch_and_a_single_step(tmp_path: Path) -> None:
    check_same(trainer_of(tmp_path, max_steps=-1, num_train_epochs=0.4, gradient_accumulation_steps=2))
    check_same(trainer_of(tmp_path, max_steps=1))


def test_a_schedule_that_was_made_for_other_steps_is_made_anew(tmp_path: Path) -> None:
    """As `train()` does it."""
    trainer = trainer_of(tmp_path, max_steps=6, learning_rate=5e-2)
    trainer.create_optimizer_and_scheduler(num_training_steps=2)
    check_same(trainer)


def test_a_schedule_with_unknown_options_is_refused(tmp_path: Path) -> None:
    trainer = trainer_of(tmp_path, lr_scheduler_type="cosine", lr_scheduler_kwargs={"cycles": 1})
    with pytest.raises(CaptureError, match=r"cannot make its schedule .*cosine.*cycles.*lr_scheduler_kwargs"):
        Recipe.from_trainer(trainer)


class Calling(hf.Trainer):
    """A loss of one's own that is the library's, times two."""

    def compute_loss(self, model, inputs, num_items_in_batch=None, **_):
        return 2 * super().compute_loss(model, inputs, num_items_in_batch=num_items_in_batch)


def test_labels_of_an_adapted_model_are_shifted_before_they_are_smoothed(tmp_path: Path) -> None:
    """The library asks what kind of model it is; the one that is traced must answer as the real one does."""
    torch.manual_seed(5)
    config = peft.LoraConfig(r=4, target_modules=["q_proj"], task_type="CAUSAL_LM")
    model = peft.get_peft_model(tiny.llama(), config)
    check_same(trainer_of(tmp_path, Calling, model, label_smoothing_factor=0.2))


class Penalised(hf.Trainer):
    """A small penalty on weights that are read past the model's call."""

    def compute_loss(self, model, inputs, **_):
        loss = model(**inputs)["loss"]
        return loss + 1e-5 * sum(p.pow(2).sum() for p in model.parameters())


def test_a_penalty_on_weights_is_no_constant(tmp_path: Path) -> None:
    """Its gradient is too small for the comparison of the first step."""
    with pytest.raises(Unsupported, match=r"reads .* of the module from outside forward.*weight_decay"):
        build(Recipe.from_trainer(trainer_of(tmp_path, Penalised)))


@pytest.mark.parametrize("read", [lambda p: p, lambda p: p.detach(), lambda p: p.data])
def test_a_loss_reads_no_weights_past_the_module(read: Any) -> None:
    module = torch.nn.Linear(3, 2)
    data = {"x": np.ones((4, 3), np.float32), "y": np.ones((4, 2), np.float32)}

    def penalised(output: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (output - y).pow(2).mean() * (1 + 1e-6 * read(module.weight).abs().sum())

    with pytest.raises(Unsupported, match=r"loss.*it reads weight of the module from outside"):
        build(Recipe("plain", module, penalised, SGD(0.1), data, 2, 2))


def balanced(folder: Path, coefficient: float | None = None, **given: Any) -> Any:
    """TRL's trainer of a mixture of experts whose loss is also that of an even use of them."""
    torch.manual_seed(4)
    config = hf.MixtralConfig(
        vocab_size=len(tiny.VOCABULARY),
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        num_local_experts=2,
        num_experts_per_tok=1,
        router_aux_loss_coef=0.1,
        pad_token_id=0,
        eos_token_id=5,
    )
    options = {"max_steps": 3, "bf16": False, "router_aux_loss_coef": coefficient, **given}
    return trl.SFTTrainer(
        hf.MixtralForCausalLM(config),
        tiny.arguments(folder, trl.SFTConfig, **options),
        train_dataset=datasets.Dataset.from_dict({"input_ids": [row["input_ids"].tolist() for row in ROWS]}),
        processing_class=tiny.tokenizer(),
    )


@pytest.mark.slow
def test_the_loss_that_balances_experts_has_the_weight_that_trl_gives_it(tmp_path: Path) -> None:
    check_same(balanced(tmp_path))
    check_same(balanced(tmp_path, 0.0, gradient_accumulation_steps=2))


def test_experts_whose_balance_trl_weighs_otherwise_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match=r"router_aux_loss_coef is 0\.3, and the model was made with 0\.1"):
        Recipe.from_trainer(balanced(tmp_path, 0.3))
    with pytest.raises(CaptureError, match="TRL averages the loss that balances experts"):
        Recipe.from_trainer(balanced(tmp_path, gradient_accumulation_steps=2))


def test_an_optimizer_whose_step_was_replaced_is_refused(tmp_path: Path) -> None:
    model = tiny.gpt2()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    trainer = hf.Trainer(
        model,
        tiny.arguments(tmp_path, max_steps=4),
        train_dataset=ROWS,
        optimizers=(optimizer, schedule),
    )
    build(Recipe.from_trainer(trainer), check=False)
    step = optimizer.step

    def clamping(*args: Any) -> Any:
        step(*args)
        for parameter in model.parameters():
            parameter.data.clamp_(-1, 1)

    vars(optimizer)["step"] = clamping
    with pytest.raises(CaptureError, match=r"step of this SGD was replaced by .*clamping.*UpdateRule"):
        build(Recipe.from_trainer(trainer))


def test_a_trainer_can_be_evaluated_on_held_out_rows(tmp_path: Path) -> None:
    recipe = Recipe.from_trainer(trainer_of(tmp_path, max_steps=2))
    evaluating = Evaluate(recipe, {name: array[:4] for name, array in recipe.data.items()}).build()
    training = build(recipe, check=False)
    run = Run(training.program, training.constants, training.initial, 2, (1,), repops.backend("cpu"))
    found = Evaluation(evaluating, training).of(run.initial())["eval.loss"]
    batch = {name: torch.from_numpy(array[:4]) for name, array in recipe.data.items()}
    assert found == pytest.approx(recipe.module(**batch).loss.item(), rel=1e-5)
