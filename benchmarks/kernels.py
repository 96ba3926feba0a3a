"""Each operator against torch's, in one process with the same number of threads, for the same arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import repops
import torch

from referee_py.commit.tensor import Array

from .report import RATIO, Table, factor, ms
from .timing import medians, ratio, take_turns

THREADS = (1, 2)
MILLION = 1 << 20
aten = torch.ops.aten


@dataclass(frozen=True)
class Case:
    """An operator applied to some arrays; ``theirs`` takes the same as torch tensors."""

    family: str
    name: str
    inputs: Sequence[Array]
    attrs: dict[str, Any]
    theirs: Callable[..., object]


def _draw(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape, dtype=np.float32)


def _products() -> Iterator[Case]:
    """Squares; GPT-2 small, 512 tokens: projections, their gradients, the head; one row or column; attention."""
    sizes = [(n, n, n) for n in (64, 128, 256, 512, 1024)]
    sizes += [(512, 768, 3072), (512, 3072, 768), (512, 768, 768), (3072, 512, 768), (512, 768, 50257)]
    sizes += [(1, 768, 3072), (1, 768, 50257), (768, 768, 1)]
    for m, k, n in sizes:
        yield Case("mm", f"mm {m} x {k} x {n}", [_draw(m, k), _draw(k, n)], {}, torch.mm)
    for b, m, k, n in ((64, 16, 16, 16), (96, 64, 64, 64), (48, 128, 64, 128), (48, 128, 128, 64)):
        yield Case("bmm", f"bmm {b} of {m} x {k} x {n}", [_draw(b, m, k), _draw(b, k, n)], {}, torch.bmm)


def _convolutions() -> Iterator[Case]:
    """ResNet-50 for CIFAR, 16 images, padded to keep the size: channels in, out, kernel, image side, stride."""
    for c, f, kernel, side, stride in (
        (3, 64, 3, 32, 1),
        (64, 64, 1, 32, 1),
        (64, 64, 3, 32, 1),
        (256, 64, 1, 32, 1),
        (128, 128, 3, 32, 2),
        (256, 512, 1, 32, 2),
        (256, 256, 3, 8, 1),
        (512, 512, 3, 8, 2),
        (512, 2048, 1, 4, 1),
        (512, 512, 3, 4, 1),
    ):
        x, w = _draw(16, c, side, side), _draw(f, c, kernel, kernel)
        dy = _draw(16, f, side // stride, side // stride)
        attrs: dict[str, Any] = {
            "stride": (stride, stride),
            "padding": (kernel // 2, kernel // 2),
            "dilation": (1, 1),
            "groups": 1,
        }
        what = f"{c} -> {f}, {kernel} x {kernel}, side {side}" + (f", stride {stride}" if stride > 1 else "")
        yield Case("conv2d", f"conv2d {what}", [x, w], attrs, _forward(attrs))
        if c > 3:
            more = {**attrs, "input_hw": (side, side)}
            theirs = _input_gradient(attrs, x.shape)
            yield Case("conv2d_input_grad", f"input gradient {what}", [dy, w], more, theirs)
        more = {**attrs, "kernel_hw": (kernel, kernel)}
        theirs = _weight_gradient(attrs, w.shape)
        yield Case("conv2d_weight_grad", f"weight gradient {what}", [dy, x], more, theirs)


def _window(attrs: dict[str, Any]) -> tuple[Any, ...]:
    return attrs["stride"], attrs["padding"], attrs["dilation"], False, (0, 0), attrs["groups"]


def _forward(attrs: dict[str, Any]) -> Callable[..., object]:
    return lambda x, w: aten.convolution(x, w, None, *_window(attrs))


def _input_gradient(attrs: dict[str, Any], shape: tuple[int, ...]) -> Callable[..., object]:
    x, mask = torch.empty(shape), [True, False, False]
    return lambda dy, w: aten.convolution_backward(dy, x, w, None, *_window(attrs), mask)


def _weight_gradient(attrs: dict[str, Any], shape: tuple[int, ...]) -> Callable[..., object]:
    w, mask = torch.empty(shape), [False, True, False]
    return lambda dy, x: aten.convolution_backward(dy, x, w, None, *_window(attrs), mask)


def _rest() -> Iterator[Case]:
    for shape, dims in (
        ((MILLION,), (0,)),
        ((1024, 1024), (1,)),
        ((1024, 1024), (0,)),
        ((64, 128, 16, 16), (0, 2, 3)),
    ):
        what = f"{' x '.join(map(str, shape))} over {', '.join(map(str, dims))}"
        for name, theirs in (("sum", torch.sum), ("amax", torch.amax)):
            attrs = {"dims": dims, "keepdim": 0}
            yield Case(name, f"{name} {what}", [_draw(*shape)], attrs, _reducing(theirs, dims))
    a, b = _draw(1024, 1024), _draw(1024, 1024) + 3
    for name, theirs in (("add", torch.add), ("mul", torch.mul)):
        yield Case(name, f"{name} 1024 x 1024", [a, b], {}, theirs)
        yield Case(name, f"{name} 1024 x 1024 and a row", [a, b[0].copy()], {}, theirs)
    yield Case("exp", "exp 1024 x 1024", [a], {}, torch.exp)
    yield Case("log", "log 1024 x 1024", [np.abs(a)], {}, torch.log)
    for shape, dims in (((1024, 1024), (1, 0)), ((8, 512, 12, 64), (0, 2, 1, 3))):
        what = f"{' x '.join(map(str, shape))} to {', '.join(map(str, dims))}"
        yield Case("permute", f"permute {what}", [_draw(*shape)], {"dims": dims}, _permuting(dims))


def _reducing(theirs: Callable[..., object], dims: tuple[int, ...]) -> Callable[..., object]:
    return lambda x: theirs(x, dims)


def _permuting(dims: tuple[int, ...]) -> Callable[..., object]:
    return lambda x: x.permute(dims).contiguous()


def cases() -> list[Case]:
    return [*_products(), *_convolutions(), *_rest()]


def measure(turns: int) -> Table:
    """Milliseconds and torch's time over ours, for each case and number of threads."""
    columns = ["operator"]
    for threads in THREADS:
        columns += [f"{threads} thread{'s' * (threads > 1)}: ours", "torch", RATIO]
    table = Table("kernels", columns)
    for case in cases():
        row = [case.name]
        for threads in THREADS:
            torch.set_num_threads(threads)
            repops.set_num_threads(threads)
            ours, theirs = take_turns(_both(case), turns)
            times = (ms(seconds) for seconds in medians([ours, theirs]))
            row += [*times, factor(ratio(theirs, ours))]
        table.add(*row)
    return table


def _both(case: Case) -> list[Callable[[], object]]:
    execute = repops.backend("cpu").execute
    operator = case.family
    tensors = [torch.from_numpy(array) for array in case.inputs]

    def ours() -> object:
        return execute(operator, case.inputs, case.attrs)

    def theirs() -> object:
        with torch.no_grad():
            return case.theirs(*tensors)

    _check(case, ours(), theirs())
    return [ours, theirs]


def _check(case: Case, ours: Any, theirs: Any) -> None:
    """Both must have computed the same thing."""
    found = next(tensor for tensor in theirs if tensor is not None) if isinstance(theirs, tuple) else theirs
    np.testing.assert_allclose(ours[0], found.numpy(), rtol=1e-3, atol=1e-2, err_msg=case.name)
