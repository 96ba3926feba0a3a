"""Effects that a trace drops, beside what a guard may be talked out of them by: small sizes, copies, frozen tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from assay_capture.capture import SGD, CaptureError, Recipe, build
from assay_capture.capture.lowering import RULES

X = np.random.default_rng(0).standard_normal((16, 6)).astype(np.float32)
Y = np.random.default_rng(1).standard_normal((16, 1)).astype(np.float32)


class Two(nn.Module):
    """Two layers, with a forward pass that a test gives."""

    def __init__(
        self, forward: Callable[[Any, torch.Tensor], torch.Tensor], begin: Callable[[Any], Any]
    ) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second, self._forward = nn.Linear(6, 8), nn.Linear(8, 1), forward
        begin(self)

    def hidden(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.first(x))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self._forward(self, x)


def built(
    forward: Callable[[Any, torch.Tensor], torch.Tensor], begin: Callable[[Any], Any] = lambda _: None
) -> str:
    module = Two(forward, begin)
    recipe = Recipe(
        "hidden", module, nn.functional.mse_loss, SGD(0.1), {"x": X, "y": Y}, 2, 4, initial="module"
    )
    return str(build(recipe).labels["checked"])


def doubled(monkeypatch: pytest.MonkeyPatch, name: str = "aten.sin.default") -> None:
    """Make an operator's lowering give twice what it should."""
    right = RULES[name]
    monkeypatch.setitem(RULES, name, lambda c, x: c.b.op("mul", right(c, x), c.b.full(2.0)))


def test_a_gradient_that_pytorch_does_not_have_is_a_difference() -> None:
    """Reentrant checkpointing gives no gradient to weights if no input has one; the trace leaves it out."""
    with pytest.raises(CaptureError, match=r"gradient of first\.\w+, and PyTorch has none"):
        built(lambda m, x: m.second(checkpoint(m.hidden, x, use_reentrant=True)))
    assert built(lambda m, x: m.second(checkpoint(m.hidden, x, use_reentrant=False))).startswith("loss and")


def test_a_gradient_of_zeros_that_pytorch_does_not_have_is_none() -> None:
    """An expert without a token has no gradient in PyTorch, and zeros in a program."""

    def only_if_used(m: Any, x: torch.Tensor) -> torch.Tensor:
        h = m.hidden(x)
        if type(x) is not torch.Tensor:
            h = h + 0.0 * m.spare
        return m.second(h)

    assert built(only_if_used, lambda m: m.register_parameter("spare", nn.Parameter(torch.ones(8))))


def kept_in_frozen(m: Any, x: torch.Tensor) -> torch.Tensor:
    out: torch.Tensor = m.second(m.hidden(x))
    with torch.no_grad():
        m.centre.copy_(torch.sin(out.detach()).mean())
    return out


def with_frozen(m: Any) -> None:
    m.centre = nn.Parameter(torch.zeros(()), requires_grad=False)


def kept_in_trained(m: Any, x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        m.scale.copy_(torch.sin(x).mean())
    return m.second(m.hidden(x)) + 0.0 * m.scale


def with_trained(m: Any) -> None:
    m.scale = nn.Parameter(torch.ones(()))


@pytest.mark.parametrize(
    ("forward", "begin", "named"),
    [
        (kept_in_frozen, with_frozen, r"frozen\.centre"),
        (kept_in_trained, with_trained, r"written\.scale"),
    ],
)
def test_what_is_only_written_to_a_parameter_is_compared(
    forward: Any, begin: Any, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert built(forward, begin).startswith("loss and gradients")
    doubled(monkeypatch)
    with pytest.raises(CaptureError, match=f"{named} differs"):
        built(forward, begin)


def faint(m: Any, x: torch.Tensor) -> torch.Tensor:
    return 1e-6 * m.second(torch.sin(m.first(x))) + m.large.sum() * 100


def test_a_wrong_gradient_that_is_small_beside_another_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = lambda m: m.register_parameter("large", nn.Parameter(torch.ones(3)))  # noqa: E731
    assert built(faint, begin).startswith("loss and gradients")
    doubled(monkeypatch, "aten.cos.default")
    with pytest.raises(CaptureError, match=r"gradient\.first\.\w+ differs by 1 of its size"):
        built(faint, begin)


def test_a_gradient_that_is_nothing_but_rounding_is_no_difference() -> None:
    """A bias before a normalisation has no effect: its gradient is what is left of sums that cancel."""
    forward = lambda m, x: m.second(m.norm(m.hidden(x) + m.bias))  # noqa: E731

    def begin(m: Any) -> None:
        m.norm, m.bias = nn.BatchNorm1d(8), nn.Parameter(torch.zeros(8))

    assert built(forward, begin).startswith("loss and gradients")


def test_a_tensor_in_bf16_that_nothing_reads_hides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def begin(m: Any) -> None:
        m.unused = nn.Parameter(torch.zeros(2, dtype=torch.bfloat16), requires_grad=False)

    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        return m.second(m.hidden(x))

    assert "with inputs near zero" in built(forward, begin)
    right = RULES["aten.tanh.default"]
    monkeypatch.setitem(RULES, "aten.tanh.default", lambda c, x: c.b.op("mul", right(c, x), c.b.full(1.1)))
    with pytest.raises(CaptureError, match="is not PyTorch's"):
        built(forward, begin)


def test_a_hook_where_a_gradient_is_accumulated_is_no_rounding() -> None:
    """It is in no copy of the module's tensors, and so neither in the trace nor in FP64."""

    def begin(m: Any) -> None:
        weight = m.first.weight
        m.node = weight.expand_as(weight).grad_fn.next_functions[0][0]
        m.node.register_prehook(lambda g: (g[0] * 0.1,))

    with pytest.raises(CaptureError, match=r"gradient\.first\.weight differs"):
        built(lambda m, x: m.second(m.hidden(x)), begin)


def test_a_buffer_that_the_loss_reads_past_the_call_is_no_rounding() -> None:
    module = Two(
        lambda m, x: m.second(m.hidden(x * m.decay.mul_(0.9))),
        lambda m: m.register_buffer("decay", torch.ones(1)),
    )
    loss = lambda out, y: nn.functional.mse_loss(out * module.decay, y)  # noqa: E731
    with pytest.raises(CaptureError):
        build(Recipe("hidden", module, loss, SGD(0.1), {"x": X, "y": Y}, 2, 4, initial="module"))
