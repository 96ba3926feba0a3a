"""Functions of one number at special values: what a composite must give where few models go, and some do at last.

`FUNCTIONS` are element by element; `VALUES` are the edges of binary32, of the functions' own branches and of what is
no number. `LEDGER` lists where a program gives another number than PyTorch, and why that is right.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F  # noqa: N812

Function = Callable[[torch.Tensor], torch.Tensor]
_TINY, _HUGE = 2.0**-149, 3.4028234663852886e38

_POSITIVE = (
    *(
        0.0,
        _TINY,
        3e-40,
        2.0**-126,
        1e-30,
        1e-20,
        1e-10,
        1e-7,
        5.9604645e-8,
        1e-4,
        1e-3,
        0.1,
        0.25,
        0.49999997,
    ),
    *(0.5, 0.50000006, 0.7, 0.99999994, 1.0, 1.0000001, 1.5, 2.0, 2.5, 3.0, 4.0, 9.0, 17.0, 20.0, 50.0),
    *(88.0, 89.0, 100.0, 1e4, 8388609.0, 1e9, 1e15, 1e30, _HUGE, math.inf),
)
VALUES = (*_POSITIVE, *(-value for value in _POSITIVE), math.nan)


def _against(function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], other: float) -> Function:
    """Return a function of two tensors with one of them constant."""
    return lambda x: function(x, torch.full_like(x, other))


FUNCTIONS: dict[str, Function] = {
    **{
        name: getattr(torch, name)
        for name in (
            *("abs", "neg", "sign", "sgn", "square", "sqrt", "rsqrt", "reciprocal", "exp", "exp2", "expm1"),
            *("log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh"),
            *(
                "tanh",
                "asinh",
                "acosh",
                "atanh",
                "erf",
                "erfc",
                "erfinv",
                "sigmoid",
                "logit",
                "sinc",
                "floor",
            ),
            *("ceil", "round", "trunc", "frac", "relu", "deg2rad", "rad2deg", "nan_to_num", "positive"),
        )
    },
    **{
        name: getattr(F, name)
        for name in (
            *("relu6", "elu", "selu", "celu", "gelu", "silu", "mish", "softplus", "softsign", "tanhshrink"),
            *("logsigmoid", "hardtanh", "hardsigmoid", "hardswish", "hardshrink", "softshrink", "leaky_relu"),
        )
    },
    "gelu tanh": lambda x: F.gelu(x, approximate="tanh"),
    "threshold": lambda x: F.threshold(x, 0.5, 20.0),
    "softplus 3": lambda x: F.softplus(x, 3.0, 5.0),
    "elu 2": lambda x: F.elu(x, 2.0),
    "logit eps": lambda x: torch.logit(x, 1e-6),
    "expit log": lambda x: torch.sigmoid(x).log(),
    "clamp": lambda x: x.clamp(-1, 2),
    "clamp min": lambda x: x.clamp(min=0.5),
    "clamp max": lambda x: x.clamp(max=0.5),
    "where positive": lambda x: torch.where(x > 0, x.sqrt(), x),
    "masked": lambda x: x.masked_fill(x > 1, -math.inf),
    "isnan": lambda x: torch.where(x.isnan(), 1.0, x),
    "isfinite": lambda x: torch.where(x.isfinite(), x, 3.0),
    "isinf": lambda x: torch.where(x.isinf(), 2.0, x),
    "signbit": lambda x: torch.where(x.signbit(), 2.0, x),
    "round decimals": lambda x: torch.round(x, decimals=2),
    "heaviside": lambda x: x * torch.heaviside(x.detach(), torch.tensor(0.5)),
    "power 0": lambda x: x**0,
    "power 2": lambda x: x**2,
    "power 3": lambda x: x**3,
    "power -1": lambda x: x**-1,
    "power -2": lambda x: x**-2,
    "power 0.5": lambda x: x**0.5,
    "power -0.5": lambda x: x**-0.5,
    "power 1.7": lambda x: x**1.7,
    "power 4": lambda x: x**4,
    "2 to the power": lambda x: 2**x,
    "0.5 to the power": lambda x: 0.5**x,
    "fmod 1.5": lambda x: torch.fmod(x, 1.5),
    "fmod -0.7": lambda x: torch.fmod(x, -0.7),
    "remainder 1.5": lambda x: torch.remainder(x, 1.5),
    "remainder -1.5": lambda x: torch.remainder(x, -1.5),
    "remainder 2 pi": lambda x: torch.remainder(x, 2 * math.pi),
    "remainder of 3": lambda x: torch.remainder(torch.full_like(x, 3.0), x.detach()) * x,
    "fmod of 3": lambda x: torch.fmod(torch.full_like(x, 3.0), x.detach()) * x,
    "floor divide": lambda x: x * torch.floor_divide(x.detach(), 1.5),
    "div floor": lambda x: x * torch.div(x.detach(), 1.5, rounding_mode="floor"),
    "div trunc": lambda x: x * torch.div(x.detach(), 1.5, rounding_mode="trunc"),
    **{
        f"{name} {other}": _against(getattr(torch, name), other)
        for name in ("maximum", "minimum", "fmax", "fmin")
        for other in (0.5, math.nan)
    },
    **{
        f"{name} {other}": _against(getattr(torch, name), other)
        for name in ("atan2", "hypot", "copysign", "logaddexp", "xlogy")
        for other in (0.0, -1.5)
    },
    "atan2 inf": _against(torch.atan2, math.inf),
    "hypot inf": _against(torch.hypot, math.inf),
    "logaddexp2": _against(torch.logaddexp2, 1.0),
    "logaddexp inf": _against(torch.logaddexp, math.inf),
    "logaddexp -inf": _against(torch.logaddexp, -math.inf),
    "divided by": lambda x: 1.5 / x,
    "lerp": lambda x: torch.lerp(x, torch.ones_like(x), 0.3),
    "addcdiv": lambda x: torch.addcdiv(torch.ones_like(x), torch.ones_like(x), x),
    "soft margin": lambda x: F.soft_margin_loss(x, torch.ones_like(x), reduction="none"),
    "soft margin of the other": lambda x: F.soft_margin_loss(x, -torch.ones_like(x), reduction="none"),
    "cross-entropy with logits": lambda x: F.binary_cross_entropy_with_logits(
        x, torch.full_like(x, 0.3), reduction="none"
    ),
    "huber": lambda x: F.huber_loss(x, torch.zeros_like(x), reduction="none"),
    "smooth l1": lambda x: F.smooth_l1_loss(x, torch.zeros_like(x), reduction="none"),
    "l1": lambda x: F.l1_loss(x, torch.zeros_like(x), reduction="none"),
    "squares": lambda x: F.mse_loss(x, torch.ones_like(x), reduction="none"),
    "poisson": lambda x: F.poisson_nll_loss(x, torch.ones_like(x), reduction="none"),
    "divergence": lambda x: F.kl_div(x, torch.full_like(x, 0.3), reduction="none"),
    "hinge": lambda x: F.hinge_embedding_loss(x, -torch.ones_like(x), reduction="none"),
    "entropy": torch.special.entr,
    "ndtr": torch.special.ndtr,
    "round trip": lambda x: x.bfloat16().float(),
}

_KINK = (
    "the value is NaN in both, and so is the loss; the composite, which is in every program "
    "with this function, asks x > 0, where PyTorch's kernel asks x <= 0"
)
LEDGER: dict[tuple[str, str], tuple[tuple[float, ...], str]] = {
    ("relu", "gradient"): ((math.nan,), _KINK),
    ("softshrink", "gradient"): ((math.nan,), _KINK),
    ("logit eps", "gradient"): ((math.nan,), _KINK),
    ("smooth l1", "gradient"): ((math.nan,), _KINK),
    ("fmod -0.7", "value"): (
        (_HUGE,),
        "the program's rest is exact; PyTorch's vectorised kernel overflows there",
    ),
}
"""Where a program differs: (function, "value" or "gradient") -> the arguments, and why that is right."""
