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
from typing import Any

import numpy as np
import torch

from .errors import CaptureError, LeftOver, Unsupported
from .python_values import ATOMS, MISSING, OF_TORCH, Content, Element, PythonValues
from .watched import depends, watched


class PythonState:
    """What a module and its loss keep in Python at one moment (`PythonValues`): to be compared, and to be put back.

    `beside` takes part in the loss: a function, a module, or an object such as a trainer.
    """

    def __init__(self, module: torch.nn.Module, beside: Any = None) -> None:
        self._module, self._beside = module, beside
        self._found = PythonValues()
        self._found.of_module(module)
        self._found.of_beside(beside)

    def now(self) -> PythonState:
        """Return the present state of the same objects."""
        return PythonState(self._module, self._beside)

    def restore(self) -> None:
        """Put every value back that is another one now, and take away what is new."""
        found = self._found
        for owner, names in found.names:
            for name in set(owner) - names - OF_TORCH:
                if not isinstance(owner[name], torch.nn.Module):
                    del owner[name]
        for path, place in found.places.items():
            if not isinstance(place, Element) and place.get() is not found.objects[path]:
                place.put(found.objects[path])
            content = found.values[path]
            if isinstance(content, Content) and content.back is not None:
                content.back()
        for container, content in found.contents:
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
        """Return the names of values that are other ones later, or that are there at one of the moments alone."""
        ours, theirs = self._found.values, later._found.values
        return [
            path
            for path in dict.fromkeys((*ours, *theirs))
            if _differ(ours.get(path, MISSING), theirs.get(path, MISSING))
        ]

    def watch(self, paths: list[str]) -> None:
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
        for path in paths:
            if path.startswith(around) and not path.endswith(".length"):
                continue
            whole = path.removesuffix(".length")
            value = self._found.objects.get(whole, MISSING)
            if isinstance(value, torch.Tensor):
                continue
            place, other = self._found.places.get(whole), watched(whole, value)
            if place is None or other is None:
                raise depends(whole)
            place.put(other)


def _differ(first: Any, second: Any) -> bool:
    if isinstance(first, torch.Tensor) or isinstance(second, torch.Tensor):
        return first is not second
    if isinstance(first, Content) and isinstance(second, Content):
        return bool(first.known != second.known)
    if isinstance(first, types.FunctionType) and isinstance(second, types.FunctionType):
        return first.__code__ is not second.__code__
    if isinstance(first, (*ATOMS, type(None))) or isinstance(second, ATOMS):
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
            raise depends(_named(changed))
        now = after.now()
        counting = after.changed_in(now)
        if counting:
            now.watch(counting)
            if _traced(again, counting) != code:
                raise depends(_named(counting))
    finally:
        before.restore()


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
