"""After each test of capture the process is as it was: modes of PyTorch, its dispatcher, caches of libraries."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.fx.traceback
from torch._C import DispatchKey
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn import functional
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from assay_capture.capture import process
from assay_capture.capture.draws import _DROPOUTS
from assay_capture.capture.replacements import REPLACED
from assay_capture.capture.replacements.registry import PATCHES

_found: tuple[int, list[process.Cache[Any]]] = (0, [])


def _caches() -> list[process.Cache[Any]]:
    """Return the caches of the process, looked for again once something was imported."""
    global _found
    if _found[0] != len(sys.modules):
        _found = len(sys.modules), process.tensor_caches()
    return _found[1]


def state() -> dict[str, Any]:
    """Return what a capture could leave behind."""
    return {
        "default dtype": torch.get_default_dtype(),
        "grad mode": (torch.is_grad_enabled(), torch.is_inference_mode_enabled()),
        "autocast": torch.is_autocast_enabled("cpu"),
        "dispatch modes": len(_get_current_dispatch_mode_stack()),
        "function modes": len(torch.overrides._get_current_function_mode_stack()),
        "threads": torch.get_num_threads(),
        "kernels": {str(op): dict(op.py_kernels) for op in REPLACED},
        "dispatcher": torch._C._dispatch_tls_is_dispatch_key_included(DispatchKey.PythonDispatcher),
        "patched": [getattr(owner, name) for owner, name, _ in PATCHES],
        "dropout": [getattr(torch, name) for name in _DROPOUTS],
        "attention": functional.scaled_dot_product_attention,
        "kernels by name": sorted(vars(torch._VF)),
        "annotations": dict(torch.fx.traceback.current_meta),
        "global hooks": len(torch.nn.modules.module._global_forward_hooks),
        "mkldnn": torch.backends.mkldnn.enabled,
        "logging": logging.getLogger("torch._subclasses.fake_tensor").level,
    }


@pytest.fixture(autouse=True)
def nothing_is_left_in_the_process() -> Iterator[None]:
    before = state()
    yield
    after = state()
    assert {name: after[name] for name in after if after[name] != before[name]} == {}
    left = [cache for cache in _caches() if process.holds_tensor(cache, FakeTensor)]
    assert not left, f"caches hold tensors without data: {left}"
