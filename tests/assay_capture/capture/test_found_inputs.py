"""Inputs about which capture was wrong, crashed or advised badly, each right now: what the tables do not cover."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from assay_capture.capture import SGD, CaptureError, Recipe, build
from assay_capture.capture.replacements import REPLACED

from .alone import DATA, ORDER, by_program, by_torch, guarded, unlike

aten = torch.ops.aten


def _applied(function: Any, divisor: float, x: torch.Tensor) -> torch.Tensor:
    found: torch.Tensor = function(x, divisor)
    return found


SAME = "loss and gradients of the first step are those of PyTorch"


@pytest.mark.parametrize("pad", [(-1, 1), (1, -1), (-2, 2), (-1, 3), (2, -1), (-1, -1), (1, 2)])
@pytest.mark.parametrize("mode", ["circular", "replicate", "reflect"])
def test_padding_by_negative_widths_is_that_of_pytorch(mode: str, pad: tuple[int, int]) -> None:
    for function, start in (
        (lambda w: F.pad(w.reshape(1, 1, 4), pad, mode=mode), [1.0, 2.0, 4.0, 8.0]),
        (lambda w: F.pad(w.reshape(1, 1, 4, 4), (*pad, 1, -1), mode=mode), np.arange(16.0) ** 2),
    ):
        found, wanted = by_program(function, start), by_torch(function, start)
        assert not any(unlike(found[what], wanted[what]).any() for what in found)


@pytest.mark.parametrize("x", [89.0, 100.0, -89.0, -100.0])
def test_sinh_and_cosh_are_built_where_they_are_large(x: float) -> None:
    for function in (torch.sinh, torch.cosh):
        assert guarded(function, [x]).startswith(SAME)


@pytest.mark.parametrize("x", [1e8, 1e15, 3e38])
def test_rests_of_large_numbers_are_built(x: float) -> None:
    for function in (torch.fmod, torch.remainder):
        for divisor in (1.5, -1.5, 6.2831855):
            assert guarded(functools.partial(_applied, function, divisor), [x]).startswith(SAME)


@pytest.mark.parametrize("x", [5.0, 9.0, 14.0, 17.0, 20.0])
def test_soft_margins_keep_their_digits(x: float) -> None:
    assert guarded(lambda w: F.soft_margin_loss(w, torch.ones_like(w)), [x]).startswith(SAME)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"stride": 2},
        {"padding": 1},
        {"dilation": 2},
        {"groups": 2},
        {"stride": (1, 2, 1), "padding": (0, 1, 0)},
        {"padding": "same"},
        {"padding": "same", "dilation": (1, 2, 1)},
        {"padding": "valid"},
    ],
    ids=str,
)
def test_every_option_of_a_convolution_of_volumes_is_that_of_pytorch(options: dict[str, Any]) -> None:
    x = torch.arange(2 * 4 * 125).reshape(2, 4, 5, 5, 5).float() * 0.01
    groups = options.get("groups", 1)
    shape = (2, 4 // groups, 2, 2, 2)
    function = lambda w: F.conv3d(x, w.reshape(shape), torch.ones(2), **options)  # noqa: E731
    start = np.linspace(-1, 1, int(np.prod(shape)))
    found, wanted = by_program(function, start), by_torch(function, start)
    for what in found:
        np.testing.assert_allclose(found[what], wanted[what], rtol=1e-4, atol=1e-3)


class BesideNan(nn.Module):
    """A finite loss, and one NaN in the gradient of v, in PyTorch too."""

    def __init__(self, nan: bool) -> None:
        super().__init__()
        self.w, self.v = (
            nn.Parameter(torch.tensor([1.0, 2.0, 4.0, 8.0])),
            nn.Parameter(torch.tensor([-1.0, 4.0])),
        )
        self.nan = nan

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = (F.pad(self.w.reshape(1, 1, 4), (-1, 1), mode="circular") * torch.arange(1.0, 5.0)).sum()
        more = torch.where(self.v > 0, self.v.sqrt(), self.v).sum() if self.nan else self.v.sum()
        return y + more + 0 * x.sum()


@pytest.mark.parametrize("nan", [False, True])
def test_a_wrong_padding_is_refused_beside_a_nan(nan: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = Recipe("x", BesideNan(nan), lambda y, *_: y, SGD(0.1), DATA, 1, 1, order=ORDER, initial="module")
    said = str(build(recipe).labels["checked"])
    assert said.startswith(SAME)
    assert ("1 of 2 values of gradient.v are NaN or infinite in PyTorch's step too" in said) == nan
    right = REPLACED[aten._pad_circular.default]
    monkeypatch.setitem(REPLACED, aten._pad_circular.default, lambda x, pad: right(x.flip(-1), pad))
    with pytest.raises(CaptureError, match=r"gradient\.w differs by"):
        build(recipe)


def test_a_model_with_a_cache_of_its_library_is_built_and_leaves_it_usable() -> None:
    hf = pytest.importorskip("transformers")
    draw = np.random.default_rng(0)
    data = {
        "pixel_values": draw.standard_normal((4, 3, 32, 32)).astype(np.float32),
        "labels": np.array([0, 1, 2, 0]),
    }

    def beit() -> Any:
        torch.manual_seed(0)
        sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 48}
        none = {"drop_path_rate": 0.0, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
        config = hf.BeitConfig(
            image_size=32, patch_size=8, num_labels=3, use_relative_position_bias=True, **sizes, **none
        )
        return hf.BeitForImageClassification(config).train()

    model = beit()
    hashes = []
    for module in (model, model, beit()):
        optimizer = torch.optim.SGD(module.parameters(), 0.1)
        bundle = build(Recipe("x", module, None, optimizer, data, 2, 2, initial="module", strides=(1,)))
        assert re.match(SAME, str(bundle.labels["checked"]))
        hashes.append(bundle.terms.hash())
        batch = {name: torch.from_numpy(array) for name, array in data.items()}
        assert torch.isfinite(module(**batch).loss)  # eager PyTorch, which fills the cache
    assert len(set(hashes)) == 1


@pytest.mark.parametrize("of", [lambda x: x[:, ::-1], lambda x: torch._neg_view(torch.from_numpy(x))])
def test_data_may_be_views_of_any_order(of: Callable[[Any], Any]) -> None:
    x = np.arange(32, dtype=np.float32).reshape(8, 4) / 32
    data = {"x": of(x), "y": np.zeros((8, 1), np.float32)}
    built = build(Recipe("views", nn.Linear(4, 1), nn.functional.mse_loss, SGD(lr=0.1), data, 2, 4))
    assert built.terms.steps == 2
