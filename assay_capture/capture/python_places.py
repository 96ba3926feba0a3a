"""Places of values in Python, and what of a value can be compared later and put back: for `python_values`."""

from __future__ import annotations

import array
import collections
import contextvars
import copy
import decimal
import fractions
import functools
import hashlib
import io
import operator
import random
import types
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np

MISSING: Any = type("Missing", (), {"__repr__": lambda _: "nothing"})()
"""Stands for the value of a name that there is not."""
_MAX_BYTES, _MAX_HASHED, _MAX_OBJECTS = 1 << 22, 1 << 28, 4096
"""Largest array whose content is kept, and whose content is hashed; and objects of an array that are looked at."""
_ITERATORS = 4
"""Depth to which iterators of iterators are looked at."""
_CONTAINERS = (list, dict, set, collections.deque)
ATOMS = (
    *(bool, int, float, complex, str, bytes, range, slice, frozenset, np.generic),
    *(decimal.Decimal, fractions.Fraction),
)


def is_a(value: Any, *kinds: type) -> bool:
    """Return whether a value is of one of these classes. NOTE: what it says of its class itself, may be a lie."""
    return issubclass(type(value), kinds)


class Place(Protocol):
    """The place of a value."""

    def get(self) -> Any: ...

    def put(self, value: Any, /) -> None: ...


@dataclass(frozen=True)
class Item:
    """An item of a dictionary or list, such as an attribute of an object's dictionary."""

    owner: Any
    name: Any

    def get(self) -> Any:
        try:
            return base_of(self.owner).__getitem__(self.owner, self.name)
        except LookupError:
            return MISSING

    def put(self, value: Any) -> None:
        kind = base_of(self.owner)
        if value is not MISSING:
            kind.__setitem__(self.owner, self.name, value)
        elif self.get() is not MISSING:
            kind.__delitem__(self.owner, self.name)


@dataclass(frozen=True)
class OfClass:
    """A name of a class. NOTE: getattr would call a descriptor."""

    owner: type
    name: str

    def get(self) -> Any:
        return vars(self.owner).get(self.name, MISSING)

    def put(self, value: Any) -> None:
        type.__setattr__(self.owner, self.name, value)


@dataclass(frozen=True)
class Slot:
    """A slot of an object, or another attribute that a descriptor gives and takes."""

    owner: Any
    descriptor: Any

    def get(self) -> Any:
        try:
            return self.descriptor.__get__(self.owner, type(self.owner))
        except AttributeError:
            return MISSING

    def put(self, value: Any) -> None:
        if value is not MISSING:
            self.descriptor.__set__(self.owner, value)
        elif self.get() is not MISSING:
            self.descriptor.__delete__(self.owner)


@dataclass(frozen=True)
class Cell:
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
        items = list(tuple.__iter__(self.whole.get()))
        items[self.index] = value
        self.whole.put(type(self.before)(*items) if hasattr(self.before, "_fields") else tuple(items))


@dataclass(frozen=True)
class Content:
    """The content at a moment of an object whose identity says nothing: an array, a generator, an iterator."""

    known: Any
    back: Callable[[], None] | None = None


@dataclass(frozen=True)
class Contained:
    """Items that a container held. NOTE: methods of Python's own class are called: a subclass may have others."""

    container: Any
    items: Any

    @classmethod
    def of(cls, container: Any) -> Contained | None:
        """Return what a container holds; None for something else."""
        kind = base_of(container)
        return None if kind is None else cls(container, kind(_items(kind, container)))

    def restore(self) -> None:
        """Put the items back, if there are others now."""
        kind = base_of(self.container)
        assert kind is not None
        now = _items(kind, self.container)
        if len(now) == len(self.items) and all(map(operator.is_, _flat(now), _flat(self.items))):
            return
        kind.clear(self.container)
        getattr(kind, "extend" if kind in (list, collections.deque) else "update")(self.container, self.items)


def base_of(value: Any) -> Any:
    """Return which container of Python's own a value is: its class, or what that is made of."""
    kinds = (collections.OrderedDict, *_CONTAINERS)
    return next((kind for kind in kinds if is_a(value, kind)), None)


def _items(kind: Any, container: Any) -> Any:
    if kind in (dict, collections.OrderedDict):
        return dict(kind.items(container))
    return list(kind.__iter__(container))


def _flat(items: Any) -> Iterator[Any]:
    if isinstance(items, dict):
        yield from items.keys()
        yield from items.values()
    else:
        yield from items


def content_of(value: Any) -> Content | None:
    """Return the content of an object whose identity says nothing; None for others."""
    if is_a(value, np.ndarray):
        if value.dtype.hasobject:
            return Content(repr([item for item in value.flat[:_MAX_OBJECTS] if is_a(item, *ATOMS)]))
        if value.nbytes > _MAX_BYTES:
            return Content(None if value.nbytes > _MAX_HASHED else hashlib.blake2b(value.tobytes()).digest())
        kept = np.array(value)
        return Content(kept.tobytes(), functools.partial(_write, value, kept))
    if is_a(value, np.random.Generator, np.random.RandomState):
        bits = value.bit_generator if is_a(value, np.random.Generator) else value._bit_generator
        state = copy.deepcopy(bits.state)
        return Content(repr(state), functools.partial(setattr, bits, "state", state))
    if is_a(value, random.Random):
        return Content(value.getstate(), functools.partial(value.setstate, value.getstate()))
    if is_a(value, bytearray, array.array):
        return Content(bytes(value))
    if is_a(value, io.StringIO, io.BytesIO):
        return Content(None if value.closed else (value.getvalue(), value.tell()))
    if is_a(value, contextvars.ContextVar):
        return Content(repr(value.get(MISSING)))
    if _is_pythons_iterator(value):
        return Content(_signature(value, 0))
    return None


def _is_pythons_iterator(value: Any) -> bool:
    return type(value).__module__ in ("builtins", "itertools") and issubclass(type(value), Iterator)


def _write(array: np.ndarray[Any, Any], content: np.ndarray[Any, Any]) -> None:
    if array.flags.writeable and not np.array_equal(array, content):
        array[...] = content


def _signature(value: Any, depth: int) -> Any:
    """Return how far an iterator is, as far as Python tells."""
    if depth > _ITERATORS:
        return None
    frame = getattr(value, "gi_frame", None)
    if frame is not None:
        atoms = {name: item for name, item in frame.f_locals.items() if is_a(item, *ATOMS)}
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
    if is_a(value, *ATOMS):
        return repr(value)
    return _signature(value, depth) if _is_pythons_iterator(value) else type(value).__name__
