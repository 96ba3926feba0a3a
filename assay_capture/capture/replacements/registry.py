"""The tables of replacements, and the context in which they apply."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from torch._C import DispatchKey, _dispatch_has_kernel_for_dispatch_key
from torch._dispatch.python import enable_python_dispatcher
from torch._ops import OpOverload

Function = TypeVar("Function", bound=Callable[..., Any])
Overload = OpOverload[..., Any]

REPLACED: dict[Overload, Callable[..., Any]] = {}
DECOMPOSED: dict[Overload, Callable[..., Any]] = {}
Patch = tuple[Any, str, Any]
PATCHES: list[Patch] = []
"""Attributes that have another value during a trace: (module or class, name, value)."""
LATE_PATCHES: list[Callable[[], list[Patch]]] = []
"""The same for libraries that may not be loaded."""


def replaces(*operators: Overload) -> Callable[[Function], Function]:
    """Register a function that is called instead of these operators, and is then differentiated."""
    return _into(REPLACED, operators)


def decomposes(*operators: Overload) -> Callable[[Function], Function]:
    """Register a function for operators that occur after differentiation, such as in gradients."""
    return _into(DECOMPOSED, operators)


def _into(
    table: dict[Overload, Callable[..., Any]], operators: tuple[Overload, ...]
) -> Callable[[Function], Function]:
    def register(function: Function) -> Function:
        for operator in operators:
            assert operator not in table, operator
            table[operator] = function
        return function

    return register


def _key(operator: Overload) -> DispatchKey:
    composite = DispatchKey.CompositeImplicitAutograd
    has_one = _dispatch_has_kernel_for_dispatch_key(operator.name(), composite)
    return composite if has_one else DispatchKey.Autograd


@contextlib.contextmanager
def in_place() -> Iterator[None]:
    """Apply all replacements. NOTE: PyTorch reads these kernels only while its Python dispatcher is enabled."""
    before: list[tuple[Overload, DispatchKey, Any]] = []
    patches = [*PATCHES, *(patch for find in LATE_PATCHES for patch in find())]
    old = [(module, name, getattr(module, name)) for module, name, _ in patches]
    try:
        for operator, function in REPLACED.items():
            key = _key(operator)
            before.append((operator, key, operator.py_kernels.get(key)))
            operator.py_kernels[key] = function
            operator._dispatch_cache.clear()
        for module, name, value in patches:
            setattr(module, name, value)
        with enable_python_dispatcher():
            yield
    finally:
        for module, name, value in old:
            setattr(module, name, value)
        for operator, key, kernel in before:
            if kernel is None:
                del operator.py_kernels[key]
            else:
                operator.py_kernels[key] = kernel
            operator._dispatch_cache.clear()
