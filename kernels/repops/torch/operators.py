"""Every operator of the table as a `torch.library` operator `repops::<name>`: schema, CPU, CUDA and fake tensors.

All of this is derived from the row. An attribute of kind "int" is an `int`, "ints" an `int[]`, "dtype" a `ScalarType`;
all are keyword-only. Operators without inputs take a `device`. The gradients are in `gradients`.

NOTE: `torch` is PyTorch here and in the other files of this folder; imports are absolute.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from .. import torch_executor
from ..fuse.expression import f32_bits
from ..opset import OPS, Op, lookup
from ..torch_arrays import TORCH_DTYPE

NAMESPACE = "repops"
LIBRARY = torch.library.Library(
    NAMESPACE, "DEF"
)  # INVARIANT: the operators stay registered as long as it lives
HAS_OPTIONS: dict[str, bool] = {}
_SCHEMA = {"int": "int", "ints": "int[]", "dtype": "ScalarType"}

# Dispatch keys. Those without a kernel are listed so that a refusal names the argument, as for a wrong dtype.
_DEVICES = ("CPU", "CUDA")
_REFUSED = ("SparseCPU", "SparseCUDA", "SparseCsrCPU", "SparseCsrCUDA", "MkldnnCPU", "QuantizedCPU")


def define(name: str, tensors: str, options: Sequence[str], results: int) -> None:
    """Define `repops::name`. Compilers keep the strides of arguments, because arguments must be contiguous."""
    returns = "Tensor" if results == 1 else f"({', '.join(['Tensor'] * results)})"
    arguments = ", ".join([*tensors.split(", "), "*", *options] if options else [tensors]).removeprefix(", ")
    HAS_OPTIONS[name] = bool(options)
    LIBRARY.define(f"{name}({arguments}) -> {returns}", tags=(torch.Tag.needs_exact_strides,))


def implement(name: str, run: Callable[..., Any], fake: Callable[..., Any]) -> None:
    for key in (*_DEVICES, *_REFUSED):
        LIBRARY.impl(name, run, key)
    torch.library.register_fake(f"{NAMESPACE}::{name}", fake, lib=LIBRARY)


def single(results: list[Any]) -> Any:
    return results[0] if len(results) == 1 else tuple(results)


def check_devices(name: str, names: Sequence[str], tensors: Sequence[torch.Tensor]) -> torch.device:
    """Return the device of all tensors. Raise ArrayError if there are several."""
    return torch_executor.device_of(name, list(zip(names, tensors, strict=True)))


def empty(spec: Any, device: torch.device) -> torch.Tensor:
    return torch.empty(spec[1], dtype=TORCH_DTYPE[spec[0]], device=device)


# ------------------------------------------------------------------------------------- operators on tensors


def _tensors_of(row: Op, arguments: tuple[Any, ...]) -> Sequence[torch.Tensor]:
    return arguments[0] if row.arity is None else arguments


def _make_run(row: Op) -> Callable[..., Any]:
    def run(*arguments: Any, **attrs: Any) -> Any:
        results = torch_executor.run(row.name, _tensors_of(row, arguments), torch_executor.options_of(attrs))
        # NOTE: an operator of torch.library must not return its argument's memory.
        return single([result.clone() for result in results] if row.name == "reshape" else results)

    return run


def _make_fake(row: Op) -> Callable[..., Any]:
    def fake(*arguments: Any, **attrs: Any) -> Any:
        tensors = _tensors_of(row, arguments)
        row.check_arity(len(tensors))
        names = [row.argument(i) for i in range(len(tensors))]
        device = check_devices(row.name, names, tensors)
        specs = [
            static_spec(x, f"{row.name}: {argument}") for x, argument in zip(tensors, names, strict=True)
        ]
        return single([empty(spec, device) for spec in row.infer(specs, torch_executor.options_of(attrs))])

    return fake


def static_spec(tensor: torch.Tensor, where: str) -> Any:
    """Return the spec with plain ints: a compiler fixes symbolic dimensions here and compiles each shape again."""
    dtype, shape = torch_executor.spec_of(tensor, where)
    return dtype, tuple(int(dim) for dim in shape)


# -------------------------------------------------------------------------------- operators from nothing


def _make_source(row: Op) -> tuple[Callable[..., Any], Callable[..., Any]]:
    def arguments(attrs: dict[str, Any]) -> tuple[torch.device, dict[str, Any]]:
        device = attrs.pop("device", None)
        if "bits" in attrs:
            attrs["bits"] %= 1 << 64  # an int of a schema has a sign
        return torch.device("cpu") if device is None else device, torch_executor.options_of(attrs)

    def run(**attrs: Any) -> Any:
        device, attrs = arguments(attrs)
        if device.type == "cpu":
            return single(torch_executor.run(row.name, [], attrs))
        out = [empty(spec, device) for spec in row.infer([], attrs)]
        return single(torch_executor.run(row.name, [], attrs, out))

    def fake(**attrs: Any) -> Any:
        device, attrs = arguments(attrs)
        return single([empty(spec, device) for spec in row.infer([], attrs)])

    return run, fake


def _register(row: Op) -> None:
    options = [f"{_SCHEMA[kind]} {name}" for name, kind in row.attrs]
    results = 2 if row.name == "max_pool2d" else 1
    if row.arity == 0:
        define(row.name, "", [*options, "Device? device=None"], results)
        run, fake = _make_source(row)
        LIBRARY.impl(row.name, run, "CompositeExplicitAutograd")
        torch.library.register_fake(f"{NAMESPACE}::{row.name}", fake, lib=LIBRARY)
        return
    tensors = (
        f"Tensor[] {row.args[:-1]}"
        if row.arity is None
        else ", ".join(f"Tensor {x}" for x in row.args.split())
    )
    define(row.name, tensors, options, results)
    implement(row.name, _make_run(row), _make_fake(row))


for _row in OPS:
    _register(_row)


def overload(name: str) -> Any:
    """Return the registered operator `repops::name`."""
    return getattr(getattr(torch.ops, NAMESPACE), name).default


class TensorOps:
    """Every operator as a method on tensors of one device, with autograd: an `Ops` of repops.fuse.expression."""

    def __init__(self, device: torch.device):
        self._device = device

    def scalar(self, value: float) -> torch.Tensor:
        return self.full(shape=(), dtype=torch.float32, bits=f32_bits(value))

    def full(self, **attrs: Any) -> torch.Tensor:
        result: torch.Tensor = overload("full")(**attrs, device=self._device)
        return result

    def arange(self, n: int) -> torch.Tensor:
        result: torch.Tensor = overload("arange")(n=n, device=self._device)
        return result

    def cat(self, *tensors: torch.Tensor, dim: int) -> torch.Tensor:
        result: torch.Tensor = overload("cat")(tensors, dim=dim)
        return result

    def max_pool2d(self, x: torch.Tensor, **attrs: Any) -> tuple[torch.Tensor, torch.Tensor]:
        values, indices = overload("max_pool2d")(x, **attrs)
        return values, indices

    def __getattr__(self, name: str) -> Callable[..., torch.Tensor]:
        """Every other operator of the table has one result."""
        lookup(name)
        operator: Callable[..., torch.Tensor] = overload(name)
        return operator
