"""Structs of the contracts as dataclasses: the fields are the struct's, in its order.

words     what the ABI coder takes for a value
value_of  the value of what an ABI decoder gives
hash_of   the hash that the contracts keep instead of values
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import IntEnum
from functools import cache
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from eth_abi.abi import encode
from eth_utils.crypto import keccak

from ..errors import InvalidEncoding

T = TypeVar("T")


def _hints_of(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}


hints_of: Callable[[Any], dict[str, Any]] = cache(_hints_of)
"""Return the types of a dataclass's fields, by name and in order."""


def words(value: object) -> Any:
    """Return a value as the ABI coder takes it: a dataclass as the tuple of its fields, a tuple as a list."""
    if isinstance(value, tuple | list):
        return [words(one) for one in value]
    if is_dataclass(value):
        return tuple(words(getattr(value, field.name)) for field in fields(value))
    return int(value) if isinstance(value, IntEnum) else value


def hash_of(types: Sequence[str], *values: object) -> bytes:
    """Return keccak256 of the encoding of these values as these types of the ABI (`keccak256(abi.encode(...))`)."""
    return keccak(encode(types, words(values)))


def value_of(kind: type[T], raw: Any) -> T:
    """Return ``raw``, from an ABI decoder, as a value of this kind: a dataclass, a tuple, an IntEnum or a plain type.

    A decoder gives a struct as a sequence of its fields or by their names. Raises InvalidEncoding if something does
    not fit.
    """
    found: T = _value(kind, raw)
    return found


def _value(kind: Any, raw: Any) -> Any:
    if get_origin(kind) is tuple:
        args = get_args(kind)
        parts = _parts(kind, raw, None if args[-1] is ... else len(args))
        return tuple(map(_value, args if args[-1] is not ... else args[:1] * len(parts), parts))
    if is_dataclass(kind):
        hints = hints_of(kind)
        return kind(*map(_value, hints.values(), _parts(kind, raw, len(hints))))  # type: ignore[operator]
    if issubclass(kind, IntEnum):
        try:
            return kind(raw)
        except ValueError:
            raise InvalidEncoding(
                f"{kind.__name__} {reprlib.repr(raw)} cannot be; the last one is {max(kind)}"
            ) from None
    if not isinstance(raw, kind) or (kind is int and isinstance(raw, bool)):
        raise InvalidEncoding(f"{reprlib.repr(raw)} cannot be; a value of type {kind.__name__} is due")
    return bytes(raw) if kind is bytes else raw


def _parts(kind: Any, raw: Any, count: int | None) -> list[Any]:
    """Return the members of a struct or an array. Raises InvalidEncoding unless there are ``count`` (None: any)."""
    name = getattr(kind, "__name__", str(kind))
    if not isinstance(raw, Mapping | tuple | list):
        raise InvalidEncoding(f"{reprlib.repr(raw)} cannot be; a struct or an array is due for {name}")
    parts = list(raw.values() if isinstance(raw, Mapping) else raw)
    if count not in (None, len(parts)):
        raise InvalidEncoding(f"{name} with {len(parts)} members cannot be; it has {count}")
    return parts
