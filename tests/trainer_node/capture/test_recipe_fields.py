"""Fields of a recipe: what is taken as it is, what is converted, and what is refused with a remedy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from referee_py.errors import AssayError
from trainer_node.capture import SGD, Recipe, build

X = np.random.default_rng(0).standard_normal((16, 6)).astype(np.float32)
Y = np.arange(16) % 3


def recipe() -> Recipe:
    torch.manual_seed(0)
    module = nn.Linear(6, 3)
    return Recipe("fields", module, nn.functional.cross_entropy, SGD(0.1), {"x": X, "y": Y}, 4, 4)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("steps", 3.0, "steps is 3.0; it must be a whole number"),
        ("steps", True, "steps is True"),
        ("batch_size", 0, "batch_size is 0; it must be at least 1"),
        ("seed", -1, "seed is -1"),
        ("seed", 1 << 64, "below 2.64"),
        ("strides", 4, "strides is 4; it must be a tuple"),
        ("strides", (4.0, 1), "whole numbers"),
        ("strides", (3, 2), "the last is 1"),
        ("strides", (), "1 to 8 of them"),
        ("loss", 3, "loss is 3; it must be a function"),
        ("module", 3, "module is int"),
        ("clip_norm", 0, "clip_norm is 0; it must be above 0"),
        ("clip_norm", -1.0, "clip_norm is -1.0"),
        ("clip_norm", float("nan"), "clip_norm is nan"),
        ("clip_value", "1", "clip_value is '1'"),
        ("expert_capacity", -1.0, "expert_capacity is -1.0"),
        ("data", [X, Y], "data is list; it must be a mapping"),
        ("data", {"x": X, "y": np.array(["a"] * 16)}, "data y is <U1"),
        ("data", {"x": [[1.0], [1.0, 2.0]], "y": [0, 1]}, "data x: .*every example the same shape"),
        ("data", {"x": X.astype(np.float64), "y": Y}, "data x: dtype torch.float64"),
        ("order", [[0, 1]], r"order is \[1, 2\] for 4 steps of 4"),
        ("inputs", "x", "inputs 'x' of the arrays .*: a tuple"),
    ],
)
def test_fields_that_are_refused(field: str, value: Any, message: str) -> None:
    with pytest.raises(AssayError, match=message):
        build(replace(recipe(), **{field: value}))


@pytest.mark.parametrize(
    "data",
    [
        {"x": torch.from_numpy(X), "y": torch.from_numpy(Y)},
        {"x": X.tolist(), "y": Y.tolist()},
        {"x": X.astype(">f4"), "y": Y.astype(">i8")},
        {"x": X, "y": Y.astype(np.int16)},
    ],
)
def test_data_in_other_forms_are_the_same_program(data: Any) -> None:
    want = build(recipe()).program
    assert build(replace(recipe(), data=data)).program == want


def test_a_loss_may_need_the_output_alone() -> None:
    bundle = build(replace(recipe(), data={"x": X}, loss=lambda output: output.square().mean()))
    assert str(bundle.labels["checked"]).startswith("loss and gradients")
