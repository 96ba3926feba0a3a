"""Tensors that are no argument of a traced step: a program holds them as they are, and so no step may change them.

They come from Python: an attribute that is no buffer, a closure, a global, a tensor of the module read past its call.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode

from .errors import LeftOver, Unsupported


class NoWrites(TorchDispatchMode):
    """Raises Unsupported where a write to a tensor with data is about to run, which would change the user's own.

    NOTE: other writes are in the graph (`check_writes`); where every operand has data, PyTorch computes at once.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func._schema.is_mutable:
            for k, argument in enumerate(func._schema.arguments):
                if argument.alias_info is None or not argument.alias_info.is_write:
                    continue
                written = args[k] if k < len(args) else kwargs.get(argument.name)
                for tensor in written if isinstance(written, list | tuple) else (written,):
                    if isinstance(tensor, torch.Tensor) and not isinstance(tensor, FakeTensor):
                        raise _is_written("")
        return func(*args, **kwargs)


def _is_written(where: str) -> Unsupported:
    return Unsupported(
        "it writes to a tensor that is not a parameter or buffer, and the next step would not see it",
        "register it as a buffer of its module",
        where,
    )


def check_reads(graph: torch.fx.GraphModule, changing: Mapping[str, torch.Tensor]) -> None:
    """Raise Unsupported if the step reads what changes past the module's call: it would keep its first value for ever.

    A parameter would have no gradient from there, too, which in a penalty on weights is too small for the guard to see.
    """
    places = {tensor.untyped_storage()._cdata: name for name, tensor in changing.items()}
    for node in graph.graph.nodes:
        value = getattr(graph, str(node.target), None) if node.op == "get_attr" and node.users else None
        if isinstance(value, torch.Tensor) and (name := places.get(value.untyped_storage()._cdata)):
            raise Unsupported(
                f"it reads {name} of the module from outside forward(), where a program has another value in each step",
                "compute what depends on it in the module's forward(), and give it to the loss; for a penalty on "
                "squares of weights, use the optimizer's weight_decay",
                "loss",
            )


def check_constants(constants: Mapping[Any, Any], tensors: Sequence[torch.Tensor]) -> None:
    """Raise LeftOver for a tensor without data that another trace has left somewhere."""
    ours = cast("FakeTensor", tensors[0]).fake_mode
    for name, value in constants.items():
        if isinstance(value, FakeTensor) and value.fake_mode is not ours:
            raise LeftOver(
                f"{name} is a tensor that an earlier trace has left in Python, {value.dtype} {list(value.shape)}",
                "keep what is computed once in a buffer, or empty the cache that holds it",
                "module or loss",
            )


def check_writes(graph: torch.fx.GraphModule) -> None:
    """Raise Unsupported for a write to a tensor that is not a buffer: the next step would not see it."""
    for node in graph.graph.nodes:
        schema = getattr(node.target, "_schema", None)
        if schema is None or not schema.is_mutable or not node.args:
            continue
        written = node.args[0]
        while isinstance(written, torch.fx.Node) and written.op == "call_function" and _is_view(written):
            written = written.args[0]
        if isinstance(written, torch.fx.Node) and written.op == "get_attr":
            path = node.meta.get("custom", {}).get("module", "or loss")
            raise _is_written(f"module {path}, {node.target}")


def _is_view(node: torch.fx.Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    return schema is not None and any(value.alias_info for value in schema.returns)


def text_of(graph: torch.fx.GraphModule) -> str:
    """Return a graph as text, by which it is another one if a tensor in it has other values."""
    names = [str(node.target) for node in graph.graph.nodes if node.op == "get_attr" and node.users]
    return "\n".join([graph.code, *(f"{name} {_digest(getattr(graph, name, None))}" for name in names)])


def _digest(value: Any) -> str:
    if not isinstance(value, torch.Tensor) or value.is_meta or isinstance(value, FakeTensor):
        return repr(type(value))
    if value.layout != torch.strided or value.is_quantized:
        return str(id(value))
    content: Any = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    return f"{value.dtype} {list(value.shape)} {hashlib.blake2b(content).hexdigest()}"
