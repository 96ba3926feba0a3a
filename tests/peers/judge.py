"""The outcome of a case: what capture makes of a sample, beside eager PyTorch."""

from __future__ import annotations

import copy
import re
import signal
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any
from unittest import mock

import numpy as np
import repops
import torch
from repops.torch_arrays import to_numpy

from assay_capture.capture import SGD, Built, CaptureError, Unexpected, capture
from assay_capture.capture.precise import NotPrecise, metrics_f64
from referee_py.execute import Metrics, Run

from .samples import Case, Sampled

CPU = repops.backend("cpu")
RIGHT, REFUSED, SKIPPED, KNOWN, WRONG, CRASH, SLOW = (
    "right",
    "refused",
    "skipped",
    "known",
    "wrong",
    "crash",
    "slow",
)
FAILS = (WRONG, CRASH, SLOW)
SECONDS = 300
"""Time for a case; on a busy machine a capture may take long."""
ULPS = {torch.float32: 2.0**-23, torch.bfloat16: 2.0**-7}
OF_ELEMENT, OF_LARGEST = 32, 8
"""Tolerance, in units in the last place of the element and of the largest element of its tensor: sums of terms that
nearly cancel have errors of the terms' size."""
OF_EAGER = 4
"""And in units of the largest error of eager PyTorch itself, as its FP64 shows it."""
PRECISE = 1e-7
"""Largest difference in FP64, in units of a tensor's largest element, of a program that is the same function. Programs
hold constants of FP32."""
_OPERATOR = re.compile(
    r"ATen operator \S+|aten\.\w+|aten::\w+|prims\.\w+|the derivative for '\w+|a sort of rows"
)
_REMEDY = re.compile(r"; \w.{9}|\(\w.{9,}\)$", re.DOTALL)
_PLACE = re.compile(r"^(module \S+|loss or gradient)[,:] ")

_RELU = "the gradient of relu at NaN is 0 (layers whose output is NaN)"
_ZERO = "a gradient that is 0 everywhere is missing (mode nearest)"
KNOWN_TO_DIFFER = {
    **dict.fromkeys((f"module/nn.LPPool{d}d" for d in (1, 2, 3)), _RELU),
    **dict.fromkeys(("op/grid_sampler_2d", "op/nn.functional.grid_sample"), _ZERO),
    "op/topk/bfloat16": "the order of equal elements, which PyTorch leaves open",
    "op/matrix_exp/bfloat16": "eager PyTorch gives NaN in bfloat16, a program the exponential",
}
"""Why functions, or a dtype of one, may differ for now. No other outcome is excused."""

Arrays = dict[str, Any]


@dataclass(frozen=True)
class Outcome:
    """A case's outcome, and why. `trains`: its sample requires gradients. `whole`: a refusal names module, operator and
    remedy."""

    case: str
    outcome: str
    reason: str = ""
    trains: bool = False
    whole: bool = False

    def row(self) -> dict[str, Any]:
        return asdict(self)


def judge(case: Case) -> Outcome:
    """Return the outcome of a case."""
    trains = any(p.requires_grad for n, p in case.module.named_parameters() if n != "anchor")
    try:
        with _limited(SECONDS), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            outcome, reason = _judge(
                case.module, ULPS[torch.float32 if case.dtype == "float32" else torch.bfloat16]
            )
    except TimeoutError:
        outcome, reason = SLOW, f"more than {SECONDS} s"
    known = next(
        (why for name, why in KNOWN_TO_DIFFER.items() if f"{case.name}/".startswith(f"{name}/")), None
    )
    if outcome in FAILS and known is not None:
        outcome, reason = KNOWN, f"{known}: {reason}"
    whole = outcome == REFUSED and all(p.search(reason) for p in (_OPERATOR, _REMEDY, _PLACE))
    return Outcome(case.name, outcome, reason, trains, whole)


def _judge(module: Sampled, ulp: float) -> tuple[str, str]:
    try:
        want = _eager(module, 1)
        with mock.patch("torch.manual_seed"):  # which PyTorch's samples of random functions call themselves
            again = _eager(module, 2)
    except TimeoutError:
        raise
    except Exception as error:
        return SKIPPED, f"eager PyTorch: {_first_line(error)}"
    if (reason := _left_out(module, want, again)) is not None:
        return SKIPPED, reason
    try:
        built = _captured(module)
        found = _run(built)
    except Unexpected as error:
        return CRASH, str(error)
    except CaptureError as error:
        return REFUSED, str(error)
    except TimeoutError:
        raise
    except Exception as error:
        return CRASH, f"{type(error).__name__}: {_first_line(error)}"
    try:
        exact = _eager(module, 1, double=True)
    except TimeoutError:
        raise
    except Exception:  # some functions have no FP64
        exact = want
    outcome, reason = _compared(found, want, exact, ulp)
    if outcome == WRONG and exact is not want and _is_rounding(built, found, want, exact):
        return RIGHT, ""
    return outcome, reason


def _captured(module: Sampled) -> Built:
    data, order = {"x": np.zeros((1, 1), np.float32)}, np.zeros((1, 1), np.int64)
    return capture(copy.deepcopy(module), _loss, SGD(0.0), data, order, gradients=True)


def _run(built: Built) -> Arrays:
    metrics = Metrics(built.labels.metrics)
    run = Run(built.program, built.constants, built.initial, 1, (1,), CPU, hook=metrics)
    run.advance(run.initial(), 1)
    return {name: np.array(array) for name, array in metrics.latest.items() if name != "loss"}


def _loss(result: Any) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Return the sum of all elements with a weight each, which bfloat16 holds exactly; and every output as a metric."""
    anchor, outputs = result
    total = anchor.sum()
    for y in outputs:
        if y.is_floating_point() and y.requires_grad:
            eighths = torch.arange(float(y.numel())).reshape(y.shape) / 8
            total = total + (y.float() * (eighths - eighths.floor() - 0.4375)).sum()
    return total, {f"output{k}": y for k, y in enumerate(outputs)}


def _eager(module: Sampled, seed: int, double: bool = False) -> Arrays:
    """Return the outputs and gradients of eager PyTorch; with `double`, from the same numbers in FP64."""
    module = copy.deepcopy(module)
    module = module.double() if double else module
    torch.default_generator.manual_seed(seed)
    loss, found = _loss(module(torch.zeros(1, 1)))
    names, parameters = zip(*((n, p) for n, p in module.named_parameters() if p.requires_grad), strict=True)
    gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
    found |= {f"gradient.{n}": g for n, g in zip(names, gradients, strict=True) if g is not None}
    return {
        name: tensor.detach() + 0 if tensor._is_zerotensor() else tensor.detach()
        for name, tensor in found.items()
    }


def _left_out(module: Sampled, want: Arrays, again: Arrays) -> str | None:
    """Return why a sample is not for a program at all, else None."""
    tensors = [*want.values(), *module.parameters(), *module.buffers()]
    if any(t.is_complex() for t in tensors):
        return "complex numbers"
    if any(t.layout != torch.strided for t in tensors):
        return "sparse tensors"
    if any(t.is_quantized for t in tensors):
        return "quantised tensors"
    if not any(name.startswith("output") for name in want):
        return "gives no tensor"
    same = all(
        a.shape == b.shape and torch.equal(a.nan_to_num(), b.nan_to_num())
        for a, b in zip(want.values(), again.values(), strict=True)
    )
    return None if same else "random, or not initialised"


def _compared(found: Arrays, want: Arrays, exact: Arrays, ulp: float) -> tuple[str, str]:
    if set(found) != set(want):
        return WRONG, f"gives {sorted(found)}, eager PyTorch {sorted(want)}"
    for name, tensor in want.items():
        y, near = found[name], to_numpy(tensor.cpu().contiguous())
        if y.shape != near.shape:
            return WRONG, f"{name} is {list(y.shape)}, not {list(near.shape)}"
        y, near = y.astype(np.float64), near.astype(np.float64)
        true = exact[name].to(torch.float64).numpy() if name in exact else near
        if not tensor.is_floating_point():
            if not np.array_equal(y, near):
                return WRONG, f"{name} differs at {int((y != near).sum())} of {y.size} places"
            continue
        floor = ulp if name.startswith("gradient.") else 0.0
        if (reason := _apart(y, near, true if true.shape == near.shape else near, ulp, floor)) is not None:
            return WRONG, f"{name}: {reason}"
    return RIGHT, ""


def _is_rounding(built: Built, found: Arrays, want: Arrays, exact: Arrays) -> bool:
    """Return whether the program in FP64 is eager PyTorch's in FP64, and rounds in FP32 about as much at its worst.

    Where terms nearly cancel in one tensor of a deep module, eager's errors there say little: it may have its own
    elsewhere.
    """
    try:
        precise = metrics_f64(built.loaded)
    except NotPrecise:
        return False
    errors = []
    if not exact.keys() <= precise.keys() & found.keys():
        return False
    for name, tensor in exact.items():
        true = tensor.to(torch.float64).numpy()
        largest = np.abs(true).max(initial=0.0) or 1.0
        arrays = (precise[name], found[name], want[name].to(torch.float64).numpy())
        if any(array.shape != true.shape or not np.isfinite(array).all() for array in arrays):
            return False
        errors.append([np.abs(array - true).max(initial=0.0) / largest for array in arrays])
    in_f64, ours, eagers = np.max(errors, axis=0)
    return bool(in_f64 <= PRECISE and ours <= OF_EAGER * eagers)


def _apart(y: Any, near: Any, true: Any, ulp: float, floor: float = 0.0) -> str | None:
    """Return how a tensor differs from eager PyTorch's, place by place; None if it does not.

    NaN and infinities must stand where eager PyTorch has them. An element may be near its FP64 instead. `floor` is for
    gradients, which are differences of terms of the size of the loss's weights, at most 1/2.
    """
    for kind, where in (("NaN", np.isnan), ("infinity", np.isposinf), ("-infinity", np.isneginf)):
        if not np.array_equal(where(y), where(near)):
            return f"{kind} at other places, {int(where(y).sum())} for {int(where(near).sum())} of {y.size}"
    y, near, true = y[np.isfinite(near)], near[np.isfinite(near)], true[np.isfinite(near)]
    true = np.where(np.isfinite(true), true, near)
    largest = max(np.abs(near).max(initial=0.0), np.abs(true).max(initial=0.0))
    own = np.abs(near - true).max(initial=0.0)
    apart = np.minimum(np.abs(y - near), np.abs(y - true))
    allowed = ulp * (OF_ELEMENT * np.abs(near) + OF_LARGEST * largest) + OF_EAGER * min(
        own, 1e3 * ulp * largest
    )
    allowed += floor
    worst = np.argmax(apart - allowed) if apart.size else 0
    if apart.size and apart[worst] > allowed[worst] + 1e-37:
        return f"{y[worst]:.9g}, eager {near[worst]:.9g}, FP64 {true[worst]:.9g}, largest {largest:.3g}"
    return None


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [""])[0][:200]


@contextmanager
def _limited(seconds: int) -> Iterator[None]:
    """Raise TimeoutError in what takes longer."""

    def ended(*_: Any) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, ended)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
