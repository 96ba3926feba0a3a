"""Reductions, elementary functions, elementwise operators and layout."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import repops
import torch

from .contest import Case, close, draw

MILLION = 1 << 20


def _case(
    family: str,
    operator: str,
    what: str,
    tensors: list[torch.Tensor],
    theirs: Callable[..., torch.Tensor],
    **attrs: Any,
) -> Case:
    arrays = [tensor.numpy() for tensor in tensors]
    execute = repops.backend("cpu").execute
    name = f"{operator} {what}"
    return Case(
        family,
        name,
        lambda: execute(operator, arrays, attrs),
        [lambda: theirs(*tensors)],
        lambda: close(execute(operator, arrays, attrs)[0], theirs(*tensors), name),
    )


def _by(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))


def _reductions() -> Iterator[Case]:
    for shape, dims in (
        ((MILLION,), (0,)),
        ((1024, 1024), (1,)),
        ((1024, 1024), (0,)),
        ((512, 768), (0,)),
        ((6144, 128), (1,)),
        ((64, 128, 16, 16), (0, 2, 3)),
    ):
        what = f"{_by(shape)} over {', '.join(map(str, dims))}"
        for name, theirs in (("sum", torch.sum), ("amax", torch.amax)):
            yield _case(
                "reductions",
                name,
                what,
                [draw(*shape)],
                lambda x, theirs=theirs, dims=dims: theirs(x, dims),
                dims=dims,
                keepdim=0,
            )


def _elementary() -> Iterator[Case]:
    for shape in ((32, 1024), (1024, 1024)):
        x = draw(*shape)
        for name in ("exp", "log", "log1p", "tanh", "erf", "sin", "cos", "sqrt", "rsqrt"):
            operand = x.abs() if name in ("log", "log1p", "sqrt", "rsqrt") else x
            yield _case("elementary functions", name, _by(shape), [operand], getattr(torch, name))
        yield _case("elementary functions", "pow", _by(shape), [x.abs(), draw(*shape)], torch.pow)


def _elementwise() -> Iterator[Case]:
    a, b = draw(1024, 1024), draw(1024, 1024) + 3
    for name in ("add", "mul", "div", "maximum"):
        yield _case("elementwise", name, "1024 x 1024", [a, b], getattr(torch, name))
        yield _case("elementwise", name, "1024 x 1024 and a row", [a, b[0].clone()], getattr(torch, name))


def _layout() -> Iterator[Case]:
    for shape, dims in (((1024, 1024), (1, 0)), ((4, 128, 12, 64), (0, 2, 1, 3))):
        what = f"{_by(shape)} to {', '.join(map(str, dims))}"
        yield _case(
            "layout",
            "permute",
            what,
            [draw(*shape)],
            lambda x, dims=dims: x.permute(dims).contiguous(),
            dims=dims,
        )


def cases() -> Iterator[Case]:
    yield from _reductions()
    yield from _elementary()
    yield from _elementwise()
    yield from _layout()
