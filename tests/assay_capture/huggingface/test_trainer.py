"""`Recipe.from_trainer` against the trainer itself: the same batches, the same losses, the same evaluation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import peft
import pytest
import torch
import transformers as hf
import trl

from assay_capture.capture import CaptureError, Recipe, build

from . import tiny

Make = Callable[[Path], Any]
CASES: dict[str, Make] = {}
QUICK = ("accumulated", "autocast", "images", "lora", "packing")
"""The other ones are slow tests."""


def case(function: Make) -> Make:
    CASES[function.__name__] = function
    return function


def causal_rows(count: int = 24) -> list[dict[str, torch.Tensor]]:
    rows = [torch.tensor((row * 12)[:12]) for row in tiny.sentences(count, 12)]
    return [{"input_ids": row, "labels": row} for row in rows]


@case
def causal(folder: Path) -> Any:
    arguments = tiny.arguments(folder, num_train_epochs=2, max_steps=-1, weight_decay=0.1)
    rows = causal_rows()
    return hf.Trainer(tiny.gpt2(), arguments, train_dataset=rows, eval_dataset=rows[:8])


@case
def lora(folder: Path) -> Any:
    torch.manual_seed(5)
    config = peft.LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    model = peft.get_peft_model(tiny.llama(), config)
    rows = causal_rows()
    return hf.Trainer(
        model, tiny.arguments(folder, learning_rate=2e-2), train_dataset=rows, eval_dataset=rows[:8]
    )


@case
def packing(folder: Path) -> Any:
    rows = datasets.Dataset.from_dict({"input_ids": tiny.sentences(40, 10)})
    arguments = tiny.arguments(
        folder, trl.SFTConfig, packing=True, max_length=16, bf16=False, per_device_train_batch_size=2
    )
    model = tiny.llama(attn_implementation="sdpa")
    return trl.SFTTrainer(
        model, arguments, train_dataset=rows, eval_dataset=rows, processing_class=tiny.tokenizer()
    )


@case
def dynamic_padding(folder: Path) -> Any:
    rows = [
        {"input_ids": row, "attention_mask": [1] * len(row), "labels": (row[1] - row[0]) % 26 % 2}
        for row in tiny.sentences(22, 14)
    ]
    arguments = tiny.arguments(folder, num_train_epochs=2, max_steps=-1)
    return hf.Trainer(
        tiny.bert(hf.BertForSequenceClassification),
        arguments,
        hf.DataCollatorWithPadding(tiny.tokenizer()),
        rows,
        rows[:8],
        processing_class=tiny.tokenizer(),
    )


@case
def masked(folder: Path) -> Any:
    rows = [{"input_ids": [2, *row, 3]} for row in tiny.sentences(18, 12)]
    return hf.Trainer(
        tiny.bert(hf.BertForMaskedLM),
        tiny.arguments(folder),
        hf.DataCollatorForLanguageModeling(tiny.tokenizer(), mlm_probability=0.3),
        rows,
    )


@case
def images(folder: Path) -> Any:
    torch.manual_seed(4)
    config = hf.ViTConfig(
        image_size=8,
        patch_size=4,
        num_channels=1,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_labels=3,
        **tiny.NO_DROPOUT,
    )
    rng = np.random.default_rng(0)
    rows = [
        {"pixel_values": torch.tensor(rng.normal(label, 1, (1, 8, 8)), dtype=torch.float32), "labels": label}
        for label in (0, 1, 2) * 6
    ]
    return hf.Trainer(
        hf.ViTForImageClassification(config), tiny.arguments(folder), train_dataset=rows, eval_dataset=rows
    )


@case
def accumulated(folder: Path) -> Any:
    """Rows of different lengths, an epoch that ends within a step and within a batch."""
    rows = [{"input_ids": row} for row in tiny.sentences(30, 14)]
    arguments = tiny.arguments(
        folder,
        num_train_epochs=2,
        max_steps=-1,
        gradient_accumulation_steps=3,
        warmup_steps=2,
        lr_scheduler_type="cosine",
        max_grad_norm=0.5,
        train_sampling_strategy="group_by_length",
    )
    return hf.Trainer(
        tiny.gpt2(),
        arguments,
        hf.DataCollatorForLanguageModeling(tiny.tokenizer(), mlm=False),
        rows,
        rows[:8],
    )


@case
def autocast(folder: Path) -> Any:
    rows = causal_rows()
    return hf.Trainer(
        tiny.llama(),
        tiny.arguments(folder, bf16=True, learning_rate=2e-3),
        train_dataset=rows,
        eval_dataset=rows[:8],
    )


@case
def smoothed(folder: Path) -> Any:
    rows = [{"input_ids": row} for row in tiny.sentences(24, 14)]
    return hf.Trainer(
        tiny.gpt2(),
        tiny.arguments(folder, label_smoothing_factor=0.1, dataloader_drop_last=True, adam_beta2=0.95),
        hf.DataCollatorForLanguageModeling(tiny.tokenizer(), mlm=False),
        rows,
    )


@case
def conversation(folder: Path) -> Any:
    """TRL with adapters, rows of different lengths, and activation checkpointing, which changes no number."""
    rows = datasets.Dataset.from_dict({"input_ids": tiny.sentences(20, 12)})
    arguments = tiny.arguments(folder, trl.SFTConfig, bf16=False, gradient_accumulation_steps=2)
    config = peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    return trl.SFTTrainer(
        tiny.llama(),
        arguments,
        train_dataset=rows,
        processing_class=tiny.tokenizer(),
        peft_config=config,
    )


@case
def translation(folder: Path) -> Any:
    torch.manual_seed(6)
    config = hf.T5Config(
        vocab_size=len(tiny.VOCABULARY),
        d_model=32,
        d_kv=8,
        d_ff=64,
        num_layers=2,
        num_heads=4,
        dropout_rate=0.0,
        decoder_start_token_id=0,
    )
    model = hf.T5ForConditionalGeneration(config)
    rows = [{"input_ids": row, "labels": row[::-1][: 1 + len(row) // 2]} for row in tiny.sentences(20, 10)]
    arguments = tiny.arguments(
        folder, hf.Seq2SeqTrainingArguments, max_steps=20, learning_rate=2e-2, optim="sgd"
    )
    collator = hf.DataCollatorForSeq2Seq(tiny.tokenizer(), model=model)
    return hf.Seq2SeqTrainer(model, arguments, collator, rows)


NOISE = {"autocast": 4e-3}
"""Relative difference of losses; bf16 has 8 bits, and rounds elsewhere than PyTorch where a sum is split otherwise."""


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in CASES]
)
def test_losses_are_those_of_the_trainer(name: str, tmp_path: Path) -> None:
    trainer = CASES[name](tmp_path)
    bundle = build(Recipe.from_trainer(trainer))
    ours, state = tiny.run(bundle)
    trainer.train()
    theirs = tiny.reported(trainer)
    assert len(ours) == len(theirs) >= 4
    noise = NOISE.get(name, 2e-5)
    worst = np.abs(np.array(ours) / np.array(theirs) - 1).max()
    print(f"{name}: {len(ours)} steps, losses differ by {worst:.2e} at most")
    assert worst <= noise, list(zip(ours, theirs, strict=True))
    assert len(set(theirs)) == len(theirs), "it learns something"
    if trainer.eval_dataset is not None:
        before = trainer.evaluate()["eval_loss"]
        tiny.put(trainer.model, bundle, state)
        after = trainer.evaluate()["eval_loss"]
        print(f"{name}: evaluation {before:.6f} and {after:.6f}")
        assert after == pytest.approx(before, rel=10 * noise)


@pytest.mark.parametrize("name", ["causal", "accumulated", "masked", "dynamic_padding"])
def test_batches_are_those_of_the_trainer_in_its_order(name: str, tmp_path: Path) -> None:
    trainer = CASES[name](tmp_path)
    recipe = Recipe.from_trainer(trainer)
    taken: list[dict[str, torch.Tensor]] = []
    trainer.model.register_forward_pre_hook(
        lambda *call: taken.append({k: v.clone() for k, v in call[2].items() if k in recipe.data}),
        with_kwargs=True,
    )
    trainer.train()
    assert recipe.order is not None
    weights = None if recipe.tables is None else recipe.tables.get("loss_scale")
    parts = recipe.order.reshape(recipe.steps, recipe.micro_batches, -1)
    theirs = iter(taken)
    for step in range(recipe.steps):
        for k in range(recipe.micro_batches):
            if weights is not None and not weights[step, k]:
                continue
            batch = next(theirs)
            for key, array in recipe.data.items():
                ours, own = array[parts[step, k]], batch[key].numpy()
                within = tuple(slice(size) for size in own.shape)
                np.testing.assert_array_equal(ours[within], own)
                if key == "labels":
                    rest = np.ones(ours.shape, bool)
                    rest[within] = False
                    assert (ours[rest] == -100).all()
    assert next(theirs, None) is None


def test_rows_that_are_collated_alike_are_stored_once(tmp_path: Path) -> None:
    again = Recipe.from_trainer(causal(tmp_path))
    assert again.steps * again.batch_size == 2 * 24
    assert len(again.data["input_ids"]) <= 24, "two epochs of the same rows"
    drawn = Recipe.from_trainer(masked(tmp_path))
    assert len(drawn.data["input_ids"]) > 18, "masks are drawn anew in the second epoch"


def test_a_trainer_stays_as_it_is(tmp_path: Path) -> None:
    trainer = masked(tmp_path)
    state = torch.random.get_rng_state()
    first, second = Recipe.from_trainer(trainer), Recipe.from_trainer(trainer)
    assert (torch.random.get_rng_state() == state).all()
    assert (trainer.optimizer, trainer.lr_scheduler) == (None, None)
    np.testing.assert_array_equal(first.data["input_ids"], second.data["input_ids"])


def test_an_optimizer_and_a_schedule_that_were_given_are_taken(tmp_path: Path) -> None:
    model = tiny.gpt2()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    trainer = hf.Trainer(
        model,
        tiny.arguments(tmp_path, max_steps=5),
        train_dataset=causal_rows(),
        optimizers=(optimizer, schedule),
    )
    ours, _ = tiny.run(build(Recipe.from_trainer(trainer)))
    trainer.train()
    np.testing.assert_allclose(ours, tiny.reported(trainer), rtol=2e-5)


class Weighted(hf.Trainer):
    """A loss of the user's own."""

    def compute_loss(self, model, inputs, **_):
        labels = inputs.pop("labels")
        scores = model(**inputs).logits[:, -1]
        assert model.config.vocab_size == scores.shape[-1]
        return torch.nn.functional.cross_entropy(scores, labels[:, 0])


def test_a_loss_of_ones_own_is_followed(tmp_path: Path) -> None:
    trainer = Weighted(tiny.gpt2(), tiny.arguments(tmp_path, max_steps=4), train_dataset=causal_rows())
    ours, _ = tiny.run(build(Recipe.from_trainer(trainer)))
    trainer.train()
    np.testing.assert_allclose(ours, tiny.reported(trainer), rtol=2e-5)


class Stepping(hf.Trainer):
    def training_step(self, model, inputs, num_items_in_batch=None):
        return super().training_step(model, inputs, num_items_in_batch) * 2


class Callback(hf.TrainerCallback):
    pass


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: setattr(t, "__class__", Stepping), "training_step is defined in"),
        (lambda t: t.add_callback(Callback()), "Callback may change the run"),
        (lambda t: t.add_callback(hf.EarlyStoppingCallback()), "EarlyStoppingCallback may change the run"),
        (lambda t: setattr(t, "model_init", lambda: t.model), "give it the model itself"),
        (lambda t: setattr(t.args, "optim", "adamw_bnb_8bit"), "adamw_bnb_8bit.*use optim='adamw_torch'"),
        (lambda t: setattr(t.args, "optim", "adafactor"), "Adafactor has no counterpart"),
        (
            lambda t: setattr(t.args, "lr_scheduler_type", "reduce_lr_on_plateau"),
            "ReduceLROnPlateau sets.*use",
        ),
    ],
)
def test_what_has_no_counterpart_is_refused(change: Any, words: str, tmp_path: Path) -> None:
    trainer = causal(tmp_path)
    change(trainer)
    with pytest.raises(CaptureError, match=words):
        build(Recipe.from_trainer(trainer))


def test_padding_that_a_model_sees_is_refused(tmp_path: Path) -> None:
    """GPT-2 counts positions from the left, so more padding on the left is another model."""
    rows = [{"input_ids": row} for row in tiny.sentences(12, 14)]
    words = tiny.tokenizer(padding_side="left")
    collator = hf.DataCollatorForLanguageModeling(words, mlm=False)
    trainer = hf.Trainer(tiny.gpt2(), tiny.arguments(tmp_path), collator, rows, processing_class=words)
    with pytest.raises(CaptureError, match="padding changes the loss of a batch"):
        Recipe.from_trainer(trainer)


def test_a_batch_that_cannot_be_filled_up_is_refused(tmp_path: Path) -> None:
    rows = [{"input_ids": (row * 4)[:4], "labels": float(row[0])} for row in tiny.sentences(10, 8)]
    model = tiny.bert(hf.BertForSequenceClassification, num_labels=1)
    trainer = hf.Trainer(model, tiny.arguments(tmp_path), train_dataset=rows)
    with pytest.raises(
        CaptureError, match=r"a batch of 2 examples where others have 4.*dataloader_drop_last"
    ):
        Recipe.from_trainer(trainer)
    trainer.args.dataloader_drop_last = True
    ours, _ = tiny.run(build(Recipe.from_trainer(trainer)))
    trainer.train()
    np.testing.assert_allclose(ours, tiny.reported(trainer), rtol=2e-5)


def test_images_of_different_sizes_are_refused(tmp_path: Path) -> None:
    rows = [{"pixel_values": torch.zeros(1, 8 * k, 8), "labels": 0} for k in (1, 2)]
    trainer = hf.Trainer(
        tiny.gpt2(),
        tiny.arguments(tmp_path, per_device_train_batch_size=1, remove_unused_columns=False),
        train_dataset=rows,
    )
    with pytest.raises(CaptureError, match="pixel_values has another shape in other batches"):
        Recipe.from_trainer(trainer)


def test_dropout_is_drawn_from_the_seed(tmp_path: Path) -> None:
    trainer = hf.Trainer(
        tiny.gpt2(resid_pdrop=0.1), tiny.arguments(tmp_path, max_steps=4), train_dataset=causal_rows()
    )
    recipe = Recipe.from_trainer(trainer)
    assert recipe.seed == trainer.args.seed
    ours, _ = tiny.run(build(recipe))
    trainer.train()
    np.testing.assert_allclose(ours, tiny.reported(trainer), rtol=0.1)
