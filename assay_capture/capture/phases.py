"""The module that runs while a step is traced, and its pass: for the annotations of nodes and the places of errors."""

from __future__ import annotations

import contextlib
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch.fx.traceback
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException

from . import remedies
from .errors import CaptureError, Unsupported
from .replacements import REPLACED

_ROOMS = tuple(str(Path(__file__).parent.parent / room) for room in ("capture", "onnx"))
"""Folders whose lines are ours, and nobody's model."""
_TORCH = str(Path(torch.__file__).parent)
_FRAME = re.compile(r'^ *File "([^"\n]*)", line (\d+)', re.M)
_CHECKPOINTING = (
    "it runs a second time in the backward pass (activation checkpointing)",
    "switch checkpointing off for the capture: the executor of the program decides what to keep",
)


def _place(error: Exception) -> str:
    """Name the last line of somebody's own code that an error went through; nothing if there is none."""
    own = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if "site-packages" not in frame.filename and not frame.filename.startswith((*_ROOMS, "<"))
    ]
    return f" ({Path(own[-1].filename).name}, line {own[-1].lineno})" if own else ""


def line_of(trace: str | None) -> str:
    """Return file and line that a node comes from, by its stack trace: the last in somebody's own code, else the last
    in PyTorch's; empty if it has no trace, as a node of the loss."""
    frames = [
        (file, line) for file, line in _FRAME.findall(trace or "") if not file.startswith((*_ROOMS, "<"))
    ]
    own = [frame for frame in frames if not frame[0].startswith(_TORCH)]
    last = (own or frames)[-1:]
    return "".join(f"{Path(file).name}:{line}" for file, line in last)


def _operator(error: Exception) -> str:
    """Name the first replaced operator that an error went through, else the last one; nothing if there is none."""
    # NOTE: functions of PyTorch's own that replace an operator share the code of one wrapper.
    replaced = {
        function.__code__: str(operator)
        for operator, function in REPLACED.items()
        if function.__code__.co_filename.startswith(_ROOMS)
    }
    frames = traceback.walk_tb(error.__traceback__)
    if found := [replaced[frame.f_code] for frame, _ in frames if frame.f_code in replaced]:
        return f", ATen operator {found[0]}"
    given = (frame.f_locals.get("func") for frame, _ in traceback.walk_tb(error.__traceback__))
    operators = [str(func) for func in given if isinstance(func, torch._ops.OpOverload)]
    return f", ATen operator {operators[-1]}" if operators else ""


class Phases:
    """Annotates the nodes of the forward pass with the path of their module, and knows when the backward pass runs."""

    def __init__(self) -> None:
        self._open: list[tuple[str, Any]] = []
        self._failed = ""
        self._backward = False

    def where(self) -> str:
        """Name the module that is running, or the one that raised the error being handled."""
        path = self._open[-1][0] if self._open else self._failed
        return f"module {path}" if path else "loss or gradient"

    @contextlib.contextmanager
    def explained(self) -> Iterator[None]:
        """Add the module's path and a remedy to PyTorch's errors while it traces."""
        try:
            yield
        except (DataDependentOutputException, DynamicOutputShapeException) as error:
            raise Unsupported(
                f"{error.func} makes the program depend on values of a tensor",
                remedies.of_values(str(error.func)),
                self.where(),
            ) from error
        except Unsupported as error:
            where = error.where or self.where() + _operator(error)
            raise Unsupported(error.what, error.remedy, where) from error
        except RuntimeError as error:
            if "torch.utils.checkpoint" in str(error):
                raise Unsupported(*_CHECKPOINTING, self.where()) from error
            remedy = remedies.of_error(str(error))
            said = f"on tensors without data, PyTorch says: {error}{remedy}{_place(error)}"
            raise CaptureError(f"{self.where()}{_operator(error)}: {said}") from error
        except CaptureError:
            raise
        except Exception as error:
            said = f"{type(error).__name__}: {error}".rstrip(": ")
            raise CaptureError(f"{self.where()}: {said}{_place(error)}") from error

    @contextlib.contextmanager
    def gradient(self) -> Iterator[None]:
        self._backward = True
        try:
            with torch.fx.traceback.annotate({"backward": True}):
                yield
        finally:
            self._backward = False

    @contextlib.contextmanager
    def module_paths(self, module: torch.nn.Module) -> Iterator[None]:
        handles: list[Any] = []
        try:
            for path, child in module.named_modules():
                handles.append(child.register_forward_pre_hook(self._enter(path or type(module).__name__)))
                handles.append(child.register_forward_hook(self._leave, always_call=True))
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _enter(self, path: str) -> Callable[..., None]:
        def hook(*_: Any) -> None:
            # SAFETY: a layer that runs again in the backward pass would draw other dropout masks there, and the
            # gradients would be wrong without any sign of it.
            if self._backward:
                raise Unsupported(*_CHECKPOINTING, f"module {path}")
            annotation = torch.fx.traceback.annotate({"module": path})
            annotation.__enter__()
            self._open.append((path, annotation))

        return hook

    def _leave(self, *_: Any) -> None:
        # NOTE: the forward hook is called even if the module's pre-hook raised; then there is nothing to close.
        if self._open:
            path, annotation = self._open.pop()
            annotation.__exit__(None, None, None)
            if sys.exc_info()[0] is not None:
                self._failed = self._failed or path
