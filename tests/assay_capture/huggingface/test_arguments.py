"""Every argument of a trainer is translated, harmless or refused by name."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import transformers as hf
import trl

from assay_capture.capture import CaptureError
from assay_capture.huggingface.arguments.check import check_arguments
from assay_capture.huggingface.arguments.table import HARMLESS, REFUSED, TRANSLATED

from . import tiny

KINDS = [hf.TrainingArguments, hf.Seq2SeqTrainingArguments, trl.SFTConfig]


@pytest.mark.parametrize("kind", KINDS)
def test_every_argument_is_in_the_table(kind: Any) -> None:
    names = {field.name for field in dataclasses.fields(kind)}
    assert not names - TRANSLATED - HARMLESS - set(REFUSED)


def test_no_argument_is_in_the_table_twice() -> None:
    assert not TRANSLATED & HARMLESS
    assert not (TRANSLATED | HARMLESS) & set(REFUSED)


@pytest.mark.parametrize("kind", KINDS)
def test_defaults_are_taken(kind: Any, tmp_path: Path) -> None:
    check_arguments(tiny.arguments(tmp_path, kind, **({"bf16": False} if kind is trl.SFTConfig else {})))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("fp16", True),
        ("neftune_noise_alpha", 5.0),
        ("use_liger_kernel", True),
        ("auto_find_batch_size", True),
        ("load_best_model_at_end", True),
        ("resume_from_checkpoint", "x"),
        ("deepspeed", {"zero": 1}),
        ("debug", "underflow_overflow"),
        ("optim_target_modules", ["q"]),
    ],
)
def test_what_would_change_the_numbers_is_refused_by_name(name: str, value: Any, tmp_path: Path) -> None:
    arguments = tiny.arguments(tmp_path)
    setattr(arguments, name, value)
    with pytest.raises(CaptureError, match=f"{name}=.*has no counterpart: .{{20}}"):
        check_arguments(arguments)


@pytest.mark.parametrize(
    ("name", "value"),
    [("weight_decay", -1), ("learning_rate", float("nan")), ("max_grad_norm", float("inf")), ("seed", -1)],
)
def test_numbers_that_the_library_takes_though_they_make_no_sense_are_refused(
    name: str, value: float, tmp_path: Path
) -> None:
    with pytest.raises(CaptureError, match=f"{name} is {value}; give a (whole )?number from 0"):
        check_arguments(tiny.arguments(tmp_path, **{name: value}))


def test_an_argument_that_the_table_does_not_know_must_have_its_default(tmp_path: Path) -> None:
    @dataclasses.dataclass
    class Newer(hf.TrainingArguments):
        twist: int = 0

    check_arguments(tiny.arguments(tmp_path, Newer))
    with pytest.raises(CaptureError, match=r"twist=1.*not known here"):
        check_arguments(tiny.arguments(tmp_path, Newer, twist=1))
