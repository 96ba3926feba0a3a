"""What a step counts is found through decorators, imports and classes; hostile objects do no harm."""

from __future__ import annotations

import argparse
import collections
import contextlib
import contextvars
import fractions
import functools
import sys
import threading
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import nn

from assay_capture.capture import SGD, Unsupported, capture

from .test_python_places import DATA, LATE, ORDER, Layer, cross_entropy

calls = {"n": 0}


def captured(module: nn.Module, loss: Callable[..., Any] = cross_entropy) -> None:
    capture(module, loss, SGD(0.1), DATA, ORDER)


class Kept:
    """A class that is reached as a value."""

    n: ClassVar[int] = 0
    made: ClassVar[Kept | None] = None

    def __init__(self) -> None:
        self.own = 0

    @classmethod
    def tick(cls) -> int:
        cls.n += 1
        return cls.n

    @classmethod
    def only(cls) -> Kept:
        cls.made = cls.made or cls()
        return cls.made


class Meta(type):
    n = 0


class OfMeta(metaclass=Meta):
    pass


class Twice(torch.autograd.Function):
    n: ClassVar[int] = 0

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:  # noqa: ARG004
        return x * 1

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:  # noqa: ARG004
        Twice.n += 1
        return gradient * (2 if Twice.n > LATE else 1)


class Listed(list[int]):
    n = 0


local, context = threading.local(), contextvars.ContextVar("context", default=0)
by_key: Any = weakref.WeakKeyDictionary()
beside = types.ModuleType("tests.beside")
beside.__file__ = __file__
beside.n = 0  # type: ignore[attr-defined]


@torch.no_grad()
def without_gradient() -> int:
    calls["n"] += 1
    return calls["n"]


@contextlib.contextmanager
def scope() -> Iterator[int]:
    calls["n"] += 1
    yield calls["n"]


@functools.singledispatch
def dispatched(_: Any) -> int:
    calls["n"] += 1
    return calls["n"]


@functools.lru_cache
def only() -> Kept:
    return Kept()


def in_scope(_: Any) -> int:
    with scope() as n:
        return n


def imported(_: Any) -> int:
    from tests import beside as found  # type: ignore[attr-defined]

    found.n += 1
    return int(found.n)


def in_globals(_: Any) -> int:
    globals()["calls"]["n"] += 1
    return int(globals()["calls"]["n"])


def of_meta(_: Any) -> int:
    Meta.n += 1
    return Meta.n


def of_cached(_: Any) -> int:
    only().own += 1
    return only().own


def of_only(_: Any) -> int:
    Kept.only().own += 1
    return Kept.only().own


def of_thread(_: Any) -> int:
    local.n = getattr(local, "n", 0) + 1
    return int(local.n)


def of_context(_: Any) -> int:
    context.set(context.get() + 1)
    return context.get()


def of_key(layer: Any) -> int:
    by_key[layer] = by_key.get(layer, 0) + 1
    return int(by_key[layer])


def of_attribute(name: str) -> Callable[[Any], int]:
    def count(layer: Any) -> int:
        held = getattr(layer, name)
        held.n += 1
        return int(held.n)

    return count


def of_bytes(layer: Any) -> int:
    layer.held[0] += 1
    return int(layer.held[0])


def of_fraction(layer: Any) -> int:
    layer.held = layer.held + 1
    return int(layer.held)


def of_range(layer: Any) -> int:
    layer.held = range(len(layer.held) + 1)
    return len(layer.held)


def rotated(layer: Any) -> int:
    layer.held.append(layer.held.pop(0))
    return int(layer.held[0])


def popped(layer: Any) -> int:
    layer.held.pop()
    return 2 * LATE if len(layer.held) < 5000 - LATE else 0


COUNTS: dict[str, tuple[Callable[[Any], int], Any]] = {
    "a decorator of PyTorch": (lambda _: without_gradient(), None),
    "a context manager": (in_scope, None),
    "singledispatch": (lambda _: dispatched(1), None),
    "an import in a function": (imported, None),
    "globals()": (in_globals, None),
    "a class method": (lambda _: Kept.tick(), None),
    "a class held": (of_attribute("held"), lambda: Kept),
    "a metaclass": (of_meta, None),
    "an object in a cache": (of_cached, None),
    "an only object of a class": (of_only, None),
    "a thread's own": (of_thread, None),
    "a context variable": (of_context, None),
    "a weak dictionary": (of_key, None),
    "a module of Python held": (of_attribute("held"), lambda: beside),
    "arguments": (of_attribute("held"), lambda: argparse.Namespace(n=0)),
    "a weak reference": (lambda layer: of_attribute("inner")(layer), None),
    "an attribute of a list": (of_attribute("held"), lambda: Listed()),
    "bytes": (of_bytes, lambda: bytearray(3)),
    "a large array": (of_bytes, lambda: np.zeros(1 << 21)),
    "an array of objects": (of_bytes, lambda: np.array([0, "x"], object)),
    "a fraction": (of_fraction, lambda: fractions.Fraction(0)),
    "a range": (of_range, lambda: range(0)),
    "a list that rotates": (rotated, lambda: [*[0] * LATE, *[99] * LATE]),
    "a short list": (lambda layer: len(layer.held) if layer.held.pop() else LATE + 1, lambda: [1] * 30),
    "a long list": (popped, lambda: [0] * 5000),
    "a long deque": (popped, lambda: collections.deque([0] * 5000)),
}


@pytest.mark.parametrize("name", COUNTS)
def test_a_counter_is_found_and_put_back(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    count, made = COUNTS[name]
    monkeypatch.setattr(sys.modules["tests"], "beside", beside, raising=False)
    monkeypatch.setitem(sys.modules, "tests.beside", beside)
    held = made() if made else None
    kind = type("Counting", (Layer,), {"count": count, "__module__": __name__})
    target, module = Kept(), kind(held=held)
    target.n = 0  # type: ignore[misc]
    reference = weakref.ref(target)
    monkeypatch.setattr(kind, "inner", property(lambda _: reference()), raising=False)
    before = repr(held), len(held) if isinstance(held, list | collections.deque) else 0
    with pytest.raises(Unsupported, match="which it changes itself"):
        captured(module)
    if not isinstance(held, np.ndarray | bytearray):
        assert (repr(held), len(held) if isinstance(held, list | collections.deque) else 0) == before
    assert (calls["n"], Kept.n, Meta.n, beside.n, target.n) == (0, 0, 0, 0, 0)


def test_a_function_that_counts_in_its_backward_is_refused() -> None:
    module = nn.Sequential(nn.Linear(6, 3))
    with pytest.raises(Unsupported, match=r"the class Twice\.n"):
        captured(module, lambda y, target: cross_entropy(Twice.apply(y), target))
    assert Twice.n == 0
