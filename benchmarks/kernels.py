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
    sizes = [(n, n, n) for n in (64, 128, 256, 512, 1024)]
    sizes += [(512, 768, 3072), (512, 3072, 768), (512, 768, 768)]
    for m, k, n in sizes:
        yield Case("mm", f"mm {m} x {k} x {n}", [_draw(m, k), _draw(k, n)], {}, torch.mm)
    for b, m, k, n in ((96, 64, 64, 64), (12, 512, 64, 512), (12, 512, 512, 64)):
        yield Case("bmm", f"bmm {b} of {m} x {k} x {n}", [_draw(b, m, k), _draw(b, k, n)], {}, torch.bmm)


def _convolutions() -> Iterator[Case]:
    """ResNet-18 for CIFAR, 16 images, 3 x 3, padding 1: channels in, out, image side, stride."""
    for c, f, side, stride in (
        (3, 64, 32, 1),
        (64, 64, 32, 1),
        (64, 128, 32, 2),
        (128, 128, 16, 1),
        (256, 256, 8, 1),
        (512, 512, 4, 1),
    ):
        x, w = _draw(16, c, side, side), _draw(f, c, 3, 3)
        dy = _draw(16, f, side // stride, side // stride)
        two, one = (stride, stride), (1, 1)
        window = {"stride": two, "padding": one, "dilation": one, "groups": 1}
        what = f"{c} -> {f}, {side} x {side}" + (f", stride {stride}" if stride > 1 else "")
        yield Case("conv2d", f"conv2d {what}", [x, w], window, _forward(two))
        if c > 3:
            attrs = {**window, "input_hw": (side, side)}
            yield Case(
                "conv2d_input_grad", f"input gradient {what}", [dy, w], attrs, _input_gradient(two, x.shape)
            )
        attrs = {**window, "kernel_hw": (3, 3)}
        yield Case(
            "conv2d_weight_grad", f"weight gradient {what}", [dy, x], attrs, _weight_gradient(two, w.shape)
        )


def _forward(stride: tuple[int, int]) -> Callable[..., object]:
    return lambda x, w: aten.convolution(x, w, None, stride, (1, 1), (1, 1), False, (0, 0), 1)


def _backward(dy: object, x: object, w: object, stride: tuple[int, int], mask: list[bool]) -> object:
    return aten.convolution_backward(dy, x, w, None, stride, (1, 1), (1, 1), False, (0, 0), 1, mask)


def _input_gradient(stride: tuple[int, int], shape: tuple[int, ...]) -> Callable[..., object]:
    x = torch.empty(shape)
    return lambda dy, w: _backward(dy, x, w, stride, [True, False, False])


def _weight_gradient(stride: tuple[int, int], shape: tuple[int, ...]) -> Callable[..., object]:
    w = torch.empty(shape)
    return lambda dy, x: _backward(dy, x, w, stride, [False, True, False])


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
