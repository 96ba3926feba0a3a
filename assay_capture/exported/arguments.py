"""Operators of an exported program, and their arguments: JSON of the file as PyTorch's values, and nothing else.

A value is a union with one key: ``{"as_int": 3}``, ``{"as_tensor": {"name": "linear"}}``.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.nn import functional

from ..capture.errors import CaptureError, Unsupported
from .archive import DTYPES, Json

_ATEN = re.compile(r"torch\.ops\.aten\.(\w+)\.(\w+)")
_FILES = {"from_file"}
"""Operators of ATen that touch files."""
CHECKS = {
    "_assert_async",
    "_assert_scalar",
    "_assert_tensor_metadata",
    "sym_constrain_range",
    "sym_constrain_range_for_size",
}
"""Operators that compute nothing. What they check is checked by the capture, for the sizes that it has."""
_ARITHMETIC = "add sub mul floordiv truediv mod neg eq ne lt le gt ge and_ or_ not_ getitem"
_NUMBERS: dict[str, Callable[..., Any]] = {
    **{f"_operator.{name}": getattr(operator, name) for name in _ARITHMETIC.split()},
    "math.trunc": int,
    "torch.sym_float": float,
    "torch.sym_int": int,
    "torch.sym_max": max,
    "torch.sym_min": min,
    "torch.sym_not": operator.not_,
}
"""Functions of sizes."""
_FORMATS = {
    1: torch.contiguous_format,
    2: torch.channels_last,
    3: torch.channels_last_3d,
    4: torch.preserve_format,
}
_PLAIN = {
    "as_int": int,
    "as_float": float,
    "as_bool": bool,
    "as_string": str,
}
"""Values that stand for themselves, with their types; a list of each has the same name with an s."""
_NAMED = {"as_tensor", "as_sym_int", "as_sym_bool", "as_sym_float"}
Values = Mapping[str, Any]


def function(target: str, where: str) -> Callable[..., Any]:
    """Return an operator by its name in the file. Raises Unsupported.

    SAFETY: names are looked up in ATen and in a list, not in Python's modules.
    """
    if target in _NUMBERS:
        return _NUMBERS[target]
    found = _ATEN.fullmatch(target)
    if found is not None and found[1] not in _FILES:
        packet = getattr(torch.ops.aten, found[1], None)
        overload = (
            getattr(packet, found[2], None) if isinstance(packet, torch._ops.OpOverloadPacket) else None
        )
        if isinstance(overload, torch._ops.OpOverload):
            return _DRAWING.get(found[1], overload)
    raise Unsupported(
        f"operator {target[:80]!r}",
        "export the model with operators of ATen only, without torch.compile's or own ones",
        where,
    )


def _dropout(input: torch.Tensor, p: float, train: bool) -> torch.Tensor:  # noqa: A002  (ATen's names)
    return functional.dropout(input, p, train)


def _attention(**named: Any) -> torch.Tensor:
    return functional.scaled_dot_product_attention(**named)


_DRAWING: dict[str, Callable[..., Any]] = {"dropout": _dropout, "scaled_dot_product_attention": _attention}
"""Operators that draw random numbers, by the functions that a module calls: so the guard leaves dropout out."""


def argument(given: Json, values: Values, where: str) -> Any:
    """Return the value of an argument. Raises CaptureError for one that is not known, Unsupported for other kinds."""
    ((kind, content),) = given.items()
    if kind == "as_none":
        return None
    if kind in _NAMED:
        return _named(content, values, where)
    if kind in ("as_tensors", "as_sym_ints", "as_sym_bools", "as_sym_floats"):
        return [_named(one, values, where) for one in content]
    if kind == "as_optional_tensor":
        return argument(content, values, where)
    if kind == "as_optional_tensors":
        return [argument(one, values, where) for one in content]
    if (type_ := _PLAIN.get(kind)) is not None:
        return _plain(content, type_, where)
    if (type_ := _PLAIN.get(kind.removesuffix("s"))) is not None:
        return [_plain(one, type_, where) for one in content]
    if kind == "as_scalar_type" and content in DTYPES:
        return DTYPES[content]
    if kind == "as_memory_format" and content in _FORMATS:
        return _FORMATS[content]
    if kind == "as_layout" and content == 7:
        return torch.strided
    if kind == "as_device":
        return torch.device("cpu")
    raise Unsupported(f"an argument {kind}", "export the model without it", where)


def _plain(content: Any, type_: type, where: str) -> Any:
    if type_ is float and content in ("Infinity", "-Infinity", "NaN"):
        return float(content)
    if not isinstance(content, int | float if type_ is float else type_):
        raise CaptureError(f"{where}: {str(content)[:40]!r} is no {type_.__name__}")
    return content


def _named(content: Json, values: Values, where: str) -> Any:
    """Return a value by its name; sizes may be numbers, ``{"as_int": 3}`` or ``{"as_name": "sym_size"}``."""
    if "name" not in content and "as_name" not in content:
        return argument(content, values, where)
    name = content.get("name", content.get("as_name"))
    if name not in values:
        raise CaptureError(f"{where}: nothing before it gives {str(name)[:80]!r}")
    return values[name]


def names_of(given: Json) -> list[str | None]:
    """Return the names that an output binds; None for a part that has none."""
    ((kind, content),) = given.items()
    if kind in ("as_tensors", "as_optional_tensors", "as_sym_ints"):
        return [None if "as_none" in one else _name(one) for one in content]
    return [None if kind == "as_none" else _name(content)]


def _name(content: Json) -> str | None:
    found = content.get("name", content.get("as_name"))
    return (
        found
        if found is not None
        else next((_name(one) for one in content.values() if isinstance(one, Mapping)), None)
    )
