"""Fields of a recipe: what is taken as it is, what is converted, and what is refused with a remedy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from assay_capture.capture import SGD, Recipe, build
from assay_capture.capture.recipe import seeded_parameters
from referee_py.errors import AssayError

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


def test_seeded_layers_do_not_depend_on_torchs_generator() -> None:
    def made(seed: int) -> nn.Module:
        torch.manual_seed(seed)
        return nn.ModuleList(
            [
                nn.Linear(4, 6),
                nn.LSTM(4, 4, num_layers=2, bidirectional=True),
                nn.GRUCell(4, 4),
                nn.MultiheadAttention(4, 2),
                nn.ConvTranspose2d(2, 3, 3, groups=1),
                nn.Bilinear(3, 4, 2),
                nn.EmbeddingBag(5, 4),
            ]
        )

    first, second = made(1), made(2)
    values, others = seeded_parameters(first, 7), seeded_parameters(second, 7)
    assert set(values) == {name for name, parameter in first.named_parameters() if parameter.any()}
    for name, parameter in first.named_parameters():
        if name in values:
            np.testing.assert_array_equal(values[name](), others[name]())
            own, drawn = float(parameter.abs().max()), float(np.abs(values[name]()).max())
            assert drawn <= own * 2.5, name  # the bound is PyTorch's: the largest of some values is near it
