"""Values in Python that a step can reach: what is found of them at one moment.

module ──> attributes of each layer, its hooks, its class ─┐      ┌─> items, attributes
loss ────> closure, defaults, globals of its functions ────┴──────┴─> functions: theirs, too
"""

from __future__ import annotations

import functools
import gc
import sys
import threading
import types
import weakref
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from .own_code import holds_values, is_own, outer_names
from .python_places import (
    ATOMS,
    MISSING,
    Cell,
    Contained,
    Element,
    Item,
    OfClass,
    Place,
    Slot,
    base_of,
    content_of,
    is_a,
)

_DEPTH, _OF_LIBRARY = 60, 20
"""Depth to which objects and containers in others are searched, and what an object of a library counts."""
_MAX_ITEMS = 4096
"""Largest container whose items are searched; larger ones are data."""
_MOST, _OF_LAYER = 30_000, 20
"""Values after which no further objects are searched, and how many more for each layer: some seconds of a build."""
OF_TORCH = frozenset(vars(torch.nn.Module()))
_TABLES = ("_modules", "_parameters", "_buffers")
_HOOKS = tuple(name for name in sorted(OF_TORCH) if name.endswith("_hooks"))
FUNCTIONS = (types.FunctionType, types.MethodType, functools.partial)
Owner = Any
"""A mapping, list or object."""


class PythonValues:
    """Values that are reached at one moment: `values` to compare, and `objects` to put back in their `places`."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.objects: dict[str, Any] = {}
        self.places: dict[str, Place] = {}
        self.contents: list[Contained] = []
        self.names: list[tuple[Owner, frozenset[str]]] = []
        """Namespaces that are all a user's, and the names in them."""
        self._seen: dict[int, Any] = {}
        self._counts = dict[str, int]()
        self._most = _MOST
        self._globals_of: dict[int, set[str]] = {}

    def of_module(self, module: torch.nn.Module, prefix: str = "") -> None:
        """Reach the layers of a module: what each keeps, its hooks and its class."""
        for path, child in module.named_modules():
            if not self._is_seen(child):
                self._layer(prefix + (f"{path}." if path else ""), child)
                # NOTE: buffers of the module that is captured are state, and those of others are not.
                for name, buffer in child._buffers.items() if prefix else ():
                    self._value(f"{prefix}{path}{name}", buffer, Item(child._buffers, name), 0)

    def _layer(self, path: str, layer: torch.nn.Module) -> None:
        own = vars(layer)
        self._most += _OF_LAYER
        self._value(f"{path}training", layer.training, Item(own, "training"), 0)
        self.of_namespace(path, own, 0)
        self.of_class(type(layer), 0)
        for table in (*_TABLES, *_HOOKS):
            items = own.get(table)
            if isinstance(items, dict) and (kept := Contained.of(items)) is not None:
                self.contents.append(kept)
                if items:
                    shown = {
                        key: id(item) if table == "_modules" else item is None for key, item in items.items()
                    }
                    self.values[self._new(f"{path}{table}")] = repr(shown)
        for name, parameter in layer._parameters.items():
            if parameter is not None:
                place = Slot(parameter, torch.Tensor.requires_grad)
                self._value(f"{path}{name}.requires_grad", parameter.requires_grad, place, 0)
        hooks = [hook for table in _HOOKS for hook in (own.get(table) or {}).values()]
        for parameter in layer.parameters(recurse=False):
            hooks += (parameter._backward_hooks or {}).values()
        for hook in hooks:
            self._inside(getattr(hook, "__name__", "hook"), hook, None, 0)

    def of_hooks(self) -> None:
        """Reach the hooks of all modules of the process."""
        for table in _HOOKS:
            for hook in (getattr(torch.nn.modules.module, f"_global{table}", None) or {}).values():
                self._inside(getattr(hook, "__name__", "hook"), hook, None, 0)

    def of_beside(self, beside: Any) -> None:
        """Reach what takes part in the loss. Of a trainer's objects of libraries only attributes count."""
        if is_a(beside, torch.nn.Module):
            self.of_module(beside, f"{type(beside).__name__}.")
        elif is_a(beside, *FUNCTIONS):
            self._inside(getattr(beside, "__name__", "loss"), beside, None, 0)
        elif callable(beside) and not is_a(beside, type):
            self._inside(type(beside).__name__, beside, None, 0)
        elif (own := _attributes(beside)) is not None and not is_a(beside, type):
            self.of_namespace(f"{type(beside).__name__}.", own, _DEPTH - _OF_LIBRARY - 1)
            self.of_class(type(beside), 0)

    def of_schedule(self, scheduler: Any) -> None:
        """Reach the functions of a schedule, such as those of LambdaLR, and what it keeps itself."""
        self.of_namespace(f"{type(scheduler).__name__}.", vars(scheduler), 0)
        self.of_class(type(scheduler), 0)

    def of_namespace(self, prefix: str, owner: Owner, depth: int) -> None:
        items = dict(dict.items(owner)) if is_a(owner, dict) else dict(owner)
        own = [name for name in items if name not in OF_TORCH]
        self.names.append((owner, frozenset(own)))
        for name in own:
            self._value(f"{prefix}{name}", items[name], Item(owner, name), depth)

    def of_class(self, kind: type, depth: int) -> None:
        """Reach what a class of one's own keeps, and its functions."""
        for base in (*kind.__mro__, *type.mro(type(kind))):
            if not is_own(base) or self._is_seen(base):
                continue
            for name, value in list(vars(base).items()):
                function = value.fget if is_a(value, property) else value
                if is_a(function, staticmethod, classmethod):
                    function = function.__func__
                if is_a(function, types.FunctionType):
                    self._inside(name, function, None, depth)
                elif not name.startswith("__") and not hasattr(type(value), "__get__"):
                    self._value(f"the class {base.__name__}.{name}", value, OfClass(base, name), depth)

    def _is_seen(self, value: Any) -> bool:
        seen = id(value) in self._seen
        self._seen[id(value)] = value
        return seen

    def _value(self, path: str, value: Any, place: Place | None, depth: int) -> None:
        content = content_of(value)
        path = self._new(path)
        self.values[path] = value if content is None else content
        self.objects[path] = value
        if place is not None:
            self.places[path] = place
        if content is None:
            self._inside(path, value, place, depth)

    def _new(self, path: str) -> str:
        """Return a path that nothing has yet. NOTE: two functions of one name may each have a `calls`."""
        while path in self.values:
            count = self._counts[path] = self._counts.get(path, 1) + 1
            path = f"{path} ({count})"
        return path

    def _inside(self, path: str, value: Any, place: Place | None, depth: int) -> None:
        if value is None or value is MISSING or is_a(value, *ATOMS, torch.Tensor):
            return
        if is_a(value, tuple):
            items = list(tuple.__iter__(value))[:_MAX_ITEMS] if depth < _DEPTH else []
            for k, item in enumerate(items):
                self._value(f"{path}[{k}]", item, place and Element(place, value, k), depth + 1)
            return
        if is_a(value, torch.nn.Module):
            self.of_module(value, f"{path}.")
        elif is_a(value, type):
            self.of_class(value, depth)
        elif self._is_seen(value):
            return
        elif is_a(value, *FUNCTIONS):
            self._function(path, value, depth)
        elif is_a(value, functools._lru_cache_wrapper):
            self._inside(path, value.__wrapped__, None, depth)
            for kept in _cached(value):
                self._inside(path, kept, None, depth)
        elif is_a(value, types.ModuleType):
            self._module(value, depth)
        elif is_a(value, weakref.ref):
            self._inside(path, weakref.ref.__call__(value), None, depth)
        elif depth < _DEPTH and len(self.values) < self._most:
            if base_of(value) is not None:
                self._container(path, value, depth)
            if _is_plain(value):
                self._object(path, value, depth + (1 if is_own(type(value)) else _OF_LIBRARY))

    def _container(self, path: str, value: Any, depth: int) -> None:
        kept = Contained.of(value)
        assert kept is not None
        self.contents.append(kept)
        self.values[f"{path}.length"] = len(kept.items)
        if len(kept.items) > _MAX_ITEMS:
            return
        if is_a(value, dict) and all(type(name) is str for name in kept.items):
            self.of_namespace(f"{path}.", value, depth + 1)
        elif is_a(value, set):
            self.values[f"{path}.items"] = frozenset(x for x in kept.items if is_a(x, *ATOMS))
        else:
            pairs = list(kept.items.items()) if is_a(value, dict) else list(enumerate(kept.items))
            for name, item in pairs:
                there = Item(value, name) if is_a(value, dict, list) else None
                label = repr(name) if is_a(name, *ATOMS) or type(name) is tuple else type(name).__name__
                self._value(f"{path}[{label}]", item, there, depth + 1)

    def _object(self, path: str, value: Any, depth: int) -> None:
        own = _attributes(value)
        if own is not None and own is not value:
            self.of_namespace(f"{path}.", own, depth)
        for base in type(value).__mro__:
            for name, slot in list(vars(base).items()):
                if is_a(slot, types.MemberDescriptorType) and not name.startswith("__"):
                    place = Slot(value, slot)
                    self._value(f"{path}.{name}", place.get(), place, depth)
        self.of_class(type(value), depth)

    def _module(self, module: types.ModuleType, depth: int) -> None:
        """Reach what a Python module of one's own keeps."""
        if is_own(module):
            for name, value in list(vars(module).items()):
                if not name.startswith("__"):
                    self._value(f"{module.__name__}.{name}", value, Item(vars(module), name), depth)

    def _function(self, path: str, value: Any, depth: int) -> None:
        if is_a(value, types.MethodType):
            holder = value.__self__
            self._inside(type(holder).__name__, holder, None, depth)
            value = value.__func__
        if is_a(value, functools.partial):
            self._value(f"{path}.args", value.args, None, depth)
            self.of_namespace(f"{path}.", value.keywords, depth)
            self._inside(getattr(value.func, "__name__", path), value.func, None, depth)
        elif is_a(value, types.FunctionType) and is_own(value):
            self._own_function(value, depth + 1)
        elif is_a(value, types.FunctionType):  # NOTE: a decorator of a library calls a function of one's own
            inner = [Cell(cell).get() for cell in value.__closure__ or ()]
            for found in [*inner, vars(value).get("__wrapped__")]:
                if is_a(found, *FUNCTIONS, dict, list, tuple):
                    self._inside(path, found, None, depth + _OF_LIBRARY)

    def _own_function(self, function: types.FunctionType, depth: int) -> None:
        code, name = function.__code__, function.__name__
        for free, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            place = Cell(cell)
            self._value(f"{name}.{free}", place.get(), place, depth)
        given = code.co_varnames[: code.co_argcount]
        defaults = function.__defaults__ or ()
        for argument, default in zip(given[len(given) - len(defaults) :], defaults, strict=True):
            self._value(f"{name}.{argument}", default, None, depth)
        named = function.__kwdefaults__ or {}
        for argument, default in named.items():
            self._value(f"{name}.{argument}", default, Item(named, argument), depth)
        self.of_namespace(f"{name}.", vars(function), depth)
        self._globals(function, depth)

    def _globals(self, function: types.FunctionType, depth: int) -> None:
        names, imported = outer_names(function.__code__)
        there = function.__globals__
        known = self._globals_of.setdefault(id(there), set())
        if "globals" in names:
            names = names | {name for name in there if not name.startswith("__")}
        for name in sorted(names - known):
            known.add(name)
            value = there.get(name, MISSING)
            if value is not MISSING or name not in _builtins(there):
                self._value(f"the global {name}", value, Item(there, name), depth)
        package = str(there.get("__package__") or "")
        for name in sorted(imported):
            for module in (name, f"{package}.{name}"):
                if module in sys.modules and not self._is_seen(sys.modules[module]):
                    self._module(sys.modules[module], depth)


def _cached(cache: Any) -> Iterator[Any]:
    """Yield what a cache keeps, and its keys. NOTE: the cache itself is nobody's to write to."""
    for kept in gc.get_referents(cache):
        if type(kept) is dict and kept is not vars(cache):
            yield from kept.values()  # NOTE: of a cache with a bound these are links, which hold nothing
        elif kept is not cache.__wrapped__ and not is_a(kept, dict, type):
            yield kept


def _builtins(there: Mapping[str, Any]) -> Mapping[str, Any]:
    found = there.get("__builtins__", {})
    return vars(found) if isinstance(found, types.ModuleType) else found


def _attributes(value: Any) -> Any:
    """Return the mapping of an object's attributes; None if it has none."""
    try:
        return value.__dict__ if is_a(value, threading.local) else object.__getattribute__(value, "__dict__")
    except Exception:  # it has slots, or code of its own raises
        return None


def _is_plain(value: Any) -> bool:
    """Return whether a value is of a class whose attributes may be state."""
    kind = type(value)
    if is_a(value, threading.local):
        return True
    if is_a(value, torch.dtype) or not holds_values(kind):
        return False
    # NOTE: what is called in a library holds what is of no step, such as a registry; in one's own code it may count.
    return is_own(kind) or (_attributes(value) is not None and not callable(value))
