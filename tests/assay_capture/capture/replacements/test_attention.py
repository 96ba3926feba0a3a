"""Attention and dropout: PyTorch's numbers; masks are drawn by philox and kept for the gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import repops
import torch
from torch import nn
from torch.nn import functional

from assay_capture.capture import SGD, Built, Unsupported, capture
from assay_capture.capture.recipes import synthetic
from assay_capture.capture.replacements.attention import attention
from assay_capture.capture.seeded import data_order
from referee_py.execute import Run

from .. import eager
from ..families import EXAMPLES, Family, distilbert, gpt2

LENGTH, KEYS = 5, 7
CAUSAL = torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril()
SOME = torch.arange(LENGTH * KEYS).reshape(LENGTH, KEYS) % 3 > 0
PADDED = torch.tensor([[True] * 4 + [False] * 3, [False] * KEYS])[:, None, None, :]  # the second sees no key
BIAS = torch.linspace(-1, 1, LENGTH * KEYS, dtype=torch.float64).reshape(LENGTH, KEYS)

OPTIONS: dict[str, tuple[int, int, dict[str, Any]]] = {  # heads of keys, number of keys, options
    "plain": (4, KEYS, {}),
    "scaled": (4, KEYS, {"scale": 0.3}),
    "causal": (4, LENGTH, {"is_causal": True}),
    "a mask": (4, KEYS, {"attn_mask": SOME}),
    "a mask of padding, one row of it empty": (4, KEYS, {"attn_mask": PADDED}),
    "a bias": (4, KEYS, {"attn_mask": BIAS}),
    "a causal mask": (4, LENGTH, {"attn_mask": CAUSAL}),
    "grouped queries": (2, KEYS, {"enable_gqa": True}),
    "one key for all": (1, LENGTH, {"enable_gqa": True, "is_causal": True}),
    "as many keys as queries": (4, KEYS, {"enable_gqa": True}),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_attention_is_that_of_pytorch_in_fp64(name: str) -> None:
    heads, keys, options = OPTIONS[name]
    rng = torch.Generator().manual_seed(1)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=rng, dtype=torch.float64).requires_grad_()

    q, k, v = draw(2, 4, LENGTH, 6), draw(2, heads, keys, 6), draw(2, heads, keys, 3)
    results = []
    for function in (attention, functional.scaled_dot_product_attention):
        y = function(q, k, v, **options)
        results.append((y, *torch.autograd.grad(y.sin().sum(), (q, k, v))))
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


def test_attention_needs_no_heads() -> None:
    q = torch.randn(3, LENGTH, 4, dtype=torch.float64)
    torch.testing.assert_close(
        attention(q, q, q, is_causal=True), functional.scaled_dot_product_attention(q, q, q, is_causal=True)
    )


def test_a_mask_together_with_is_causal_is_refused() -> None:
    q = torch.randn(1, 1, LENGTH, 4)
    with pytest.raises(Unsupported, match="pass one of them"):
        attention(q, q, q, attn_mask=CAUSAL, is_causal=True)


class Block(nn.Module):
    """Heads that share keys, padding of keys, and a head that scores tokens."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.embed, self.q, self.kv = nn.Embedding(20, 8, padding_idx=0), nn.Linear(8, 8), nn.Linear(8, 8)
        self.out = nn.Linear(8, 20)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        h = self.embed(ids)
        q = self.q(h).unflatten(-1, (4, 2)).transpose(1, 2)
        k, v = self.kv(h).unflatten(-1, (2, 2, 2)).permute(3, 0, 2, 1, 4)
        keep = mask.bool()[:, None, None, :]
        mixed = functional.scaled_dot_product_attention(q, k, v, attn_mask=keep, enable_gqa=True)
        return self.out(h + mixed.transpose(1, 2).flatten(2)).flatten(0, 1)


def test_a_captured_block_with_named_inputs_has_the_gradients_of_fp64() -> None:
    ids, mask, _ = synthetic.sentences(1, EXAMPLES, 6, 20)
    data = {"mask": mask, "y": ids, "ids": ids}
    order, module = data_order(1, EXAMPLES, 8, 1), Block()

    def loss(scores: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(scores, y.flatten(), ignore_index=0)

    built = capture(module, loss, SGD(0.1), data, order, inputs=("ids", "mask"), gradients=True)

    def objective(module: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        return loss(module(ids=batch["ids"], mask=batch["mask"]), batch["y"])

    eager.check_gradients(built, module, objective, data, order)


# ------------------------------------------------------------------------------------------------------- dropout


def masks(built: Built, step: int) -> list[np.ndarray[Any, Any]]:
    """Return the uniform numbers of every site in one step, in order of the sites."""
    nodes = [k for k, node in enumerate(built.program.nodes) if node.name == "philox"]
    nodes.sort(key=lambda k: built.program.nodes[k].attrs["site"])
    assert [built.program.nodes[k].attrs["site"] for k in nodes] == list(range(len(nodes)))
    run = Run(built.program, built.constants, built.initial, step, (1,), repops.backend("cpu"))
    found = run.node_values(run.advance(run.initial(), step - 1), *nodes)
    return [found[k].outputs[0] for k in nodes]


class Drop:
    """`functional.dropout` with given masks, one per call."""

    def __init__(self, noise: list[np.ndarray[Any, Any]]) -> None:
        self.noise = [torch.from_numpy(array) for array in noise]

    def __call__(self, x: torch.Tensor, p: float = 0.5, training: bool = True, *_: bool) -> Any:
        if not training or not p:
            return x
        noise = self.noise.pop(0)
        assert noise.shape == x.shape
        return torch.where(noise >= float(np.float32(p)), x / (1 - p), 0.0)


@pytest.mark.parametrize("make", [gpt2, distilbert])
def test_dropout_of_a_transformer_with_the_programs_masks(
    make: Callable[[float], Family], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In attention too. The masks are read from the program and given to eager FP64."""
    torch.manual_seed(0)
    member = make(0.2)
    member.module.train()
    order = data_order(1, EXAMPLES, 8, 2)
    built = capture(member.module, None, SGD(0.1), member.data, order, seed=5, gradients=True)
    noise = masks(built, 1)
    assert len(noise) >= 5
    drop = Drop(noise)
    monkeypatch.setattr(functional, "dropout", drop)
    monkeypatch.setattr(functional, "scaled_dot_product_attention", attention)
    eager.check_gradients(built, member.module, member.objective, member.data, order)
    assert not drop.noise, "every mask was used"


def dropped(seed: int, p: float = 0.25) -> Built:
    module = nn.Sequential(nn.Linear(6, 64), nn.Dropout(p), nn.ReLU(), nn.Dropout(p), nn.Linear(64, 4))
    x, y = synthetic.images(1, EXAMPLES, (6,), 4)
    return capture(
        module,
        functional.cross_entropy,
        SGD(0.1),
        {"x": x, "y": y},
        data_order(1, EXAMPLES, 16, 2),
        seed=seed,
    )


def test_masks_differ_by_site_step_and_seed_and_keep_their_share() -> None:
    one, two = dropped(1), dropped((1 << 64) - 1)
    draws = [*masks(one, 1), *masks(one, 2), *masks(two, 1)]
    assert len(draws) == 6
    assert all(not np.array_equal(a, b) for k, a in enumerate(draws) for b in draws[:k])
    kept = [(draw >= 0.25).mean() for draw in draws]
    assert all(abs(share - 0.75) < 0.05 for share in kept)
    assert one.program.structure_root == two.program.structure_root, "the seed is a constant"
    assert one.program.constant_root != two.program.constant_root


def test_parts_of_a_batch_draw_masks_of_their_own() -> None:
    x, y = synthetic.images(1, EXAMPLES, (6,), 4)
    module, order = (
        nn.Sequential(nn.Linear(6, 64), nn.Dropout(0.5), nn.Linear(64, 4)),
        data_order(1, EXAMPLES, 16, 1),
    )
    loss = functional.cross_entropy
    built = capture(module, loss, SGD(0.1), {"x": x, "y": y}, order, accumulate=4)
    draws = masks(built, 1)
    assert [draw.shape for draw in draws] == [(4, 64)] * 4
    assert len({draw.tobytes() for draw in draws}) == 4


def test_a_mask_is_drawn_once_and_kept() -> None:
    names = [node.name for node in dropped(1).program.nodes]
    assert names.count("philox") == 2
    assert names.count("ge") == 2


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_dropout_of_nothing_or_everything_draws_nothing(p: float) -> None:
    assert "philox" not in [node.name for node in dropped(1, p).program.nodes]
