"""Tensors of a file as parameters and buffers of a module, under (nearly) the file's names."""

from __future__ import annotations

import re

import torch


class Scope(torch.nn.Module):
    """A level of the tensors' names: `encoder.layer` holds `weight`."""


def register(
    root: torch.nn.Module, name: str, tensor: torch.Tensor, *, buffer: bool, trained: bool
) -> tuple[torch.nn.Module, str]:
    """Make a parameter or buffer of a copy of the tensor; return the module that holds it and its name there.

    SAFETY: the name is untrusted: it becomes plain words, none of which is an existing attribute.
    """
    words = [re.sub(r"[^A-Za-z0-9_]", "_", word) or "_" for word in re.split(r"[./]", name)[:16]]
    *path, leaf = [word[:64] for word in words]
    scope = root
    for word in path:
        while hasattr(scope, word) and word not in scope._modules:
            word += "_"
        if word not in scope._modules:
            scope.add_module(word, Scope())
        scope = scope._modules[word]  # type: ignore[assignment]
    while hasattr(scope, leaf):
        leaf += "_"
    if buffer:
        scope.register_buffer(leaf, tensor.clone())
    else:
        scope.register_parameter(leaf, torch.nn.Parameter(tensor.clone(), requires_grad=trained))
    return scope, leaf
