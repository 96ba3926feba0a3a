"""State of the process that a capture leaves as it was: random numbers, modes of PyTorch, and caches of libraries.

SAFETY: a function behind functools.lru_cache that runs during a trace keeps tensors without data, and whoever calls it
next, also eager PyTorch, gets these. So caches that hold tensors are emptied before a trace, after which a program does
not depend on what ran before it, and after it. A cache is computed again when it is needed.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import random
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

Cache = functools._lru_cache_wrapper
_NEVER_TENSORS = ("torch", "sympy", "importlib", "typing", "re", "numpy", "repops", "referee_py")
"""Packages whose caches hold no tensors of a model; they are most of all caches."""
_DEPTH = 3
"""Depth to which what a cache holds is searched: a mapping, a tuple, a tensor in it."""


_known: list[list[Cache[Any]]] = []
"""The caches that were found by the outermost capture that runs."""


@contextlib.contextmanager
def process_kept() -> Iterator[None]:
    """Put generators, default dtype, modes and caches of tensors back, also after an error.

    Inside, gradients are on and nothing of the caller's autocast applies, so that a program does not depend on where it
    is captured.
    """
    if _known:
        yield
        return
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()
    dtype, threads, loaded = torch.get_default_dtype(), torch.get_num_threads(), len(sys.modules)
    exact = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )
    precision = torch.get_float32_matmul_precision()
    anomaly = torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()
    _known.append(tensor_caches())
    empty_caches()
    try:
        with (
            torch.inference_mode(False),
            torch.enable_grad(),
            torch.autocast("cpu", enabled=False),
            _nothing_compiled(),
        ):
            yield
    finally:
        torch.set_rng_state(states[0])
        random.setstate(states[1])
        np.random.set_state(states[2])
        torch.set_default_dtype(dtype)
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(exact[0], warn_only=exact[1])
        torch.set_float32_matmul_precision(precision)
        torch.autograd.set_detect_anomaly(*anomaly)
        if len(sys.modules) != loaded:
            _known.append(tensor_caches())
        empty_caches()
        _known.clear()


@contextlib.contextmanager
def _nothing_compiled() -> Iterator[None]:
    """Have what torch.compile has made called as it was written, also in a trace."""
    # NOTE: to import it takes seconds, and whoever has compiled something has it.
    if (dynamo := sys.modules.get("torch._dynamo")) is None:
        yield
        return
    with torch.compiler.set_stance("force_eager"), dynamo.config.patch(error_on_nested_fx_trace=False):
        yield


def give_memory_back() -> None:
    """Give the system the memory that was freed.

    NOTE: glibc keeps freed blocks of up to 32 MB for later use, and those of a model's tensors are rarely of use for
    other tensors: after a few stages of a build it holds more than the tensors take. Elsewhere nothing is done.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)


def empty_caches() -> None:
    """Empty the caches that hold tensors: also between two traces of one capture."""
    for cache in {id(cache): cache for caches in _known for cache in caches}.values():
        if holds_tensor(cache):
            cache.cache_clear()


def tensor_caches() -> list[Cache[Any]]:
    """Return the caches of the process (functools.lru_cache, functools.cache) that may hold tensors.

    NOTE: each object refers to its type; to look at all objects in Python takes twice as long as to let gc find these.
    """
    found = [cache for cache in gc.get_referrers(Cache) if type(cache) is Cache]
    return [cache for cache in found if (cache.__module__ or "").partition(".")[0] not in _NEVER_TENSORS]


def holds_tensor(cache: Cache[Any], kind: type[torch.Tensor] = torch.Tensor) -> bool:
    """Return whether a result that the cache keeps is a tensor of this kind, or has one in it."""
    return bool(cache.cache_info().currsize) and _tensor_in(gc.get_referents(cache), kind, _DEPTH)


def _tensor_in(values: Sequence[Any], kind: type[torch.Tensor], depth: int) -> bool:
    for value in values:
        if isinstance(value, kind):
            return True
        if not depth or not isinstance(value, list | tuple | dict):
            continue
        if _tensor_in(list(value.values()) if isinstance(value, dict) else value, kind, depth - 1):
            return True
    return False
