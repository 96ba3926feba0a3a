"""Functions of rows with special values in them: order, reductions, pooling and losses with NaN and infinity.

`LEDGER` lists where a program gives another number than PyTorch, and why that is right.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812

from .alone import Function

_NAN, _INF = math.nan, math.inf
ROWS = (
    (1.0, _NAN, 3.0, -2.0, 0.0, 1.5),
    (_NAN, _NAN, 2.0, 1.0, _INF, -1.0),
    (_INF, -_INF, 3.0, -0.5, 1.0, 2.0),
    (_NAN,) * 6,
    (-_INF, -_INF, -_INF, -_INF, -_INF, -_INF),
    (_INF, _INF, 1.0, 2.0, 3.0, 4.0),
    (0.5, 0.25, 2.0, 1.0, 4.0, 3.0),
    (-1.0, -2.0, -3.0, -4.0, -5.0, -6.0),
)
_TARGETS = torch.tensor([0, 1, 2, 3, 4, 5, 0, 1])

FUNCTIONS: dict[str, Function] = {
    "sort": lambda x: x.sort(-1).values,
    "sort downwards": lambda x: x.sort(-1, descending=True).values,
    "sort places": lambda x: x.nan_to_num(0, 0, 0) * x.detach().argsort(dim=-1, stable=True),
    "topk": lambda x: x.topk(3).values,
    "topk of the smallest": lambda x: x.topk(3, largest=False).values,
    "kthvalue": lambda x: x.kthvalue(4, -1).values,
    "median": lambda x: x.median(-1).values,
    "median place": lambda x: x.nan_to_num(0, 0, 0).sum(-1) * x.detach().median(-1).indices,
    "max": lambda x: x.max(-1).values,
    "max place": lambda x: x.nan_to_num(0, 0, 0).sum(-1) * x.detach().max(-1).indices,
    "min": lambda x: x.min(-1).values,
    "min place": lambda x: x.nan_to_num(0, 0, 0).sum(-1) * x.detach().min(-1).indices,
    "amax": lambda x: x.amax(-1),
    "amin": lambda x: x.amin(-1),
    "aminmax": lambda x: torch.aminmax(x, dim=-1).max - torch.aminmax(x, dim=-1).min,
    "cummax": lambda x: x.cummax(-1).values,
    "cummin": lambda x: x.cummin(-1).values,
    "maximum": lambda x: torch.maximum(x, x.detach().flip(-1)),
    "fmin": lambda x: torch.fmin(x, x.detach().flip(-1)),
    "logsumexp": lambda x: x.logsumexp(-1),
    "softmax": lambda x: x.softmax(-1),
    "log_softmax": lambda x: x.log_softmax(-1),
    "cumsum": lambda x: x.cumsum(-1),
    "prod": lambda x: x.prod(-1),
    "var": lambda x: x.var(-1),
    "norm": lambda x: x.norm(dim=-1),
    "norm inf": lambda x: x.norm(_INF, -1),
    "mean": lambda x: x.mean(-1),
    "nanmean": lambda x: x.nanmean(-1),
    "nansum": lambda x: x.nansum(-1),
    "searchsorted": lambda x: (
        x.nan_to_num(0, 0, 0) * torch.searchsorted(torch.tensor([-1.0, 0.0, 2.0]), x.detach())
    ),
    "any": lambda x: x * x.detach().bool().any(-1, keepdim=True),
    "count": lambda x: x.nan_to_num(0, 0, 0) * x.detach().count_nonzero(-1).unsqueeze(-1),
    "max pooling": lambda x: F.max_pool1d(x[None], 3, 2, 1)[0],
    "mean pooling": lambda x: F.avg_pool1d(x[None], 3, 2, 1)[0],
    "layer norm": lambda x: F.layer_norm(x, (6,)),
    "clamp by tensors": lambda x: torch.clamp(x, torch.tensor(_NAN), torch.full_like(x, 1.0)),
    "cross-entropy": lambda x: F.cross_entropy(x, _TARGETS, reduction="none"),
    "margins": lambda x: F.multi_margin_loss(x, _TARGETS, reduction="none"),
    "squares": lambda x: F.mse_loss(x, torch.ones_like(x), reduction="none"),
    "index add": lambda x: torch.zeros_like(x).index_add(0, _TARGETS, x),
    "product": lambda x: x @ torch.eye(6, dtype=x.dtype),
    "nan_to_num": lambda x: x.nan_to_num(0.5, 2.0, -2.0),
    "masked": lambda x: x.masked_fill(x.isnan(), 0.0).sum(-1),
    "where": lambda x: torch.where(x.isfinite(), x, 0.0).mean(-1),
}
_EQUAL = "of equal elements, or several NaN, PyTorch's algorithm takes any; the program takes the first"
LEDGER: dict[tuple[str, str], tuple[tuple[int, ...], str]] = {
    ("topk", "gradient"): ((1, 3, 4, 5), _EQUAL),
    ("topk of the smallest", "gradient"): ((3, 4), _EQUAL),
    ("max pooling", "gradient"): ((1, 3), _EQUAL),
}
"""Where a program differs: (function, "value" or "gradient") -> the rows, and why that is right."""
