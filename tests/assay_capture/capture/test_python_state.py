"""What a module keeps in Python does not act in a program, or the capture is refused."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from assay_capture.capture import SGD, CaptureError, Unsupported, capture
from assay_capture.capture.seeded import data_order

from . import eager

X = np.random.default_rng(0).standard_normal((16, 6)).astype(np.float32)
DATA: eager.Data = {"x": X, "y": np.arange(16) % 3}
ORDER = data_order(0, 16, 4, 4)
cross_entropy = nn.functional.cross_entropy


class Stateful(nn.Module):
    """A layer, and what a test keeps and does beside it."""

    def __init__(self, forward: Callable[..., torch.Tensor], **kept: Any) -> None:
        super().__init__()
        self.layer, self.step = nn.Linear(6, 3), forward
        for name, value in kept.items():
            setattr(self, name, value)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.step(self, x)


def built(module: nn.Module) -> Any:
    return capture(module, cross_entropy, SGD(0.1), DATA, ORDER)


def threshold(self: Any, x: torch.Tensor) -> torch.Tensor:
    self.calls += 1
    y: torch.Tensor = self.layer(x)
    return y * 2 if self.calls > 1000 else y


def every(self: Any, x: torch.Tensor) -> torch.Tensor:
    self.calls += 1
    y: torch.Tensor = self.layer(x)
    return y if self.calls % 50 else y * 2


def truth(self: Any, x: torch.Tensor) -> torch.Tensor:
    self.left -= 0.25
    y: torch.Tensor = self.layer(x)
    return y * 2 if self.left else y


def in_a_dict(self: Any, x: torch.Tensor) -> torch.Tensor:
    self.state["calls"] += 1
    y: torch.Tensor = self.layer(x)
    return y * 2 if self.state["calls"] >= 10 else y


def in_a_list(self: Any, x: torch.Tensor) -> torch.Tensor:
    self.state[0] += 1
    y: torch.Tensor = self.layer(x)
    return y * 2 if self.state[0] >= 10 else y


def in_an_object(self: Any, x: torch.Tensor) -> torch.Tensor:
    self.state.calls += 1
    y: torch.Tensor = self.layer(x)
    return y * 2 if self.state.calls == 10 else y


def rebound(self: Any, x: torch.Tensor) -> torch.Tensor:
    y: torch.Tensor = self.layer(x)
    self.center = (0.5 * self.center + 0.5 * y.mean(0)).detach()
    return y - self.center


@pytest.mark.parametrize(
    ("forward", "kept", "name"),
    [
        (threshold, {"calls": 0}, "calls"),
        (every, {"calls": 0}, "calls"),
        (truth, {"left": 100.0}, "left"),
        (in_a_dict, {"state": {"calls": 0}}, r"state\.calls"),
        (in_a_list, {"state": [0]}, r"state\[0\]"),
        (in_an_object, {"state": SimpleNamespace(calls=0)}, r"state\.calls"),
        (rebound, {"center": torch.zeros(3)}, "center"),
    ],
)
def test_what_may_act_in_a_later_step_is_refused(
    forward: Callable[..., torch.Tensor], kept: dict[str, Any], name: str
) -> None:
    module = Stateful(forward, **kept)
    before = repr(kept)
    with pytest.raises(Unsupported, match=rf"depends on {name}, which it changes itself; .*in a buffer"):
        built(module)
    assert repr({key: getattr(module, key) for key in kept}) == before


def test_what_is_only_counted_and_printed_is_let_be() -> None:
    def counted(self: Any, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.history.append(self.calls * 2)
        self.name = f"call {self.calls}"
        self.last = self.layer(x)
        return self.last

    module = Stateful(counted, calls=0, history=[])
    built(module)
    assert (module.calls, module.history) == (0, [])
    assert not hasattr(module, "name")
    assert not hasattr(module, "last")


def test_a_cache_that_was_filled_before_is_let_be() -> None:
    def cached(self: Any, x: torch.Tensor) -> torch.Tensor:
        if x.shape[1] > self.size:
            self.size, self.table = x.shape[1], torch.arange(x.shape[1]) * 1.0
        y: torch.Tensor = self.layer(x * self.table)
        return y

    module = Stateful(cached, size=0, table=None)
    with pytest.raises(Unsupported, match="call the module once before the capture if it fills a cache"):
        built(module)
    module(torch.from_numpy(X[:4]))
    built(module)


def test_a_buffer_that_forward_rebinds_is_state() -> None:
    class Centred(nn.Module):
        center: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.layer = nn.Linear(6, 3)
            self.register_buffer("center", torch.zeros(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return rebound(self, x)

    module = Centred()
    ours, slots = eager.run_program(built(module), 4)
    optimizer = torch.optim.SGD(module.parameters(), 0.1)
    want = eager.run_eager(module, eager.of(cross_entropy), optimizer, DATA, ORDER)
    np.testing.assert_allclose(ours, want, rtol=1e-4)
    np.testing.assert_allclose(slots["buffer.center"], module.center.numpy(), rtol=1e-4, atol=1e-6)


def test_a_buffer_that_changes_its_shape_is_refused() -> None:
    def grows(self: Any, x: torch.Tensor) -> torch.Tensor:
        self.seen = torch.cat([self.seen, x.mean(0, keepdim=True)])
        y: torch.Tensor = self.layer(x - self.seen.mean(0))
        return y

    module = Stateful(grows)
    module.register_buffer("seen", torch.zeros(1, 6))
    with pytest.raises(Unsupported, match=r"seen is .*\[1, 6\] before the step, and .*\[2, 6\] after it"):
        built(module)


@pytest.mark.parametrize(
    ("draw", "name"), [(random.random, "random"), (lambda: np.random.rand(), r"numpy\.random")]
)
def test_random_numbers_of_python_are_refused(draw: Callable[[], float], name: str) -> None:
    states = random.getstate(), repr(np.random.get_state())
    module = Stateful(lambda self, x: self.layer(x) * draw())
    with pytest.raises(Unsupported, match=rf"draws from Python's {name}; .*torch\.rand"):
        built(module)
    assert (random.getstate(), repr(np.random.get_state())) == states


def test_errors_of_the_users_code_name_module_and_line() -> None:
    def wrong(self: Any, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.layer(x).no_such_thing
        return y

    line = wrong.__code__.co_firstlineno + 1
    module = nn.Sequential(Stateful(wrong))
    with pytest.raises(
        CaptureError, match=rf"^module 0: AttributeError: .*\(test_python_state.py, line {line}\)"
    ):
        built(module)


def test_an_error_of_shapes_is_not_logged_twice(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(CaptureError, match="width of the data is not the layer's"):
        built(nn.Linear(7, 3))
    assert capfd.readouterr().err == ""


def test_a_loss_that_counts_is_refused() -> None:
    class Loss:
        calls = 0

        def __init__(self) -> None:
            self.calls = 0

        def __call__(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            return cross_entropy(output, target) * (2 if self.calls > 100 else 1)

    loss = Loss()
    with pytest.raises(Unsupported, match=r"depends on Loss\.calls, which it changes itself"):
        capture(nn.Linear(6, 3), loss, SGD(0.1), DATA, ORDER)
    assert loss.calls == 0
