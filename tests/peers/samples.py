"""Samples of PyTorch's tables as cases: a module whose parameters are the tensors that require gradients."""

from __future__ import annotations

import itertools
import random
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_modules import module_db
from torch.utils import _pytree as pytree

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
MOST = 3
"""Samples of a function, evenly spread over those that PyTorch makes."""
_LOOKED_AT = 60
"""Samples that are made to choose from; some functions have thousands."""
_CLONED = (torch.float32, torch.bfloat16, torch.float64)


class Sampled(nn.Module):
    """A function of tensors as a module: those that require gradients are parameters, the others buffers.

    Gives a parameter of its own and the tensors of the result. The parameter is there for functions without gradients,
    since a program trains something.
    """

    def __init__(self, function: Callable[..., Any], given: Any, layer: nn.Module | None) -> None:
        super().__init__()
        leaves, self._spec = pytree.tree_flatten(given)
        self._function, self.layer = function, layer
        self.anchor = nn.Parameter(torch.zeros(1))
        self._rest: list[Any] = []
        self._names: list[str] = []
        for k, leaf in enumerate(leaves):
            is_tensor = isinstance(leaf, torch.Tensor)
            self._names.append(f"given{k}" if is_tensor else "")
            self._rest.append(None if is_tensor else leaf)
            if is_tensor and leaf.requires_grad:
                self.register_parameter(f"given{k}", nn.Parameter(leaf.detach().clone()))
            elif is_tensor:
                self.register_buffer(f"given{k}", leaf.detach().clone())

    def forward(self, _: torch.Tensor) -> Any:
        # NOTE: clones, so that functions that write into what they get write into no leaf.
        tensors = (getattr(self, name).clone() if name else None for name in self._names)
        leaves = [t if t is not None else rest for t, rest in zip(tensors, self._rest, strict=True)]
        args, kwargs = pytree.tree_unflatten(leaves, self._spec)
        result = (self.layer or self._function)(*args, **kwargs)
        if self.layer is not None:
            result = self._function(result)
        return self.anchor, [t for t in pytree.tree_leaves(result) if isinstance(t, torch.Tensor)]


@dataclass(frozen=True)
class Case:
    """A sample: the table and the function, dtype and number, and the module that applies it."""

    table: str
    function: str
    dtype: str
    number: int
    module: Sampled

    @property
    def name(self) -> str:
        return f"{self.table}/{self.function}/{self.dtype}/{self.number}"


def functions() -> list[str]:
    """Return the names of all functions of both tables, in their order: `op/...` and `module/...`."""
    return list(_tables())


def cases(function: str, dtype: str) -> Iterator[Case]:
    """Make the samples of a function, always the same ones. None if PyTorch lacks the dtype there."""
    torch.manual_seed(seed := zlib.crc32(f"{function}/{dtype}".encode()))
    random.seed(seed)
    np.random.seed(seed)  # which PyTorch's samples draw from
    table, _, name = function.partition("/")
    make = _of_op if table == "op" else _of_module
    for number, module in enumerate(_spread(make(_tables()[function], DTYPES[dtype]))):
        yield Case(table, name, dtype, number, module)


def _tables() -> dict[str, Any]:
    named = [("op/" + op.full_name, op) for op in op_db]
    return dict([*named, *(("module/" + info.name, info) for info in module_db)])


def _spread(made: Iterator[Any]) -> list[Any]:
    found = list(itertools.islice(made, _LOOKED_AT))
    places = sorted({round(k) for k in np.linspace(0, len(found) - 1, min(MOST, len(found)))})
    return [found[place] for place in places]


def _of_op(op: Any, dtype: torch.dtype) -> Iterator[Sampled]:
    if not op.supports_dtype(dtype, "cpu"):
        return
    trains = op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
    for sample in op.sample_inputs("cpu", dtype, requires_grad=trains):

        def applied(*args: Any, _op: Any = op, _sample: Any = sample, **kwargs: Any) -> Any:
            return _sample.output_process_fn_grad(_op(*args, **kwargs))

        yield Sampled(applied, ((sample.input, *sample.args), sample.kwargs), None)


def _of_module(info: Any, dtype: torch.dtype) -> Iterator[Sampled]:
    if dtype not in info.dtypes and dtype != torch.bfloat16:
        return
    for training in (True, False):
        made = info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=True, training=training)
        for sample in made:
            layer = info.module_cls(*sample.constructor_input.args, **sample.constructor_input.kwargs)
            layer = layer.to(dtype).train(training)
            given = (sample.forward_input.args, sample.forward_input.kwargs)
            yield Sampled(lambda result: result, given, layer)
