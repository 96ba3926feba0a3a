"""State in Python that a step can reach, of its module, its loss and their functions, and Python's random numbers.

A program is one graph for all steps, so a step must not depend on any of it if a step changes it. `check` traces again
as long as something changes:

    first trace ── nothing changed ──────────────────────────────────────────────────> it stands
        └─ changed ──> second trace, from what the first left ── another graph? ──> refused
                           └─ numbers changed again ──> third, with numbers that nothing may be decided by
"""

from __future__ import annotations

import contextlib
import random
import types
from collections.abc import Callable, Iterator
from typing import Any, Self

import numpy as np
import torch

from .errors import CaptureError, LeftOver, Unsupported
from .python_places import ATOMS, MISSING, Content, Element, Item, is_a
from .python_values import OF_TORCH, PythonValues
from .watched import Looks, depends, watched


class PythonState:
    """The state in Python of a module and its loss at one moment (`PythonValues`): to be compared, and put back.

    `beside` takes part in the loss: a function, a module, or an object such as a trainer. As a context manager it puts
    everything back at the end.
    """

    def __init__(self, module: torch.nn.Module, beside: Any = None) -> None:
        self._module, self._beside = module, beside
        self._found = PythonValues()
        self._found.of_module(module)
        self._found.of_beside(beside)
        self._found.of_hooks()

    def now(self) -> PythonState:
        """Return the present state of the same objects."""
        return PythonState(self._module, self._beside)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.restore()

    def restore(self) -> None:
        """Put every value back that is another one now, and take away what is new."""
        put_back(self._found)

    def changed_in(self, later: PythonState) -> list[str]:
        """Return the names of values that are other ones later, or that are there at one of the moments alone."""
        ours, theirs = self._found.values, later._found.values
        return [
            path
            for path in dict.fromkeys((*ours, *theirs))
            if _differ(ours.get(path, MISSING), theirs.get(path, MISSING))
        ]

    def watch(self, paths: list[str], looks: Looks) -> None:
        """Replace what changes by values that raise if a program would depend on them.

        Raises Unsupported for one that nothing can take the place of. NOTE: what is in a container that changes its
        length, is not read without it; and a tensor that an earlier trace has left fails in the next.
        """
        around = tuple(
            f"{path.removesuffix('.length')}{mark}"
            for path in paths
            if path.endswith(".length")
            for mark in "[."
        )
        for path in dict.fromkeys((*paths, *self._beside_of(paths))):
            if path.startswith(around) and not path.endswith(".length"):
                continue
            whole = path.removesuffix(".length")
            value = self._found.objects.get(whole, MISSING)
            if isinstance(value, torch.Tensor):
                continue
            place, other = self._found.places.get(whole), watched(looks, whole, value)
            if place is not None and other is not None:
                place.put(other)
            elif path in paths:
                raise depends(whole)

    def _beside_of(self, paths: list[str]) -> list[str]:
        """Return the other items of lists and tuples with items that change: they may change places next time."""
        lists = tuple({path[: path.rindex("[") + 1] for path in paths if path.endswith("]")})
        return [
            path
            for path in self._found.objects
            if path.startswith(lists) and path.endswith("]") and path[: path.rindex("[") + 1] in lists
        ]


def put_back(found: PythonValues) -> None:
    """Put every value back that is another one now, and take away what is new."""
    for owner, names in found.names:
        for name in set(owner) - names - OF_TORCH:
            if not is_a(owner[name], torch.nn.Module):
                Item(owner, name).put(MISSING)
    # NOTE: before the places, some of which a list lacks that is shorter now.
    for contained in found.contents:
        contained.restore()
    for path, place in found.places.items():
        if not isinstance(place, Element) and place.get() is not found.objects[path]:
            place.put(found.objects[path])
        content = found.values[path]
        if isinstance(content, Content) and content.back is not None:
            content.back()


_SAME = (types.BuiltinFunctionType, types.BuiltinMethodType, types.ModuleType, torch.nn.Module, type)
"""Kinds of values that are another one if they are another object."""


def _differ(first: Any, second: Any) -> bool:
    if is_a(first, torch.Tensor) or is_a(second, torch.Tensor):
        return first is not second
    if is_a(first, Content) and is_a(second, Content):
        return bool(first.known != second.known)
    if is_a(first, types.FunctionType) and is_a(second, types.FunctionType):
        return first.__code__ is not second.__code__
    if is_a(first, *_SAME) or is_a(second, *_SAME):
        return first is not second
    if is_a(first, *ATOMS, type(None)) or is_a(second, *ATOMS):
        return type(first) is not type(second) or bool(first != second and first == first)
    return (first is MISSING) != (second is MISSING)


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


def check(before: PythonState, first: str, again: Callable[[], str]) -> None:
    """Raise Unsupported if a later step would be another program than the first, whose graph is `first`.

    `before` is the state before the first trace; `again` traces once more, and returns the graph.
    """
    after = before.now()
    if not (changed := before.changed_in(after)):
        return
    if _traced(again, changed) != first:
        raise depends(_named(changed))
    now = after.now()
    if counting := after.changed_in(now):
        looks: Looks = []
        now.watch(counting, looks)
        if _traced(again, counting) != first or looks:
            raise depends(_named(looks or counting))


def _named(paths: list[str]) -> str:
    return ", ".join(sorted(paths)[:3])


def _traced(again: Callable[[], str], changed: list[str]) -> str:
    """Trace again. NOTE: a tensor that an earlier trace left behind fails in ways that PyTorch does not explain."""
    try:
        return again()
    except LeftOver as error:
        raise depends(_named(changed)) from error
    except Unsupported:
        raise
    except (CaptureError, RuntimeError, AssertionError) as error:
        raise depends(_named(changed)) from error
