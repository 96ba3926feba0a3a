"""State of a module in Python: numbers, words, tensors and containers of its attributes, and Python's random numbers.

A program is one graph for all steps, so a step must not depend on any of it if a step changes it. `check` traces again
as long as something changes:

    first trace ── nothing changed ──────────────────────────────────────────────────> it stands
        └─ changed ──> second trace, from what the first left ── another graph? ──> refused
                           └─ numbers changed again ──> third, with numbers that nothing may be decided by
"""

from __future__ import annotations

import collections
import contextlib
import random
import types
from collections.abc import Callable, Iterator, MutableMapping
from typing import Any

import numpy as np
import torch

from .errors import CaptureError, LeftOver, Unsupported

_DEPTH = 3
"""Depth to which objects and containers inside attributes are searched."""
_MAX_ITEMS = 4096
"""Largest container that is searched; larger ones are data."""
_OF_TORCH = frozenset(vars(torch.nn.Module())) | {"training"}
_CONTAINERS = (list, dict, set, collections.deque)
_REMEDY = (
    "a program is the same in every step: keep what changes in a buffer, and call the module once before the capture "
    "if it fills a cache"
)
Owner = MutableMapping[str, Any]
Place = tuple[Any, Any]
"""A mapping or list, and the name or index in it."""


class PythonState:
    """The attributes of all modules at one moment, and those of `beside`: to be compared, and to be put back.

    `beside` is an object that takes part in the loss, such as a trainer; only its own attributes count.
    """

    def __init__(self, module: torch.nn.Module, beside: Any = None) -> None:
        self._module, self._beside = module, beside
        self.values: dict[str, Any] = {}
        self._owners: dict[str, Place] = {}
        self._names: list[tuple[Owner, frozenset[str]]] = []
        self._contents: list[tuple[Any, Any]] = []
        self._seen: set[int] = set()
        for path, child in module.named_modules():
            self._attributes(f"{path}." if path else "", vars(child), 0)
        if hasattr(beside, "__dict__") and not isinstance(beside, types.FunctionType):
            self._attributes(f"{type(beside).__name__}.", vars(beside), _DEPTH - 1)

    def _attributes(self, prefix: str, owner: Owner, depth: int) -> None:
        own = [name for name in owner if name not in _OF_TORCH]
        self._names.append((owner, frozenset(own)))
        for name in own:
            value, path = owner[name], f"{prefix}{name}"
            if isinstance(value, torch.nn.Module):
                continue
            self.values[path] = value
            self._owners[path] = owner, name
            self._inside(path, value, depth)

    def _inside(self, path: str, value: Any, depth: int) -> None:
        if depth == _DEPTH or id(value) in self._seen:
            return
        if isinstance(value, _CONTAINERS):
            if len(value) > _MAX_ITEMS:
                return
            self._seen.add(id(value))
            self._contents.append((value, value.copy()))
            self.values[f"{path}.length"] = len(value)
            if isinstance(value, dict) and all(isinstance(name, str) for name in value):
                self._attributes(f"{path}.", value, depth + 1)
                return
            items = value.values() if isinstance(value, dict) else value
            for place, item in enumerate(items):
                self.values[f"{path}[{place}]"] = item
                if isinstance(value, list):
                    self._owners[f"{path}[{place}]"] = value, place
                self._inside(f"{path}[{place}]", item, depth + 1)
        elif _is_plain(value):
            self._seen.add(id(value))
            self._attributes(f"{path}.", vars(value), depth + 1)

    def now(self) -> PythonState:
        """Return the present state of the same objects."""
        return PythonState(self._module, self._beside)

    def restore(self) -> None:
        """Put every attribute back that is another one now, and take away what is new."""
        for owner, names in self._names:
            for name in set(owner) - names - _OF_TORCH:
                if not isinstance(owner[name], torch.nn.Module):
                    del owner[name]
        for path, (owner, name) in self._owners.items():
            if not isinstance(owner, list) and owner.get(name) is not self.values[path]:
                owner[name] = self.values[path]
        for container, content in self._contents:
            if isinstance(container, dict):
                container.clear()
                container.update(content)
            elif isinstance(container, set):
                container.intersection_update(content)
                container.update(content)
            else:
                container.clear()
                container.extend(content)

    def changed_in(self, later: PythonState) -> list[str]:
        """Return the names of numbers, words and tensors that are other ones later."""
        pairs = ((path, value, later.values.get(path)) for path, value in self.values.items())
        return [path for path, first, second in pairs if _differ(first, second)]

    def watch(self, paths: list[str]) -> None:
        """Replace numbers by ones that raise if a program would depend on them."""
        for path in paths:
            if path not in self._owners:
                continue
            owner, name = self._owners[path]
            number = owner[name]
            if type(number) in (int, float):
                owner[name] = _watched(type(number), path, number)


def _is_plain(value: Any) -> bool:
    """Return whether a value is of a user's own class, so that its attributes may be state."""
    kind = type(value)
    return (
        hasattr(value, "__dict__")
        and not isinstance(value, type | torch.Tensor | torch.dtype)
        and not callable(value)
        and not kind.__module__.startswith(("torch.", "builtins", "numpy"))
    )


def _differ(first: Any, second: Any) -> bool:
    if isinstance(first, torch.Tensor) or isinstance(second, torch.Tensor):
        return first is not second
    if isinstance(first, bool | int | float | str):
        return type(first) is not type(second) or (first != second and first == first)
    return first is None and isinstance(second, bool | int | float | str)


def _depends(path: str) -> Unsupported:
    return Unsupported(f"the step depends on {path}, which it changes itself", _REMEDY, "module")


def _watched(kind: type, path: str, number: Any) -> Any:
    """Return a number of this kind that can be counted and printed, and that nothing may be decided by."""

    def refuse(*_: Any) -> Any:
        raise _depends(path)

    def counted(name: str) -> Callable[..., Any]:
        def method(self: Any, *others: Any) -> Any:
            result = getattr(kind, name)(self, *others)
            return result if result is NotImplemented else _watched(type(result), path, result)

        return method

    counting = ("add", "radd", "sub", "rsub", "mul", "rmul", "mod", "floordiv", "truediv", "pow", "neg")
    deciding = ("lt", "le", "gt", "ge", "eq", "ne", "bool")
    methods: dict[str, Any] = {f"__{name}__": counted(f"__{name}__") for name in counting}
    methods |= {f"__{name}__": refuse for name in deciding} | {"__hash__": kind.__hash__}
    return type(kind.__name__, (kind,), methods)(number)


@contextlib.contextmanager
def no_draws() -> Iterator[None]:
    """Raise Unsupported if Python's or numpy's generator is used, which a program would draw from only once."""
    first, second = random.getstate(), np.random.get_state()
    words = _words(second)
    yield
    drawn = "random" if random.getstate() != first else ""
    if _words(np.random.get_state()) != words:
        drawn = "numpy.random"
    if drawn:
        random.setstate(first)
        np.random.set_state(second)
        raise Unsupported(
            f"the step draws from Python's {drawn}",
            "a program would keep the first number for ever: draw with torch.rand, and choose with torch.where",
            "module or loss",
        )


def _words(state: Any) -> tuple[Any, ...]:
    """Return the state of numpy's generator as values that can be compared: the array in it as bytes."""
    return tuple(part.tobytes() if isinstance(part, np.ndarray) else part for part in state)


def check(before: PythonState, code: str, again: Callable[[], str]) -> None:
    """Raise Unsupported if a later step would be another program than the first, whose graph is `code`.

    `before` is the state before the first trace; `again` traces once more, and returns the graph. All is put back.
    """
    after = before.now()
    changed = before.changed_in(after)
    if not changed:
        before.restore()
        return
    try:
        if _traced(again, changed) != code:
            raise _depends(", ".join(sorted(changed)[:3]))
        counting = after.changed_in(after.now())
        if counting:
            after.watch(counting)
            if _traced(again, counting) != code:
                raise _depends(", ".join(sorted(counting)[:3]))
    finally:
        before.restore()


def _traced(again: Callable[[], str], changed: list[str]) -> str:
    """Trace again. NOTE: a tensor that an earlier trace left behind fails in ways that PyTorch does not explain."""
    try:
        return again()
    except LeftOver as error:
        raise _depends(", ".join(sorted(changed)[:3])) from error
    except Unsupported:
        raise
    except (CaptureError, RuntimeError, AssertionError) as error:
        raise _depends(", ".join(sorted(changed)[:3])) from error
