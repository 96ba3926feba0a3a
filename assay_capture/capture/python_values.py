"""Values in Python that a step can reach: where each is, and what of it can be compared later and put back.

module ──> attributes of each layer, its hooks, its class ─┐      ┌─> items, attributes
loss ────> closure, defaults, globals of its functions ────┴──────┴─> functions: theirs, too
"""

from __future__ import annotations

import collections
import copy
import functools
import itertools
import operator
import random
import types
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np
import torch

from .own_code import holds_values, is_own, outer_names

MISSING: Any = type("Missing", (), {"__repr__": lambda _: "nothing"})()
"""Stands for the value of a name that there is not."""
_DEPTH = 9
"""Depth to which objects and containers in others are searched; each object of a library counts as three."""
_MAX_ITEMS = 4096
"""Largest container that is searched; larger ones are data."""
_MAX_BYTES = 1 << 24
"""Largest array whose content is kept; larger ones are data."""
_ITERATORS = 4
"""Depth to which iterators of iterators are looked at."""
OF_TORCH = frozenset(vars(torch.nn.Module())) | {"training"}
_HOOKS = tuple(name for name in sorted(OF_TORCH) if name.endswith("_hooks"))
_CONTAINERS = (list, dict, set, collections.deque)
ATOMS = (bool, int, float, complex, str, bytes, np.generic)
Owner = Any
"""A mapping, list or object."""


class Place(Protocol):
    """Where a value is."""

    def get(self) -> Any: ...

    def put(self, value: Any, /) -> None: ...


@dataclass(frozen=True)
class _Item:
    owner: Any
    name: Any

    def get(self) -> Any:
        try:
            return self.owner[self.name]
        except LookupError:
            return MISSING

    def put(self, value: Any) -> None:
        if value is not MISSING:
            self.owner[self.name] = value
        elif self.name in self.owner:
            del self.owner[self.name]


@dataclass(frozen=True)
class _Attribute:
    owner: Any
    name: str

    def get(self) -> Any:
        return getattr(self.owner, self.name, MISSING)

    def put(self, value: Any) -> None:
        if value is not MISSING:
            setattr(self.owner, self.name, value)
        elif hasattr(self.owner, self.name):
            delattr(self.owner, self.name)


@dataclass(frozen=True)
class _Cell:
    cell: types.CellType

    def get(self) -> Any:
        try:
            return self.cell.cell_contents
        except ValueError:  # it has no value yet
            return MISSING

    def put(self, value: Any) -> None:
        if value is not MISSING:
            self.cell.cell_contents = value
        elif self.get() is not MISSING:
            del self.cell.cell_contents


@dataclass(frozen=True)
class Element:
    """A place in a tuple, which is another tuple afterwards. Who puts the tuple back puts this back."""

    whole: Place
    before: tuple[Any, ...]
    index: int

    def get(self) -> Any:
        return self.before[self.index]

    def put(self, value: Any) -> None:
        items = [*self.before[: self.index], value, *self.before[self.index + 1 :]]
        self.whole.put(type(self.before)(*items) if hasattr(self.before, "_fields") else tuple(items))


@dataclass(frozen=True)
class Content:
    """What an object held at a moment whose identity says nothing: an array, a generator, an iterator."""

    known: Any
    back: Callable[[], None] | None = None


class PythonValues:
    """What is reached from some roots at one moment: `values` to compare, and `objects` to put back in `places`."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.objects: dict[str, Any] = {}
        self.places: dict[str, Place] = {}
        self.contents: list[tuple[Any, Any]] = []
        """Containers, and copies of them."""
        self.names: list[tuple[Owner, frozenset[str]]] = []
        """Namespaces that are all a user's, and the names in them."""
        self._seen: dict[int, Any] = {}
        self._globals_of: dict[int, set[str]] = {}

    def of_module(self, module: torch.nn.Module, prefix: str = "") -> None:
        """Reach the layers of a module: what each keeps, its hooks and its class."""
        for path, child in module.named_modules():
            if self._is_seen(child):
                continue
            path = prefix + (f"{path}." if path else "")
            self.of_namespace(path, vars(child), 0)
            self.of_class(type(child), 0)
            hooks = [hook for name in _HOOKS for hook in (vars(child).get(name) or {}).values()]
            for parameter in child.parameters(recurse=False):
                hooks += (parameter._backward_hooks or {}).values()
            for hook in hooks:
                self._inside(getattr(hook, "__name__", "hook"), hook, None, 0)

    def of_beside(self, beside: Any) -> None:
        """Reach what takes part in the loss. Of an object that is no loss, such as a trainer, only attributes count."""
        if isinstance(beside, torch.nn.Module):
            self.of_module(beside, f"{type(beside).__name__}.")
        elif isinstance(beside, types.FunctionType | types.MethodType | functools.partial):
            self._inside(getattr(beside, "__name__", "loss"), beside, None, 0)
        elif hasattr(beside, "__dict__") and not isinstance(beside, type):
            name, depth = type(beside).__name__, 0 if callable(beside) else _DEPTH - 1
            self.of_namespace(f"{name}.", vars(beside), depth)
            self.of_class(type(beside), depth)

    def of_namespace(self, prefix: str, owner: Owner, depth: int) -> None:
        own = [name for name in owner if name not in OF_TORCH]
        self.names.append((owner, frozenset(own)))
        for name in own:
            self._value(f"{prefix}{name}", owner[name], _Item(owner, name), depth)

    def of_class(self, kind: type, depth: int) -> None:
        """Reach what a class of one's own keeps, and its functions."""
        for base in kind.__mro__:
            if not is_own(base) or self._is_seen(base):
                continue
            for name, value in list(vars(base).items()):
                function = value.fget if isinstance(value, property) else value
                if isinstance(function, staticmethod | classmethod):
                    function = function.__func__
                if isinstance(function, types.FunctionType):
                    self._inside(name, function, None, depth)
                elif not name.startswith("__") and not isinstance(value, types.MemberDescriptorType):
                    self._value(f"the class {base.__name__}.{name}", value, _Attribute(base, name), depth)

    def _is_seen(self, value: Any) -> bool:
        seen = id(value) in self._seen
        self._seen[id(value)] = value
        return seen

    def _value(self, path: str, value: Any, place: Place | None, depth: int) -> None:
        content = None if isinstance(value, torch.Tensor | torch.nn.Module) else _content_of(value)
        path = self._new(path)
        self.values[path] = value if content is None else content
        self.objects[path] = value
        if place is not None:
            self.places[path] = place
        if content is None:
            self._inside(path, value, place, depth)

    def _new(self, path: str) -> str:
        """Return a path that nothing has yet. NOTE: two functions of one name may each have a `calls`."""
        if path not in self.values:
            return path
        return next(other for k in itertools.count(2) if (other := f"{path} ({k})") not in self.values)

    def _inside(self, path: str, value: Any, place: Place | None, depth: int) -> None:
        if isinstance(value, (*ATOMS, torch.Tensor)) or value is None or value is MISSING:
            return
        if isinstance(value, tuple):
            for k, item in enumerate(value[:_MAX_ITEMS] if depth < _DEPTH else ()):
                self._value(f"{path}[{k}]", item, place and Element(place, value, k), depth + 1)
            return
        if self._is_seen(value):
            return
        if isinstance(value, torch.nn.Module):
            self._seen.pop(id(value))
            self.of_module(value, f"{path}.")
        elif isinstance(value, types.FunctionType | types.MethodType | functools.partial):
            self._function(path, value, depth)
        elif isinstance(value, functools._lru_cache_wrapper):
            self._inside(path, value.__wrapped__, None, depth)
        elif depth >= _DEPTH:
            return
        elif isinstance(value, _CONTAINERS):
            self._container(path, value, depth)
        elif isinstance(value, type):
            self.of_class(value, depth)
        elif _is_plain(value):
            self._object(path, value, depth + (1 if is_own(type(value)) else 3))

    def _container(self, path: str, value: Any, depth: int) -> None:
        if len(value) > _MAX_ITEMS:
            return
        self.contents.append((value, value.copy()))
        self.values[f"{path}.length"] = len(value)
        if isinstance(value, dict) and all(isinstance(name, str) for name in value):
            self.of_namespace(f"{path}.", value, depth + 1)
            return
        if isinstance(value, set):
            self.values[f"{path}.items"] = Content(frozenset(x for x in value if isinstance(x, ATOMS)))
            return
        for place, item in list(value.items()) if isinstance(value, dict) else enumerate(value):
            there = None if isinstance(value, collections.deque) else _Item(value, place)
            self._value(f"{path}[{place!r}]", item, there, depth + 1)

    def _object(self, path: str, value: Any, depth: int) -> None:
        if hasattr(value, "__dict__"):
            self.of_namespace(f"{path}.", vars(value), depth)
        for base in type(value).__mro__:
            slots = base.__dict__.get("__slots__", ())
            for name in (slots,) if isinstance(slots, str) else slots:
                if not name.startswith("__"):
                    item = getattr(value, name, MISSING)
                    self._value(f"{path}.{name}", item, _Attribute(value, name), depth)
        self.of_class(type(value), depth)

    def _function(self, path: str, value: Any, depth: int) -> None:
        if isinstance(value, types.MethodType):
            holder = value.__self__
            path = getattr(holder, "__name__", type(holder).__name__)
            self._inside(path, holder, None, depth)
            value = value.__func__
        if isinstance(value, functools.partial):
            self._value(f"{path}.args", value.args, None, depth)
            self.of_namespace(f"{path}.", value.keywords, depth)
            self._inside(getattr(value.func, "__name__", path), value.func, None, depth)
            return
        if not isinstance(value, types.FunctionType) or not is_own(value):
            return
        code, name = value.__code__, value.__name__
        for free, cell in zip(code.co_freevars, value.__closure__ or (), strict=True):
            place = _Cell(cell)
            self._value(f"{name}.{free}", place.get(), place, depth + 1)
        given = code.co_varnames[: code.co_argcount]
        defaults = value.__defaults__ or ()
        for argument, default in zip(given[len(given) - len(defaults) :], defaults, strict=True):
            self._value(f"{name}.{argument}", default, None, depth + 1)
        named = value.__kwdefaults__ or {}
        for argument, default in named.items():
            self._value(f"{name}.{argument}", default, _Item(named, argument), depth + 1)
        self.of_namespace(f"{name}.", vars(value), depth + 1)
        self._globals(value, depth + 1)

    def _globals(self, function: types.FunctionType, depth: int) -> None:
        names, attributes = outer_names(function.__code__)
        there = function.__globals__
        known = self._globals_of.setdefault(id(there), set())
        for name in sorted(names - known):
            known.add(name)
            value = there.get(name, MISSING)
            if isinstance(value, types.ModuleType):
                if is_own(value):
                    for attribute in sorted(attributes & vars(value).keys()):
                        item = _Item(vars(value), attribute)
                        self._value(f"{value.__name__}.{attribute}", vars(value)[attribute], item, depth)
            elif value is not MISSING or name not in _builtins(there):
                self._value(f"the global {name}", value, _Item(there, name), depth)


def _builtins(there: Mapping[str, Any]) -> Mapping[str, Any]:
    found = there.get("__builtins__", {})
    return vars(found) if isinstance(found, types.ModuleType) else found


def _is_plain(value: Any) -> bool:
    """Return whether a value is of a class whose attributes may be state."""
    kind = type(value)
    if isinstance(value, torch.dtype) or not holds_values(kind):
        return False
    # NOTE: what is called in a library holds what is of no step, such as a registry; in one's own code it may count.
    return is_own(kind) or (hasattr(value, "__dict__") and not callable(value))


def _content_of(value: Any) -> Content | None:
    """Return the content of an object whose identity says nothing; None for others."""
    if isinstance(value, np.ndarray):
        if value.nbytes > _MAX_BYTES or value.dtype.hasobject:
            return Content(None)
        kept = value.copy()
        return Content(kept.tobytes(), functools.partial(_write, value, kept))
    if isinstance(value, np.random.Generator | np.random.RandomState):
        bits = value.bit_generator if isinstance(value, np.random.Generator) else value._bit_generator
        state = copy.deepcopy(bits.state)
        return Content(repr(state), functools.partial(setattr, bits, "state", state))
    if isinstance(value, random.Random):
        return Content(value.getstate(), functools.partial(value.setstate, value.getstate()))
    if _is_pythons_iterator(value):
        return Content(_signature(value, 0))
    return None


def _is_pythons_iterator(value: Any) -> bool:
    return type(value).__module__ in ("builtins", "itertools") and isinstance(value, Iterator)


def _write(array: np.ndarray[Any, Any], content: np.ndarray[Any, Any]) -> None:
    if array.flags.writeable and not np.array_equal(array, content):
        array[...] = content


def _signature(value: Any, depth: int) -> Any:
    """Return how far an iterator is, as far as Python tells."""
    if depth > _ITERATORS:
        return None
    frame = getattr(value, "gi_frame", None)
    if frame is not None:
        atoms = {name: item for name, item in frame.f_locals.items() if isinstance(item, ATOMS)}
        inner = [
            _signature(item, depth + 1) for item in frame.f_locals.values() if _is_pythons_iterator(item)
        ]
        return frame.f_lasti, repr(atoms), inner
    with warnings.catch_warnings(action="ignore"):
        try:
            parts = cast("Iterable[Any]", value.__reduce__()[1:])
        except TypeError:  # it cannot be copied, as a generator that is done
            parts = ()
    return operator.length_hint(value, -1), [_part(part, depth + 1) for part in parts]


def _part(value: Any, depth: int) -> Any:
    if isinstance(value, tuple):
        return [_part(item, depth) for item in value]
    if isinstance(value, ATOMS):
        return repr(value)
    return _signature(value, depth) if _is_pythons_iterator(value) else type(value).__name__
