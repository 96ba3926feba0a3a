"""Random small modules: a chain of supported layers with matching shapes, a suitable input, and a loss.

Everything follows from one seed. A state is a vector [N, F], a sequence [N, T, F] or an image [N, C, H, W].
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from .families import Family

EXAMPLES = 6
Shape = tuple[int, ...]  # without N
Made = tuple[nn.Module, Shape]


class Apply(nn.Module):
    """A function as a layer."""

    def __init__(self, name: str, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.name, self.function = name, function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)

    def extra_repr(self) -> str:
        return self.name


class Residual(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.inner(x)


class Attention(nn.Module):
    """Heads, possibly with shared keys, a causal or a random mask, or none."""

    def __init__(self, width: int, heads: int, keys: int, mask: str) -> None:
        super().__init__()
        self.size, self.heads, self.keys, self.mask = width // heads, heads, keys, mask
        self.project = nn.Linear(width, (heads + 2 * keys) * self.size)
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.project(x).split([n * self.size for n in (self.heads, self.keys, self.keys)], -1)
        q, k, v = (part.unflatten(-1, (-1, self.size)).transpose(1, 2) for part in parts)
        length = x.shape[1]
        keep = (torch.arange(length)[:, None] * 3 + torch.arange(length)) % 4 > 0
        y = functional.scaled_dot_product_attention(
            q,
            k,
            v,
            attn_mask=keep if self.mask == "mask" else None,
            is_causal=self.mask == "causal",
            enable_gqa=self.keys != self.heads,
        )
        return self.out(y.transpose(1, 2).flatten(2))


class Rotary(nn.Module):
    """Positions as angles, as in rotary embeddings."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        angles = torch.arange(x.shape[1])[:, None] / 10.0 ** torch.linspace(0, 1, x.shape[-1] // 2)
        angles = torch.cat([angles, angles], -1).to(x.dtype)
        left, right = x.chunk(2, -1)
        return x * angles.cos() + torch.cat([-right, left], -1) * angles.sin()


ACTIVATIONS: list[Callable[[], nn.Module]] = [
    nn.ReLU,
    nn.Sigmoid,
    nn.Tanh,
    nn.SiLU,
    nn.GELU,
    lambda: nn.GELU("tanh"),
    nn.LeakyReLU,
    nn.ELU,
    nn.Softplus,
    nn.Hardtanh,
    nn.LogSigmoid,
    nn.Hardswish,
    nn.Softsign,
    nn.ReLU6,
    nn.Mish,
]

FUNCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "exp": lambda x: torch.exp(-x.abs()),
    "log": lambda x: torch.log(1 + x * x),
    "log1p": lambda x: torch.log1p(x.abs()),
    "sqrt": lambda x: torch.sqrt(x * x + 1),
    "rsqrt": lambda x: torch.rsqrt(x * x + 1),
    "sin and cos": lambda x: torch.sin(x) + torch.cos(2 * x),
    "erf": lambda x: torch.erf(x),
    "power": lambda x: (x * x + 0.5) ** 1.3,
    "cube": lambda x: 0.1 * x**3,
    "reciprocal": lambda x: 1 / (x * x + 1),
    "clamp": lambda x: x.clamp(-0.7, 0.9),
    "where": lambda x: torch.where(x > 0.1, x, 0.3 * x),
    "masked fill": lambda x: x.masked_fill(x < -0.5, 0.25),
    "maximum": lambda x: torch.maximum(x, 0.5 * x + 0.1),
    "minus its mean": lambda x: x - x.mean(-1, keepdim=True),
    "by its deviation": lambda x: x / (x.var(-1, keepdim=True) + 1),
    "by its norm": lambda x: functional.normalize(x, dim=-1),
    "by its largest": lambda x: x - x.amax(-1, keepdim=True),
    "softmax": lambda x: 3 * x.softmax(-1),
    "softmax of another dimension": lambda x: 3 * x.softmax(1),
    "log softmax": lambda x: x.log_softmax(-1),
    "sum along": lambda x: 0.3 * x.cumsum(-1),
    "flip": lambda x: x.flip(-1),
    "turn": lambda x: torch.roll(x, 1, -1),
    "halves swapped": lambda x: torch.cat(
        x.split([x.shape[-1] // 2, x.shape[-1] - x.shape[-1] // 2], -1)[::-1], -1
    ),
    "padded and cut": lambda x: functional.pad(x, (1, 2), value=0.5)[..., 2:-1],
    "triangle": lambda x: x + torch.tril(torch.ones(x.shape[-1], x.shape[-1], dtype=x.dtype)).sum(0) * 0.1,
    "indexed": lambda x: x[..., torch.arange(x.shape[-1]) // 2],
    "gathered": lambda x: x.gather(-1, (torch.arange(x.shape[-1]) // 2).expand(x.shape)),
    "einsum": lambda x: torch.einsum("n...i,n...j->n...i", x, x) * 0.2,
    "outer product": lambda x: (x.unsqueeze(-1) * x.unsqueeze(-2)).mean(-1),
    "in place": lambda x: x.clone().mul_(1.5).add_(0.1),
    "written slice": lambda x: _written(x),
    "repeated": lambda x: x.repeat(*[1] * (x.ndim - 1), 2)[..., : x.shape[-1]],
    "stacked": lambda x: torch.stack([x, x * x], 0).sum(0),
    "float of integers": lambda x: x + torch.arange(x.shape[-1]).float().to(x.dtype) * 0.1,
}


def _written(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[..., 0] = 0.5 * x[..., -1]
    y[..., 1:] = y[..., 1:] + 0.25
    return y


class Builder:
    """Draws layers for its current shape."""

    def __init__(self, rng: random.Random, shape: Shape) -> None:
        self.rng, self.shape = rng, shape
        self.layers: list[nn.Module] = []

    def grow(self, count: int) -> None:
        for _ in range(count):
            layer, self.shape = self.rng.choice(self._choices())()
            self.layers.append(layer)

    def _choices(self) -> Sequence[Callable[[], Made]]:
        common = [self._activation, self._function, self._residual]
        by_rank: dict[int, list[Callable[[], Made]]] = {
            1: [self._linear, self._linear, self._norm, self._batch_norm_1d],
            2: [self._linear, self._norm, self._attention, self._rotary, self._convolution_1d],
            3: [self._convolution, self._convolution, self._batch_norm_2d, self._group_norm, self._pool],
        }
        return [*common, *by_rank[len(self.shape)]]

    def _activation(self) -> Made:
        return self.rng.choice(ACTIVATIONS)(), self.shape

    def _function(self) -> Made:
        name = self.rng.choice(list(FUNCTIONS))
        if self.shape[-1] < 2:
            return nn.Identity(), self.shape
        return Apply(name, FUNCTIONS[name]), self.shape

    def _residual(self) -> Made:
        inner = self._activation()[0]
        if len(self.shape) < 3:
            inner = nn.Sequential(nn.Linear(self.shape[-1], self.shape[-1]), inner)
        return Residual(inner), self.shape

    def _linear(self) -> Made:
        width = self.rng.randint(2, 9)
        return nn.Linear(self.shape[-1], width, bias=self.rng.random() < 0.7), (*self.shape[:-1], width)

    def _norm(self) -> Made:
        width = self.shape[-1]
        if width < 3:
            return nn.Identity(), self.shape
        norms = [nn.LayerNorm(width, eps=0.1), nn.RMSNorm(width, eps=0.1)]
        norms += [nn.LayerNorm(width, eps=0.1, elementwise_affine=False), nn.LayerNorm(self.shape, eps=0.1)]
        return self.rng.choice(norms), self.shape

    def _batch_norm_1d(self) -> Made:
        affine, tracked = self.rng.random() < 0.7, self.rng.random() < 0.7
        norm = nn.BatchNorm1d(self.shape[0], eps=0.1, affine=affine, track_running_stats=tracked)
        return (norm.eval() if self.rng.random() < 0.2 else norm), self.shape

    def _batch_norm_2d(self) -> Made:
        norm = nn.BatchNorm2d(self.shape[0], eps=0.1, momentum=self.rng.choice([0.1, 0.3]))
        return (norm.eval() if self.rng.random() < 0.2 else norm), self.shape

    def _group_norm(self) -> Made:
        groups = self.rng.choice([g for g in (1, 2, 3, 4) if self.shape[0] % g == 0])
        return nn.GroupNorm(groups, self.shape[0], eps=0.1), self.shape

    def _attention(self) -> Made:
        width = self.shape[-1]
        heads = self.rng.choice([h for h in (1, 2, 4) if width % h == 0])
        keys = self.rng.choice([k for k in (1, heads) if heads % k == 0])
        return Attention(width, heads, keys, self.rng.choice(["none", "causal", "mask"])), self.shape

    def _rotary(self) -> Made:
        return (Rotary() if self.shape[-1] % 2 == 0 else nn.Identity()), self.shape

    def _convolution_1d(self) -> Made:
        """Convolve along the sequence."""
        width = self.rng.randint(2, 6)
        inner = nn.Conv1d(self.shape[-1], width, 3, padding=1)
        layers = [Apply("channels first", lambda x: x.transpose(1, 2)), inner]
        layers.append(Apply("channels last", lambda x: x.transpose(1, 2)))
        return nn.Sequential(*layers), (self.shape[0], width)

    def _convolution(self) -> Made:
        channels, height, width = self.shape
        groups = self.rng.choice([g for g in (1, 1, 2) if channels % g == 0])
        out = groups * self.rng.randint(1, 4)
        kernel, stride = self.rng.choice([1, 3, (1, 3)]), self.rng.choice([1, 1, 2])
        options = {"stride": stride, "padding": self.rng.choice([1, 2]), "groups": groups}
        options["dilation"] = self.rng.choice([1, 1, 2]) if min(height, width) > 2 else 1
        kind: Any = nn.Conv2d
        if self.rng.random() < 0.2:
            kind = nn.ConvTranspose2d
            options |= {"padding": 0, "output_padding": 0, "dilation": 1}
        layer = kind(channels, out, kernel, bias=self.rng.random() < 0.5, **options)
        shape = tuple(layer(torch.zeros(1, *self.shape)).shape[1:])
        return (layer, shape) if max(shape[1:]) <= 12 else (nn.Identity(), self.shape)

    def _pool(self) -> Made:
        if min(self.shape[1:]) < 3:
            return nn.Identity(), self.shape
        layer: nn.Module = self.rng.choice(
            [
                nn.MaxPool2d(2),
                nn.MaxPool2d(3, 2, 1),
                nn.AvgPool2d(2),
                nn.AvgPool2d(3, 1, 1),
                nn.AdaptiveAvgPool2d(1),
            ]
        )
        return layer, tuple(layer(torch.zeros(1, *self.shape)).shape[1:])


@dataclass(frozen=True)
class Ending:
    """A head of layers and a loss with its targets."""

    head: nn.Module
    loss: Callable[..., torch.Tensor]
    targets: np.ndarray[Any, Any]


def _ending(rng: random.Random, features: int, noise: np.random.Generator) -> Ending:
    outputs = rng.randint(2, 5)
    head = nn.Linear(features, outputs)
    classes, numbers = noise.integers(0, outputs, EXAMPLES), noise.standard_normal((EXAMPLES, outputs))
    bits = (numbers > 0).astype(np.float32)
    weight = torch.linspace(0.5, 2, outputs)
    some = classes.copy()
    some[0] = -100
    kind = rng.choice(
        ["cross-entropy", "smooth", "ignored", "weighted", "sum", "nll", "mse", "bce", "huber", "l1", "each"]
    )
    if kind in ("mse", "huber", "l1"):
        losses = {"mse": functional.mse_loss, "huber": functional.smooth_l1_loss, "l1": functional.l1_loss}
        return Ending(head, losses[kind], numbers.astype(np.float32))
    if kind == "bce":
        return Ending(head, functional.binary_cross_entropy_with_logits, bits)
    if kind == "nll":
        return Ending(nn.Sequential(head, nn.LogSoftmax(-1)), functional.nll_loss, classes)
    options: dict[str, dict[str, Any]] = {
        "smooth": {"label_smoothing": 0.1},
        "ignored": {"ignore_index": int(classes[1])},
        "sum": {"reduction": "sum"},
    }
    if kind == "ignored" and (classes == classes[1]).all():
        kind = "cross-entropy"
    if kind == "weighted":
        return Ending(head, lambda y, t: functional.cross_entropy(y, t, weight=weight.to(y.dtype)), classes)
    if kind == "each":
        return Ending(
            head,
            lambda y, t: (
                functional.cross_entropy(y, t, reduction="none") * torch.arange(1, EXAMPLES + 1)
            ).mean(),
            some,
        )
    chosen = options.get(kind, {})
    return Ending(head, lambda y, t: functional.cross_entropy(y, t, **chosen), classes if chosen else some)


def random_family(seed: int) -> Family:
    """Return the module, its data and its loss."""
    rng, noise = random.Random(seed), np.random.default_rng(seed)
    torch.manual_seed(seed)
    kind = rng.choice(["vector", "sequence", "tokens", "image"])
    shape: Shape = {
        "vector": (rng.randint(3, 9),),
        "sequence": (rng.randint(2, 6), rng.choice([4, 6, 8])),
        "tokens": (rng.randint(2, 6), rng.choice([4, 6, 8])),
        "image": (rng.choice([2, 3, 4]), rng.randint(4, 8), rng.randint(4, 8)),
    }[kind]
    x: np.ndarray[Any, Any] = noise.standard_normal((EXAMPLES, *shape)).astype(np.float32)
    first: list[nn.Module] = []
    if kind == "tokens":
        x = noise.integers(0, 11, (EXAMPLES, shape[0]))
        first = [nn.Embedding(11, shape[1], padding_idx=rng.choice([None, 0, 3]))]
    elif len(shape) < 3:
        first = [nn.Linear(shape[-1], shape[-1])]
    else:
        first = [nn.Conv2d(shape[0], shape[0], 1)]
    builder = Builder(rng, shape)
    builder.grow(rng.randint(2, 6))
    ending = _ending(rng, int(np.prod(builder.shape)), noise)
    module = nn.Sequential(*first, *builder.layers, nn.Flatten(), ending.head)
    return Family(module, {"x": x, "y": ending.targets}, ending.loss)
