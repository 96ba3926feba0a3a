"""The module that is traced: what is inside a wrapper, what is refused, and how it is left as it was."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.func import functional_call

from .errors import CaptureError, Unsupported


def plain_module(module: torch.nn.Module) -> torch.nn.Module:
    """Return the module inside a compiled or parallel one. Raises CaptureError for what cannot be traced."""
    while (inner := _inner(module)) is not None:
        module = inner
    for path, child in module.named_modules():
        where = path or type(child).__name__
        if isinstance(child, torch.jit.ScriptModule):
            raise CaptureError(f"module {where} is scripted; give the module that it was made of")
        if getattr(child, "track_running_stats", False) and getattr(child, "momentum", 0.0) is None:
            raise CaptureError(
                f"module {where}: with momentum=None its averages depend on the number of steps; give it a momentum"
            )
        for name, parameter in child.named_parameters(recurse=False):
            if torch.nn.parameter.is_lazy(parameter):
                raise CaptureError(
                    f"module {where}: {name} has no shape yet; call the module once on an example, then capture it"
                )
    return module


def _inner(module: torch.nn.Module) -> torch.nn.Module | None:
    """Return the module in a wrapper of PyTorch's. Raises CaptureError for one that does more than to call it."""
    # NOTE: to import it takes seconds, and whoever has compiled a module has it.
    compiled = getattr(sys.modules.get("torch._dynamo.eval_frame"), "OptimizedModule", None)
    if type(module) is compiled:
        name = "_orig_mod"
    elif type(module) in (torch.nn.DataParallel, torch.nn.parallel.DistributedDataParallel):
        name = "module"
    else:
        return None
    own = vars(module)
    if any(own.get(name) for name in own if name.endswith("_hooks")):
        raise CaptureError(
            f"the {type(module).__name__} around the module has hooks, which a program would leave out; register them "
            "on the module inside"
        )
    return module._modules[name]


def check_memory(tensors: Mapping[str, torch.Tensor], trained: set[str]) -> None:
    """Raise CaptureError for a trained parameter that shares its memory: an update of one would change the other."""
    owners: dict[int, tuple[str, int, int]] = {}
    for name, tensor in tensors.items():
        if tensor.is_meta or isinstance(tensor, FakeTensor) or not tensor.numel():
            continue
        reach = sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride(), strict=True))
        first = tensor.data_ptr()
        last, memory = first + reach * tensor.element_size(), tensor.untyped_storage()._cdata
        other, low, high = owners.setdefault(memory, (name, first, last))
        if other != name and first <= high and low <= last and {name, other} & trained:
            raise CaptureError(
                f"{other} and {name} are two tensors in the same memory; use one nn.Parameter in both places, "
                "transposed in forward() where it is needed"
            )


@contextlib.contextmanager
def tensors_kept(module: torch.nn.Module) -> Iterator[None]:
    """Put all tensors back. NOTE: functional_call leaves fake ones in a module that has several names."""
    kept = [(child, dict(child._parameters), dict(child._buffers)) for child in module.modules()]
    try:
        yield
    finally:
        for child, parameters, buffers in kept:
            child._parameters.update(parameters)
            child._buffers.update(buffers)


def called(
    module: torch.nn.Module, state: dict[str, torch.Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Call a module with other tensors. NOTE: recurrent layers keep a list of their weights beside the weights, in
    which functional_call leaves what it was given."""
    result = functional_call(module, state, args, kwargs)
    for path, layer in module.named_modules():
        if isinstance(layer, torch.nn.RNNBase):
            for at, name in enumerate(layer._flat_weights_names):
                if layer._flat_weights[at] is state.get(f"{path}.{name}" if path else name):
                    layer._flat_weights[at] = getattr(layer, name)
    return result


@contextlib.contextmanager
def module_outputs(module: torch.nn.Module | None) -> Iterator[dict[str, torch.Tensor]]:
    """Collect the float tensors that each module gives, in the order in which they finish: `output.<path>.<call>`.

    The path of the module itself is the name of its class.
    """
    found: dict[str, torch.Tensor] = {}

    def keep(path: str) -> Callable[..., None]:
        def hook(_module: Any, _inputs: Any, result: Any) -> None:
            values = list(result.values()) if isinstance(result, Mapping) else result
            first = values[0] if isinstance(values, tuple | list) and values else values
            if isinstance(first, torch.Tensor) and first.is_floating_point():
                calls = sum(name.rpartition(".")[0] == f"output.{path}" for name in found)
                found[f"output.{path}.{calls}"] = first.detach().clone()

        return hook

    named = module.named_modules() if module else ()
    handles = []
    try:
        for path, child in named:
            handles.append(child.register_forward_hook(keep(path or type(child).__name__)))
        yield found
    finally:
        for handle in handles:
            handle.remove()


def hooked(name: str, parameter: torch.Tensor, gradient: torch.Tensor | None) -> torch.Tensor | None:
    """Return a gradient after the hooks of its parameter (`register_hook`), as backward() leaves it."""
    if getattr(parameter, "_post_accumulate_grad_hooks", None):
        raise Unsupported(
            f"{name} has a hook after its gradient is accumulated",
            "make it a part of the optimizer",
            "module",
        )
    for hook in (parameter._backward_hooks or {}).values():
        if gradient is not None and (changed := hook(gradient)) is not None:
            gradient = changed
    return gradient
