"""Values in Python that can be counted, printed and written to, and that nothing may be decided by.

They take the place of what a step changes each time: whoever decides by one makes another program of a later step.
"""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from .errors import Unsupported

REMEDY = (
    "a program is the same in every step: keep what changes in a buffer, and call the module once before the capture "
    "if it fills a cache"
)
_COUNTING = (
    *(
        "add",
        "radd",
        "sub",
        "rsub",
        "mul",
        "rmul",
        "mod",
        "rmod",
        "floordiv",
        "rfloordiv",
        "truediv",
        "rtruediv",
    ),
    *(
        "pow",
        "rpow",
        "neg",
        "pos",
        "abs",
        "and",
        "rand",
        "or",
        "ror",
        "xor",
        "rxor",
        "lshift",
        "rshift",
        "invert",
    ),
)
_DECIDING = (
    *(
        "__lt__",
        "__le__",
        "__gt__",
        "__ge__",
        "__eq__",
        "__ne__",
        "__bool__",
        "__int__",
        "__float__",
        "__round__",
    ),
    *("__divmod__", "__rdivmod__", "__trunc__", "__floor__", "__ceil__", "is_integer", "bit_length"),
)
_OF_TEXT = (
    *("__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__", "__len__", "__contains__", "__getitem__"),
    *("__iter__", "count", "endswith", "find", "index", "isdigit", "startswith", "split", "strip"),
)
_OF_CONTAINER = (
    "__len__",
    "__iter__",
    "__contains__",
    "__eq__",
    "__ne__",
    "__lt__",
    "__gt__",
    "__reversed__",
)
_LOOKING: dict[type, tuple[str, ...]] = {
    list: (*_OF_CONTAINER, "__getitem__", "count", "index", "copy"),
    dict: (*_OF_CONTAINER, "__getitem__", "get", "items", "keys", "values", "setdefault", "copy"),
    set: (*_OF_CONTAINER, "issubset", "issuperset", "isdisjoint", "copy"),
    collections.deque: (*_OF_CONTAINER, "__getitem__", "count", "index", "copy"),
}


def depends(path: str) -> Unsupported:
    """Return the refusal of a step that another step makes another program."""
    return Unsupported(f"the step depends on {path}, which it changes itself", REMEDY, "module")


def watched(path: str, value: Any) -> Any:
    """Return a value in whose place nothing may be decided by it; None for a kind of value that has none such."""
    if isinstance(value, np.integer | np.floating):
        value = value.item()
    kind = type(value)
    if kind in (int, float):
        return _number(kind, path, value)
    if kind is str:
        return _text(path, value)
    if kind in _LOOKING:
        return _of(kind, _LOOKING[kind], path)(value)
    return None


def _of(kind: type, looking: tuple[str, ...], path: str, **others: Any) -> Callable[[Any], Any]:
    """Return a class of which everything that looks at a value raises; its length, hash and items in C among that."""
    methods: dict[str, Any] = {name: _refusing(path) for name in looking if hasattr(kind, name)}
    # NOTE: without it, a class with another __eq__ has no hash.
    methods |= {"__hash__": kind.__hash__, **others}
    return cast("Callable[[Any], Any]", type(kind.__name__, (kind,), methods))


def _refusing(path: str) -> Callable[..., Any]:
    def refuse(*_: Any) -> Any:
        raise depends(path)

    return refuse


def _text(path: str, text: str) -> Any:
    def joined(self: Any, other: str) -> Any:
        return _text(path, str.__add__(self, other))

    return _of(str, _OF_TEXT, path, __add__=joined)(text)


def _number(kind: type, path: str, number: Any) -> Any:
    def counted(name: str) -> Callable[..., Any]:
        def method(self: Any, *others: Any) -> Any:
            result = getattr(kind, name)(self, *others)
            return result if result is NotImplemented else _number(type(result), path, result)

        return method

    names = [f"__{name}__" for name in _COUNTING if hasattr(kind, f"__{name}__")]
    return _of(kind, _DECIDING, path, **{name: counted(name) for name in names})(number)
