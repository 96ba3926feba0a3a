"""Functions of a tensor [4, 6] that cannot be programs, by the names of what they try."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

Function = Callable[[torch.Tensor], Any]

CANNOT: dict[str, Function] = {
    "item": lambda x: x * x.sum().item(),
    "branch": lambda x: x if x.sum() > 0 else -x,
    "mask index": lambda x: x[x > 0],
    "numpy": lambda x: x + torch.from_numpy(x.detach().numpy()),
    "tolist": lambda x: x * x.sum(1).tolist()[0],
    "bincount": lambda x: torch.bincount((x[0] > 0).long()) * 1.0,
    "histogram": lambda x: torch.histogram(x.detach(), 4)[0] + x.sum(),
    "fft2": lambda x: torch.fft.fft2(x).abs(),
    "stft": lambda x: torch.stft(x, 4, return_complex=True).abs(),
    "eig": lambda x: torch.linalg.eigvalsh(x.T @ x),
    "lstsq": lambda x: torch.linalg.lstsq(x, x)[0],
    "pinv": lambda x: torch.linalg.pinv(x),
    "multinomial": lambda x: torch.multinomial(x.softmax(1), 2) * 1.0,
    "gamma": lambda x: torch.distributions.Gamma(x.exp(), 1.0).rsample(),
    "beta": lambda x: torch.distributions.Beta(x.exp(), x.exp()).rsample(),
    "cauchy": lambda x: x + torch.empty(4, 6).cauchy_(),
    "geometric": lambda x: x + torch.empty(4, 6).geometric_(0.5),
    "log_normal": lambda x: x + torch.empty(4, 6).log_normal_(),
    "sparse": lambda x: torch.sparse.mm(x.to_sparse(), x.T),
    "sparse embedding": lambda x: F.embedding(torch.tensor([1, 2]), x, sparse=True),
    "max_norm": lambda x: F.embedding(torch.tensor([1, 2]), x, max_norm=1.0),
    "packed": lambda x: (
        nn.utils.rnn.pack_padded_sequence(x.reshape(2, 2, 6), torch.tensor([2, 1]), batch_first=True).data
    ),
    "quantize": lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8).dequantize(),
    "igamma": lambda x: torch.special.gammainc(x.exp(), x.exp()),
    "zeta": lambda x: torch.special.zeta(x.exp() + 1, x.exp()),
    "bessel_j0": lambda x: torch.special.bessel_j0(x.detach()) + x,
    "erfcx": lambda x: torch.special.erfcx(x),
    "ndtri": lambda x: torch.special.ndtri(x.sigmoid()),
    "nextafter": lambda x: torch.nextafter(x.detach(), x.detach() + 1) + x,
    "frexp": lambda x: torch.frexp(x)[0],
    "view_dtype": lambda x: x.view(torch.int32) + x,
    "unique_consecutive": lambda x: torch.unique_consecutive(x) + 0,
    "combinations": lambda x: torch.combinations(x[0]),
    "cuda": lambda x: x.cuda().cpu(),
    "argwhere": lambda x: torch.argwhere(x > 0) * 1.0,
    "float64 table": lambda x: x + torch.arange(6, dtype=torch.float64),
    "complex polar": lambda x: torch.polar(x, x).real,
    "shapes": lambda x: x @ x,
    "long sort": lambda x: x.repeat(1, 500).sort(1)[0],
    "equal": lambda x: x if torch.equal(x, x + 1) else -x,
    "allclose": lambda x: x if torch.allclose(x, x) else -x,
    "int of tensor": lambda x: x[: int(x.abs().sum())],
    "range": lambda x: sum(x * k for k in range(int((x > 0).sum()))),
    "svd_lowrank": lambda x: torch.svd_lowrank(x, 2)[1],
    "gcd": lambda x: torch.gcd(torch.tensor([4, 6]), torch.tensor([2, 3])).sum() * x,
    "lcm": lambda x: torch.lcm(torch.tensor([4, 6]), torch.tensor([2, 3])).sum() * x,
    "popcount": lambda x: x * (torch.arange(6) | 3),
    "bitwise not": lambda x: x * (~torch.arange(6)),
    "nanmedian": lambda x: x.nanmedian(1)[0],
    "rrelu": lambda x: F.rrelu(x),
    "polar": lambda x: torch.view_as_real(torch.polar(x.exp(), x)),
    "i0e": lambda x: torch.special.i0e(x),
    "linalg.cond": lambda x: torch.linalg.cond(x),
    "nuclear": lambda x: torch.linalg.matrix_norm(x, "nuc"),
}
