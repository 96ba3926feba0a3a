"""What a step counts in Python is found wherever it is kept, and is what it was after the refusal."""

from __future__ import annotations

import functools
import itertools
from collections import deque
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest
import torch
from torch import nn

from assay_capture.capture import SGD, Unsupported, capture
from assay_capture.capture.seeded import data_order

from . import eager

X = np.random.default_rng(0).standard_normal((16, 6)).astype(np.float32)
DATA: eager.Data = {"x": X, "y": np.arange(16) % 3}
ORDER = data_order(0, 16, 4, 4)
LATE = 8
"""The step at which what is counted begins to act: none that a build computes."""
cross_entropy = nn.functional.cross_entropy
counted, kept = 0, {"calls": 0}


class Layer(nn.Module):
    def __init__(self, **held: Any) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 3)
        for name, value in held.items():
            setattr(self, name, value)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.layer(x)
        return y * 2 if self.count() > LATE else y

    def count(self) -> Any:
        return 0


class Pair(NamedTuple):
    calls: int
    of: str


class Slotted:
    __slots__ = ("calls",)

    def __init__(self) -> None:
        self.calls = 0


class Plain:
    def __init__(self, inner: Any = None) -> None:
        self.calls, self.inner = 0, inner


class Tuple(Layer):
    pair: tuple[int, str]

    def count(self) -> int:
        self.pair = self.pair[0] + 1, "calls"
        return self.pair[0]


class Named(Layer):
    pair: Pair

    def count(self) -> int:
        self.pair = self.pair._replace(calls=self.pair.calls + 1)
        return self.pair.calls


class Number(Layer):
    number: Any

    def count(self) -> Any:
        self.number = self.number + 1
        return self.number


class Array(Layer):
    array: Any

    def count(self) -> Any:
        self.array[0] += 1
        return self.array[0]


class New(Layer):
    def count(self) -> int:
        self.seen = getattr(self, "seen", 0) + 1
        return self.seen


class Class(Layer):
    calls: ClassVar[int] = 0

    def count(self) -> int:
        type(self).calls += 1
        return self.calls


class Slots(Layer):
    slots: Slotted

    def count(self) -> int:
        self.slots.calls += 1
        return self.slots.calls


class Deep(Layer):
    plain: Any

    def count(self) -> int:
        inner = self.plain.inner.inner.inner
        inner.calls += 1
        return int(inner.calls)


class Length(Layer):
    calls: Any

    def count(self) -> int:
        self.calls.append(None)
        return len(self.calls)


class Iterated(Layer):
    numbers: Any

    def count(self) -> int:
        return int(next(self.numbers))


class Countdown:
    """An iterator of one's own."""

    def __init__(self) -> None:
        self.calls = 0

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> int:
        self.calls += 1
        return self.calls


class Text(Layer):
    text: str

    def count(self) -> int:
        self.text += "i"
        return LATE + 1 if self.text.endswith("i" * (LATE + 1)) else 0


class Toggled(Layer):
    calls: list[bool]

    def count(self) -> int:
        self.calls[0] = not self.calls[0]
        return 0


class Global(Layer):
    def count(self) -> int:
        global counted
        counted += 1
        return counted


class GlobalMapping(Layer):
    def count(self) -> int:
        kept["calls"] += 1
        return kept["calls"]


@pytest.mark.parametrize(
    ("module", "name"),
    [
        (lambda: Tuple(pair=(0, "calls")), r"pair\[0\]"),
        (lambda: Named(pair=Pair(0, "calls")), r"pair\[0\]"),
        (lambda: Number(number=np.int64(0)), "number"),
        (lambda: Number(number=np.float32(0)), "number"),
        (lambda: Array(array=np.zeros(3)), "array"),
        (lambda: Array(array={0: 0}), r"array\[0\]"),
        (lambda: Array(array={"x": 0, 0: 0}), r"array\[0\]"),
        (New, "seen"),
        (Class, r"the class Class\.calls"),
        (lambda: Slots(slots=Slotted()), r"slots\.calls"),
        (lambda: Deep(plain=Plain(Plain(Plain(Plain())))), r"plain\.inner\.inner\.inner\.calls"),
        (lambda: Length(calls=[]), "calls"),
        (lambda: Length(calls=deque()), "calls"),
        (lambda: Iterated(numbers=itertools.count()), "numbers"),
        (lambda: Iterated(numbers=iter([*[0] * LATE, *[9] * 99])), "numbers"),
        (lambda: Iterated(numbers=iter(range(99))), "numbers"),
        (lambda: Iterated(numbers=(k for k in range(99))), "numbers"),
        (lambda: Iterated(numbers=map(int, range(99))), "numbers"),
        (lambda: Iterated(numbers=iter(Countdown())), r"numbers\.calls"),
        (lambda: Text(text=""), "text"),
        (lambda: Toggled(calls=[False]), r"calls\[0\]"),
        (Global, "the global counted"),
        (GlobalMapping, r"the global kept\.calls"),
    ],
)
def test_a_module_that_counts_is_refused_wherever_it_counts(
    module: Callable[[], nn.Module], name: str
) -> None:
    with pytest.raises(Unsupported, match=rf"depends on {name}, which it changes itself"):
        capture(module(), cross_entropy, SGD(0.1), DATA, ORDER)
    assert (counted, kept["calls"], Class.calls) == (0, 0, 0)


def _closure() -> tuple[Callable[..., torch.Tensor], Callable[[], Any]]:
    calls = 0

    def loss(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        nonlocal calls
        calls += 1
        return cross_entropy(output, target) * (2 if calls > LATE else 1)

    return loss, lambda: calls


def _closure_of_a_list() -> tuple[Callable[..., torch.Tensor], Callable[[], Any]]:
    calls = [0]

    def loss(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        calls[0] += 1
        return cross_entropy(output, target) * (2 if calls[0] > LATE else 1)

    return loss, lambda: calls[0]


def _default() -> tuple[Callable[..., torch.Tensor], Callable[[], Any]]:
    def loss(output: torch.Tensor, target: torch.Tensor, calls: Any = [0]) -> torch.Tensor:  # noqa: B006
        calls[0] += 1
        return cross_entropy(output, target) * (2 if calls[0] > LATE else 1)

    return loss, lambda: loss.__defaults__[0][0]  # type: ignore[index]


def _named_default() -> tuple[Callable[..., torch.Tensor], Callable[[], Any]]:
    def loss(output: torch.Tensor, target: torch.Tensor, *, calls: Any = [0]) -> torch.Tensor:  # noqa: B006
        calls[0] += 1
        return cross_entropy(output, target) * (2 if calls[0] > LATE else 1)

    return loss, lambda: (loss.__kwdefaults__ or {})["calls"][0]


def _attribute() -> tuple[Callable[..., torch.Tensor], Callable[[], Any]]:
    def loss(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        vars(loss)["calls"] += 1
        return cross_entropy(output, target) * (2 if vars(loss)["calls"] > LATE else 1)

    vars(loss)["calls"] = 0
    return loss, lambda: vars(loss)["calls"]


class _Loss:
    def __init__(self) -> None:
        self.calls = 0

    def of(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return cross_entropy(output, target) * (2 if self.calls > LATE else 1)


def _method() -> tuple[Callable[..., torch.Tensor], Callable[[], Any]]:
    holder = _Loss()
    return holder.of, lambda: holder.calls


def _partial() -> tuple[Callable[..., torch.Tensor], Callable[[], Any]]:
    def loss(calls: Any, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        calls[0] += 1
        return cross_entropy(output, target) * (2 if calls[0] > LATE else 1)

    calls = [0]
    return functools.partial(loss, calls), lambda: calls[0]


@pytest.mark.parametrize(
    "made", [_closure, _closure_of_a_list, _default, _named_default, _attribute, _method, _partial]
)
def test_a_loss_that_counts_is_refused_wherever_it_counts(
    made: Callable[[], tuple[Callable[..., torch.Tensor], Callable[[], Any]]],
) -> None:
    loss, calls = made()
    with pytest.raises(
        Unsupported, match=r"depends on (loss|_Loss)\.(calls|args)\S*, which it changes itself"
    ):
        capture(nn.Linear(6, 3), loss, SGD(0.1), DATA, ORDER)
    assert calls() == 0


@pytest.mark.parametrize("register", ["register_forward_hook", "register_forward_pre_hook"])
def test_a_hook_that_counts_is_refused(register: str) -> None:
    calls, module = [0], nn.Sequential(nn.Linear(6, 3))

    def hook(*given: Any) -> Any:
        calls[0] += 1
        return given[-1] * 2 if calls[0] > LATE and register == "register_forward_hook" else None

    def before(_module: Any, given: Any) -> Any:
        calls[0] += 1
        return (given[0] * 2,) if calls[0] > LATE else None

    getattr(module[0], register)(hook if register == "register_forward_hook" else before)
    with pytest.raises(Unsupported, match=r"depends on \w+\.calls\[0\], which it changes itself"):
        capture(module, cross_entropy, SGD(0.1), DATA, ORDER)
    assert calls == [0]


def test_a_generator_of_numpy_that_goes_on_is_refused() -> None:
    class Noisy(Layer):
        numbers: np.random.Generator

        def count(self) -> float:
            return self.numbers.random()

    numbers = np.random.default_rng(5)
    with pytest.raises(Unsupported, match="depends on numbers, which it changes itself"):
        capture(Noisy(numbers=numbers), cross_entropy, SGD(0.1), DATA, ORDER)
    assert numbers.random() == np.random.default_rng(5).random()


def test_what_is_filled_and_never_looked_at_is_let_be() -> None:
    """Logs, counters and the last output, wherever they are."""
    log, calls = list[Any](), [0]

    class Logged(Layer):
        def count(self) -> int:
            calls[0] += 1
            log.append(calls[0])
            self.last = (f"call {calls[0]}", calls[0])
            return 0

    capture(Logged(), cross_entropy, SGD(0.1), DATA, ORDER)
    assert (log, calls) == ([], [0])


def test_tables_and_functions_of_libraries_are_not_searched() -> None:
    """One's own code alone is: what a library counts, no step depends on."""

    class Uses(Layer):
        def count(self) -> int:
            functools.reduce(lambda a, b: a + b, (1, 2))
            return 0

    capture(Uses(), nn.CrossEntropyLoss(), SGD(0.1), DATA, ORDER)
