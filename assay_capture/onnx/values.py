"""Operands of the rules of ONNX operators.

    torch.Tensor   traced: the batch, parameters, and values computed from them
    Known          known before tracing: constants of the file, shapes, and values computed from those alone

An exporter writes shapes as operators (Shape, Gather, Concat, Reshape). They are computed here at once, with the same
rules, so that only arithmetic on data is left to trace.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from ..capture.errors import CaptureError, Unsupported
from .graphs import OnnxNode

MAX_KNOWN_ELEMENTS = 1 << 28
"""Largest value, in elements, that is computed before tracing: a small file must not become a large tensor."""
TRAINING_FORM = (
    "export again with the older exporter: torch.onnx.export(..., dynamo=False, "
    "training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False)"
)
"""Remedy for files that hold the evaluation form of a model."""


@dataclass(frozen=True)
class Known:
    """A tensor whose values are known before tracing."""

    tensor: torch.Tensor


@dataclass(frozen=True)
class Parts:
    """A sequence: the parts of a tensor, from which another operator picks by number."""

    items: tuple[torch.Tensor, ...]


Value = torch.Tensor | Known
Given = Value | None
Ints = list[int]


@contextlib.contextmanager
def untraced() -> Iterator[None]:
    """Do the arithmetic inside now, even if a tracer is active."""
    with _disable_current_modes(), torch.no_grad():
        yield


class Call:
    """One use of an operator: its attributes, and readers for its inputs."""

    def __init__(
        self,
        node: OnnxNode,
        opset: int,
        training: bool,
        folding: bool,
        types: Mapping[str, int] | None = None,
    ) -> None:
        self.node = node
        self.types = types or {}
        """ONNX's element types of values, as far as the file says them: all integers are i64 here."""
        self.opset = opset
        self.training = training
        self._folding = folding

    def get(self, name: str, default: Any = None) -> Any:
        """Return an attribute. Raises CaptureError if it lacks the type of a default that is not None."""
        value = self.node.attributes.get(name, default)
        if default is not None and type(value) is not type(default):
            raise CaptureError(
                f"{self.node.where}: attribute {name} is {type(value).__name__}; export the model again"
            )
        return value

    def ints(self, name: str, default: Sequence[int] | None = None) -> tuple[int, ...] | None:
        """Return an attribute that is a list of integers."""
        value = self.node.attributes.get(name, default)
        if value is not None and not all(isinstance(item, int) for item in value):
            raise CaptureError(
                f"{self.node.where}: attribute {name} is not a list of integers; export the model again"
            )
        return None if value is None else tuple(value)

    def tensor(self, value: Given) -> torch.Tensor:
        """Return an input as a tensor. Equal values become a `full`, so that no constant is stored."""
        if value is None:
            raise CaptureError(f"{self.node.where} lacks an input; export the model again")
        if isinstance(value, torch.Tensor):
            return value
        known = value.tensor
        if self._folding:
            return known
        with untraced():
            same = known.numel() > 0 and bool((known == known.reshape(-1)[0]).all())
            first = known.reshape(-1)[0].item() if same else 0
        return torch.full(known.shape, first, dtype=known.dtype) if same else known

    def known(self, value: Given, what: str) -> torch.Tensor:
        """Return an input that must be known before tracing. Raises Unsupported if it depends on data."""
        if isinstance(value, Known):
            return value.tensor
        if value is None:
            raise CaptureError(f"{self.node.where} lacks its {what}; export the model again")
        raise self.unsupported(f"{what} that depends on data", "export the model with fixed shapes")

    def list(self, value: Given, what: str) -> Ints:
        """Return integers from an input that must be known."""
        with untraced():
            known = self.known(value, what)
            if known.dtype != torch.int64 or known.ndim > 1 or known.numel() > 1 << 16:
                raise CaptureError(f"{self.node.where}: its {what} is {known.dtype} {list(known.shape)}")
            return [int(item) for item in known.reshape(-1).tolist()]

    def number(self, value: Given, what: str) -> float | int | bool:
        """Return one number from an input that must be known."""
        with untraced():
            known = self.known(value, what)
            if known.numel() != 1:
                raise CaptureError(f"{self.node.where}: its {what} has {known.numel()} values, not one")
            number: float | int | bool = known.item()
            return number

    def axes(self, value: Given, place: str = "axes") -> Ints | None:
        """Return axes, which are an attribute in older opsets and an input in newer ones."""
        if value is not None:
            return self.list(value, place)
        given = self.ints(place)
        return None if given is None else list(given)

    def unsupported(self, what: str, remedy: str) -> Unsupported:
        return Unsupported(what, remedy, self.node.where)


def check_size(shape: Sequence[int], where: str) -> None:
    """Raise CaptureError if a known tensor of that shape would be too large."""
    count = 1
    for size in shape:
        count *= size
    if any(size < 0 for size in shape) or count > MAX_KNOWN_ELEMENTS:
        raise CaptureError(
            f"{where} gives a value of shape {list(shape)}; the limit is {MAX_KNOWN_ELEMENTS} elements; export the "
            "model for smaller sizes"
        )
