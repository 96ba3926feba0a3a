"""The size of a model that a folder's configuration asks for, held against the files of weights in the folder.

The library builds a model on the meta device first, without data, and then makes what the files lack. A few bytes of
a configuration can ask for any number of layers, and for weights of any size that no file has.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import safetensors
from torch.nn.modules import module as hooks

from referee_py.errors import InvalidInput

from ..capture.untrusted import MAX_GROWTH

MAX_DRAWN_BYTES = 1 << 30
"""Bytes of tensors beyond those that the files can fill: heads that are drawn, masks, tables of positions."""
MODULES = 1000
MODULES_PER_TENSOR = 16
"""Most modules, of a model and for each tensor of its files. Layers have about as many modules as tensors."""


@contextlib.contextmanager
def bounded(folder: Path) -> Iterator[None]:
    """Refuse, while a model of a folder is built in this thread, modules and bytes beyond those that its files explain.

    Raises InvalidInput out of the module that goes beyond.
    """
    files = sorted(folder.glob("*.safetensors"))
    count = _Count(folder, sum(path.stat().st_size for path in files), sum(map(_tensors, files)))
    handles = (
        hooks.register_module_module_registration_hook(count.module),
        hooks.register_module_parameter_registration_hook(count.tensor),
        hooks.register_module_buffer_registration_hook(count.tensor),
    )
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _tensors(path: Path) -> int:
    with safetensors.safe_open(path, "np") as file:
        return len(file.keys())


class _Count:
    """Counts what modules are made of, while it is registered."""

    def __init__(self, folder: Path, size: int, tensors: int) -> None:
        self._folder, self._size, self._tensors = folder, size, tensors
        self._thread = threading.get_ident()
        self._modules = self._bytes = 0

    def module(self, _parent: Any, _name: str, module: Any) -> None:
        """Count a module. Raises InvalidInput."""
        if module is None or threading.get_ident() != self._thread:
            return
        self._modules += 1
        limit = MODULES + MODULES_PER_TENSOR * self._tensors
        if self._modules > limit:
            raise InvalidInput(
                f"{self._folder / 'config.json'} asks for {self._modules} modules or more; the limit is {limit}, as "
                f"the files of weights hold {self._tensors} tensors; correct its number of layers, or write the whole "
                "model with save_pretrained"
            )

    def tensor(self, _parent: Any, name: str, tensor: Any) -> None:
        """Count a tensor without data. Raises InvalidInput."""
        if tensor is None or not tensor.is_meta or threading.get_ident() != self._thread:
            return
        self._bytes += tensor.numel() * tensor.element_size()
        limit = MAX_GROWTH * self._size + MAX_DRAWN_BYTES
        if self._bytes > limit:
            raise InvalidInput(
                f"{self._folder / 'config.json'} asks for tensors of {self._bytes} bytes or more, {name[:80]} "
                f"{list(tensor.shape)} among them; the limit is {limit}, as the files of weights have {self._size} "
                "bytes; correct the sizes that it gives, or write the whole model with save_pretrained"
            )
