"""Stand-ins for values in Python that a step changes each time: they can be counted, printed and written to.

Nothing can be decided or computed by one: it is no number, word or container of Python's, so that code in C takes none.
Whoever looks at one makes another program of a later step.
"""

from __future__ import annotations

import collections
import io
import itertools
from collections.abc import Callable
from typing import Any, Self

import numpy as np

from .errors import Unsupported

REMEDY = (
    "a program is the same in every step: keep what changes in a buffer, and call the module once before the capture "
    "if it fills a cache"
)
_LOOKING = (
    *(
        "lt",
        "le",
        "gt",
        "ge",
        "eq",
        "ne",
        "bool",
        "hash",
        "len",
        "iter",
        "next",
        "contains",
        "getitem",
        "reversed",
    ),
    *(
        "int",
        "float",
        "complex",
        "index",
        "round",
        "trunc",
        "floor",
        "ceil",
        "divmod",
        "rdivmod",
        "call",
        "enter",
    ),
    *("and", "or", "xor", "sub", "mul", "add", "array", "fspath", "bytes", "length_hint", "copy", "deepcopy"),
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
_WRITES: dict[type, tuple[str, ...]] = {
    list: ("append", "extend", "insert", "clear", "reverse", "__setitem__", "__delitem__"),
    dict: ("update", "clear", "__setitem__", "__delitem__"),
    set: ("add", "update", "clear", "discard"),
    io.StringIO: ("write", "writelines", "flush"),
    collections.deque: ("append", "appendleft", "extend", "extendleft", "clear", "__setitem__"),
}
"""Methods that write to a container, and neither look at it nor give anything of it."""
_WORDS = (*("lt", "le", "gt", "ge", "eq", "ne", "hash", "len", "iter", "contains", "getitem", "mul", "rmul"),)


Looks = list[str]
"""Paths of what was looked at."""


def depends(path: str) -> Unsupported:
    """Return the refusal of a step that another step makes another program."""
    return Unsupported(f"the step depends on {path}, which it changes itself", REMEDY, "module")


def watched(looks: Looks, path: str, value: Any) -> Any:
    """Return a stand-in for a value; None for a kind of value that has none, such as a flag.

    Where somebody looks at it, it raises, and adds its path to `looks`: the step may swallow the error.
    """
    if isinstance(value, np.integer | np.floating):
        value = value.item()
    kind = type(value)
    if kind in (int, float):
        return _Number(looks, path, value)
    if kind is str:
        return _words(looks, path, value)
    if kind in (collections.OrderedDict, collections.defaultdict, collections.Counter):
        kind = dict
    if kind in _WRITES:
        return _Container(looks, path, value, _WRITES[kind])
    if kind is np.ndarray:
        return _Array(looks, path, value)
    return _Count(looks, path, value) if kind is itertools.count else None


class _StandIn:
    """Raises Unsupported for whatever looks at it."""

    __slots__ = ("_looks", "_path", "_value")

    def __init__(self, looks: Looks, path: str, value: Any) -> None:
        self._looks, self._path, self._value = looks, path, value

    def __getattr__(self, name: str) -> Any:
        _refuse(self)

    def __repr__(self) -> str:
        return repr(self._value)


def _refuse(self: Any, *_: Any) -> Any:
    self._looks.append(self._path)
    raise depends(self._path)


for _name in _LOOKING:
    setattr(_StandIn, f"__{_name}__", _refuse)


class _Number(_StandIn):
    """A number that can be counted on and printed."""

    __slots__ = ()

    def __str__(self) -> Any:
        return _words(self._looks, self._path, str(self._value))

    def __format__(self, form: str) -> str:
        return format(self._value, form)


def _counted(name: str) -> Callable[..., Any]:
    def method(self: Any, *others: Any) -> Any:
        values = [other._value if isinstance(other, _Number) else other for other in others]
        result = getattr(self._value, name, lambda *_: NotImplemented)(*values)
        if result is NotImplemented and all(type(value) in (int, float) for value in values):
            result = getattr(float(self._value), name, lambda *_: NotImplemented)(*map(float, values))
        return _Number(self._looks, self._path, result) if type(result) in (int, float) else _refuse(self)

    return method


for _name in _COUNTING:
    setattr(_Number, f"__{_name}__", _counted(f"__{_name}__"))


class _Container(_StandIn):
    """A container that takes what it is given, and gives nothing."""

    __slots__ = ("_writes",)

    def __init__(self, looks: Looks, path: str, value: Any, writes: tuple[str, ...]) -> None:
        super().__init__(looks, path, value)
        self._writes = writes

    def __getattr__(self, name: str) -> Any:
        return (lambda *_, **__: None) if name in self._writes else _refuse(self)

    def __setitem__(self, *_: Any) -> None:
        if "__setitem__" not in self._writes:
            _refuse(self)

    def __delitem__(self, _: Any) -> None:
        if "__delitem__" not in self._writes:
            _refuse(self)

    def __iadd__(self, _: Any) -> Self:
        return self


class _Array(_StandIn):
    """An array of numpy that can be counted in."""

    __slots__ = ()

    def __getitem__(self, place: Any) -> Any:
        item = self._value[place]
        return (
            _Number(self._looks, self._path, item.item()) if isinstance(item, np.generic) else _refuse(self)
        )

    def __setitem__(self, *_: Any) -> None:
        """Take an element."""

    def __iadd__(self, _: Any) -> Self:
        return self


class _Count(_StandIn):
    """Numbers one after the other, as itertools.count gives them."""

    __slots__ = ()

    def __next__(self) -> Any:
        return _Number(self._looks, self._path, next(self._value))


def _words(looks: Looks, path: str, text: str) -> Any:
    """Return words that can be joined and printed. NOTE: they are a str, which str() of a number has to give."""

    def refuse(*_: Any) -> Any:
        looks.append(path)
        raise depends(path)

    def joined(self: Any, other: str) -> Any:
        return _words(looks, path, str.__add__(self, other))

    def attribute(self: Any, name: str) -> Any:
        return object.__getattribute__(self, name) if name.startswith("__") else refuse()

    methods: dict[str, Any] = {f"__{name}__": refuse for name in _WORDS}
    kind = type("str", (str,), {**methods, "__add__": joined, "__getattribute__": attribute})
    return kind(text)
