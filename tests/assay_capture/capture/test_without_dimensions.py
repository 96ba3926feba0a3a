"""Tensors without dimensions, and losses of one example without a batch, as PyTorch takes them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812

from . import special
from .alone import Function, by_program, by_torch, unlike

_ONE, _NONE = torch.tensor(1), torch.tensor(0)
OF_A_SCALAR: dict[str, Function] = {
    "max": lambda s: s.max(0).values,
    "min": lambda s: s.min(-1).values,
    "max of all": lambda s: s.max(),
    "max place": lambda s: s * (s.detach().max(0).indices + 2),
    "aminmax": lambda s: torch.aminmax(s, dim=0).max,
    "sum": lambda s: s.sum(0),
    "sum, kept": lambda s: s.sum(0, keepdim=True),
    "mean": lambda s: s.mean(0),
    "var": lambda s: s.var(0, correction=0),
    "std": lambda s: s.std(0, correction=0) + s,
    "prod": lambda s: s.prod(0),
    "amax": lambda s: s.amax(0),
    "amin": lambda s: s.amin(-1),
    "argmax": lambda s: s * s.detach().argmax(0),
    "argmin": lambda s: s * (s.detach().argmin(0) + 1),
    "any": lambda s: s * s.detach().bool().any(0),
    "all": lambda s: s * s.detach().bool().all(0),
    "count": lambda s: s * s.detach().count_nonzero(0),
    "softmax": lambda s: s.softmax(0) * s,
    "log_softmax": lambda s: s.log_softmax(0) + s,
    "logsumexp": lambda s: s.logsumexp(0),
    "norm": lambda s: s.norm(dim=0),
    "norm 1": lambda s: s.norm(1, 0),
    "sort": lambda s: s.sort(0).values,
    "argsort": lambda s: s * s.detach().argsort(0),
    "topk": lambda s: s.topk(1).values,
    "kthvalue": lambda s: s.kthvalue(1, 0).values,
    "median": lambda s: s.median(0).values,
    "median of all": lambda s: s.median(),
    "cumsum": lambda s: s.cumsum(0),
    "cumprod": lambda s: s.cumprod(0),
    "cummax": lambda s: s.cummax(0).values,
    "cummin": lambda s: s.cummin(0).values,
    "logcumsumexp": lambda s: s.logcumsumexp(0),
    "flip": lambda s: s.flip(0),
    "index_select": lambda s: s.index_select(0, torch.tensor([0])),
    "gather": lambda s: s.gather(0, _NONE),
    "take": lambda s: s.take(torch.tensor([0, 0])),
    "index_add": lambda s: s.index_add(0, torch.tensor([0]), torch.tensor(2.0), alpha=3),
    "scatter": lambda s: s * s.detach().scatter(0, _NONE, torch.tensor(2.0)),
    "scatter_add": lambda s: s.scatter_add(0, _NONE, torch.tensor(2.0)),
    "scatter_reduce": lambda s: s.scatter_reduce(0, _NONE, torch.tensor(2.0), "amax"),
    "index_reduce": lambda s: s.index_reduce(0, torch.tensor([0]), torch.tensor(2.0), "prod"),
    "transpose": lambda s: s.transpose(0, -1),
    "permute": lambda s: s.permute(()),
    "squeeze": lambda s: s.squeeze(0),
    "unsqueeze": lambda s: s.unsqueeze(0),
    "expand": lambda s: s.expand(3),
    "repeat": lambda s: s.repeat(2, 2),
    "reshape": lambda s: s.reshape(1, 1),
    "flatten": lambda s: s.flatten(),
    "stack": lambda s: torch.stack([s, 2 * s]),
    "where": lambda s: torch.where(s > 0, s, -s),
    "clamp": lambda s: s.clamp(0, 2),
    "maximum": lambda s: torch.maximum(s, _ONE.float()),
    "dot": lambda s: s.reshape(1).dot(s.reshape(1)),
    "mse": lambda s: F.mse_loss(s, _ONE.float()),
    "l1": lambda s: F.l1_loss(s, _ONE.float()),
    "dropout off": lambda s: F.dropout(s, 0.5, training=False),
    "normalize": lambda s: F.normalize(s, dim=0) * s,
    "searchsorted": lambda s: s * torch.searchsorted(torch.tensor([0.0, 2.0]), s.detach()),
    "bucketize": lambda s: s * torch.bucketize(s.detach(), torch.tensor([0.0, 2.0, 3.5]), right=True),
    "taken from one dimension": lambda s: torch.take(torch.stack([s, 3 * s]), _ONE),
    "put": lambda s: torch.stack([s, s]).put(_ONE, 2 * s.reshape(1)),
}
OF_ONE_EXAMPLE: dict[str, Function] = {
    "cross-entropy": lambda w: F.cross_entropy(w, _ONE),
    "cross-entropy, not reduced": lambda w: F.cross_entropy(w, _ONE, reduction="none"),
    "cross-entropy, summed": lambda w: F.cross_entropy(w, _ONE, reduction="sum"),
    "cross-entropy, smoothed": lambda w: F.cross_entropy(w, _ONE, label_smoothing=0.1),
    "cross-entropy, weighted": lambda w: F.cross_entropy(w, _ONE, torch.tensor([1.0, 2.0, 3.0])),
    "cross-entropy with probabilities": lambda w: F.cross_entropy(w, torch.tensor([0.2, 0.3, 0.5])),
    "nll": lambda w: F.nll_loss(w, _NONE),
    "nll, ignored": lambda w: F.nll_loss(w, torch.tensor(-100), reduction="sum") + w.sum(),
    "linear cross-entropy": lambda w: F.linear_cross_entropy(w, torch.eye(4, 3), _ONE),
    "linear cross-entropy of a batch": lambda w: F.linear_cross_entropy(w[None], torch.eye(4, 3), _ONE[None]),
    "margins": lambda w: F.multi_margin_loss(w, _ONE),
    "margins of labels": lambda w: F.multilabel_margin_loss(w, torch.tensor([1, -1, 0])),
    "soft margins of labels": lambda w: F.multilabel_soft_margin_loss(w, torch.tensor([1.0, 0.0, 1.0])),
    "binary cross-entropy": lambda w: F.binary_cross_entropy_with_logits(w, torch.tensor([1.0, 0.0, 1.0])),
    "cosine": lambda w: F.cosine_embedding_loss(w, torch.tensor([1.0, 0.5, 0.0]), _ONE),
    "triplet": lambda w: F.triplet_margin_loss(w, 2 * w, w.flip(0)),
}


def expect_the_same(function: Function, start: object) -> None:
    found, wanted = by_program(function, start), by_torch(function, start)
    for what in ("value", "gradient"):
        assert found[what].shape == wanted[what].shape
        assert not unlike(found[what], wanted[what], None, 3e-7).any(), (what, found[what], wanted[what])


@pytest.mark.parametrize("name", OF_A_SCALAR)
def test_a_function_of_a_tensor_without_dimensions_is_that_of_pytorch(name: str) -> None:
    expect_the_same(lambda w: OF_A_SCALAR[name](w.sum()), [1.0, 2.5])


@pytest.mark.parametrize("name", special.FUNCTIONS)
def test_a_function_of_a_number_takes_a_tensor_without_dimensions(name: str) -> None:
    expect_the_same(special.FUNCTIONS[name], np.float32(0.3))


@pytest.mark.parametrize("name", OF_ONE_EXAMPLE)
def test_a_loss_of_one_example_needs_no_batch(name: str) -> None:
    expect_the_same(OF_ONE_EXAMPLE[name], [0.5, -1.0, 2.0])
