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
from ..capture.untrusted import whole_quotient
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
_SCALARS = {"item", "_local_scalar_dense"}
"""Operators of ATen that give a number of a tensor, beside those of sizes."""
_MAX_NUMBER = (1 << 63) - 1
_ARITHMETIC = "add sub mul floordiv truediv mod neg eq ne lt le gt ge and_ or_ not_"
_NUMBERS: dict[str, Callable[..., Any]] = {
    **{f"_operator.{name}": getattr(operator, name) for name in _ARITHMETIC.split()},
    "math.trunc": int,
    "torch.sym_float": float,
    "torch.sym_int": int,
    "torch.sym_max": max,
    "torch.sym_min": min,
    "torch.sym_not": operator.not_,
}
"""Functions of sizes, which are called through `_of_numbers`."""
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
        return _of_numbers(_NUMBERS[target], where)
    if target == "_operator.getitem":
        return _part
    found = _ATEN.fullmatch(target)
    if found is not None and found[1] not in _FILES:
        packet = getattr(torch.ops.aten, found[1], None)
        overload = (
            getattr(packet, found[2], None) if isinstance(packet, torch._ops.OpOverloadPacket) else None
        )
        if isinstance(overload, torch._ops.OpOverload) and _of_tensors(found[1], overload):
            own = _OWN.get(found[1])
            return overload if own is None else own(overload)
    raise Unsupported(
        f"operator {target[:80]!r}",
        "export the model with operators of ATen only, without torch.compile's or own ones",
        where,
    )


def _of_numbers(compute: Callable[..., Any], where: str) -> Callable[..., Any]:
    """Return a function of sizes that takes and gives numbers of 64 bits alone.

    SAFETY: a product of integers doubles their length, `%` of a text writes as many spaces as it says.
    """

    def run(*given: Any) -> Any:
        result = compute(*(_number(value, where) for value in given))
        return _number(result, where)

    return run


def _number(value: Any, where: str) -> Any:
    if type(value) not in (int, float, bool):
        raise CaptureError(
            f"{where} of {type(value).__name__} {str(value)[:40]!r}; sizes are numbers: export the model again"
        )
    if type(value) is int and abs(value) > _MAX_NUMBER:
        raise CaptureError(
            f"{where}: a whole number of {value.bit_length()} bits; the limit is {_MAX_NUMBER}; export the model for "
            "smaller sizes"
        )
    return value


def _part(sequence: Any, place: Any) -> Any:
    """Return an item of several results."""
    if not isinstance(sequence, list | tuple) or type(place) is not int:
        raise TypeError(f"item {str(place)[:40]} of {type(sequence).__name__}, which is no list")
    return sequence[place]


def _of_tensors(name: str, overload: torch._ops.OpOverload) -> bool:
    """Return whether an operator gives tensors, or a size. Others compute lists and texts of any length."""
    returns = overload._schema.returns
    sizes = name.startswith("sym_") or name in _SCALARS
    return sizes or (bool(returns) and all("Tensor" in str(one.type) for one in returns))


def _dropout(input: torch.Tensor, p: float, train: bool) -> torch.Tensor:  # noqa: A002  (ATen's names)
    return functional.dropout(input, p, train)


def _attention(**named: Any) -> torch.Tensor:
    return functional.scaled_dot_product_attention(**named)


def _divided(overload: torch._ops.OpOverload) -> Callable[..., Any]:
    """Return a division that ends no process, whatever its integers are."""

    def run(**named: Any) -> Any:
        x, y = named.get("self"), named.get("other")
        if named.get("rounding_mode") == "trunc" and _whole(x) and _whole(y) and isinstance(x, torch.Tensor):
            assert y is not None
            result = whole_quotient(x, y)
            return x.copy_(result) if overload._schema.is_mutable else result
        return overload(**named)

    return run


def _whole(value: Any) -> bool:
    return not value.is_floating_point() if isinstance(value, torch.Tensor) else type(value) is int


_OWN: dict[str, Callable[[torch._ops.OpOverload], Callable[..., Any]]] = {
    "dropout": lambda _: _dropout,
    "scaled_dot_product_attention": lambda _: _attention,
    **dict.fromkeys(("div", "div_", "divide", "divide_"), _divided),
}
"""Operators that are called otherwise. Those that draw random numbers: as a module calls them, so that the guard leaves
dropout out."""


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
