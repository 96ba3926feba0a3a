"""Modules that change themselves, what stands for a value that changes, and objects that do harm when looked at."""

from __future__ import annotations

import collections
import contextlib
import gc
import io
import itertools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from assay_capture.capture import Unsupported
from assay_capture.capture.python_state import PythonState

from .test_python_places import LATE, Layer, cross_entropy
from .test_python_reach import captured

# ------------------------------------------------------------------------------------------------ state of modules


class Changing(nn.Module):
    def __init__(self, change: Callable[[Any], None]) -> None:
        super().__init__()
        self.bn, self.layer, self.other, self.change = (
            nn.BatchNorm1d(6),
            nn.Linear(6, 3),
            nn.Linear(6, 3),
            change,
        )
        self.register_buffer("none", None)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.layer(self.bn(x)) + 0.5 * self.other(x)
        self.change(self)
        return y


def _swapped(module: Any) -> None:
    module.layer, module.other = module.other, module.layer


def _registered(module: Any) -> None:
    module.register_buffer("late", getattr(module, "late", 0) + torch.ones(1))


def _filled(module: Any) -> None:
    module.none = torch.ones(1) if module.none is None else module.none * 0.9


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.bn.eval(),
        lambda m: m.train(not m.training),
        _swapped,
        _registered,
        _filled,
        lambda m: m.layer.register_forward_hook(lambda _m, _i, out: out * 1.1),
        lambda m: m.add_module(f"more{len(m._modules)}", nn.Identity()),
    ],
)
def test_a_module_that_changes_itself_is_refused_and_put_back(change: Callable[[Any], Any]) -> None:
    module = Changing(change)
    before = _described(module)
    with pytest.raises(
        Unsupported, match=r"which it changes itself|becomes a tensor of the module in the step"
    ):
        captured(module)
    assert _described(module) == before


def _described(module: nn.Module) -> Any:
    return [
        (path, id(child), child.training, list(child._buffers), list(child._forward_hooks))
        for path, child in module.named_modules()
    ]


def test_a_loss_that_rebinds_its_buffer_is_refused_and_keeps_it() -> None:
    class Centred(nn.Module):
        center: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("center", torch.zeros(3))

        def forward(self, y: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            value = cross_entropy(y - self.center, target)
            self.center = 0.9 * self.center + 0.1 * y.detach().mean(0)
            return value

    loss = Centred()
    with pytest.raises(Unsupported, match=r"depends on Centred\.center"):
        captured(nn.Linear(6, 3), loss)
    assert type(loss.center) is torch.Tensor
    assert not loss.center.any()


# ----------------------------------------------------------------------------------------------- stand-ins


LOOKS: dict[str, Callable[[Any, torch.Tensor], Any]] = {
    "an index": lambda n, y: y * [1.0, *[1.0] * LATE, *[2.0] * LATE][n],
    "a key": lambda n, y: y * {9: 2.0}.get(n, 1.0),
    "a whole division": lambda n, y: y * 0.5 ** (n // 8),
    "a tensor": lambda n, y: y * torch.tensor(1 + 0.1 * n),
    "a list of a tensor": lambda n, y: y * torch.tensor([0.5**n]),
    "a filled tensor": lambda n, y: y * torch.full((), float(n > 8)),
    "a slice": lambda n, y: y[:, : 3 + n // 8],
    "a range": lambda n, y: y * (1 + len(range(8, n))),
    "its digits": lambda n, y: y * (2.0 if str(n).endswith("9") else 1.0),
    "an int": lambda n, y: y * (1 + int(n) // 8),
    "a factor": lambda n, y: y * (1 + n // 8),
    "an error that is swallowed": lambda n, y: y * _swallowed(n),
    "suppressed errors": lambda n, y: y * _suppressed(n),
}


def _swallowed(n: Any) -> float:
    try:
        return 2.0 if n > LATE else 1.0
    except Exception:
        return 1.0


def _suppressed(n: Any) -> float:
    with contextlib.suppress(Exception):
        return 2.0 if n > LATE else 1.0
    return 1.0


@pytest.mark.parametrize("name", LOOKS)
def test_nothing_is_made_of_a_number_that_changes(name: str) -> None:
    class Counting(Layer):
        n: int

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.n += 1
            found: torch.Tensor = LOOKS[name](self.n, self.layer(x))
            return found

    module = Counting(n=0)
    with pytest.raises(Unsupported, match="which it changes itself"):
        captured(module)
    assert module.n == 0


def test_arrays_counts_and_logs_are_only_written_to() -> None:
    class Counting(Layer):
        held: Any

        def count(self) -> int:
            self.held["array"][1] += 1
            self.held["list"] += [next(self.held["ids"])]
            self.held["log"].write(f"call {self.held['array'][1]}\n")
            self.held["by name"][f"call {len('x')}"] = 1
            self.held["deque"].appendleft(0)
            return 0

    held = {
        **{"array": np.zeros(3), "list": list[int](), "ids": itertools.count(), "log": io.StringIO()},
        **{"by name": dict[str, int](), "deque": collections.deque[int](maxlen=3)},
    }
    captured(Counting(held=held))
    assert (held["list"], held["by name"], len(held["deque"])) == ([], {}, 0)  # type: ignore[arg-type]
    assert not held["array"].any()  # type: ignore[attr-defined]


# -------------------------------------------------------------------------------------------------- hostile objects


class Frozen(dict[str, int]):
    """A dictionary that nobody may write to."""

    def _refused(self, *_: Any, **__: Any) -> Any:
        raise TypeError("frozen")

    __setitem__ = __delitem__ = update = clear = pop = setdefault = copy = _refused


class Raising:
    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"not ready: {name}")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no comparison")

    def __len__(self) -> int:
        raise RuntimeError("no length")

    def __bool__(self) -> bool:
        raise RuntimeError("no truth")

    __hash__ = None  # type: ignore[assignment]


class Lying:
    @property
    def __class__(self) -> type:
        return dict

    @__class__.setter
    def __class__(self, _: type) -> None:
        """Take none."""


class Described:
    class Refuses:
        def __get__(self, *_: Any) -> Any:
            raise RuntimeError("not ready")

    value = Refuses()


class Needs(collections.OrderedDict[str, int]):
    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most


class Circle:
    def __init__(self) -> None:
        self.circle = self
        self.items: list[Any] = [self]
        self.items.append(self.items)


HOSTILE: dict[str, Callable[[], Any]] = {
    "frozen": lambda: Frozen(a=1, b=2),
    "raising": Raising,
    "lying": Lying,
    "descriptor": Described,
    "arguments": lambda: Needs(3),
    "circle": Circle,
    "lock": threading.Lock,
    "deep": lambda: {1: {2: {3: {}}}},
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_objects_are_looked_at_without_their_own_code(name: str) -> None:
    held = HOSTILE[name]()
    module = Layer(held=held)
    size = dict.__len__(held) if type(held) is Frozen else 0
    captured(module)
    assert module.held is held
    assert type(held) is not Frozen or dict.__len__(held) == size


def test_many_objects_are_searched_up_to_a_number() -> None:
    many = [{"a": [k]} for k in range(40_000)]
    module = Layer(held=[many[k : k + 400] for k in range(0, len(many), 400)])
    found = PythonState(module, None)._found
    assert len(found.values) < 40_000
    assert not PythonState(module, None).changed_in(PythonState(module, None))
    del found, many
    gc.collect()
