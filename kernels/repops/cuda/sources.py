"""Finds the CUDA sources and expands each to one self-contained text.

In the source tree they are kernels/cuda/*.cu, and the parts shared with C are in kernels/csrc/shared. An installed
package has all of them next to this file.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

SOURCES = (
    *("pointwise", "reduce", "select", "layout", "scatter", "sha256"),
    *("matmul", "matmul_bf16", "conv", "conv_bf16"),
    *("exact_matmul", "exact_matmul_bf16", "exact_int8", "exact_conv", "exact_conv_bf16", "exact_reduce"),
    *("tc16_matmul", "tc16_conv", "tc16_warpgroup", "tc16_patches"),
)
FOR_WARPGROUPS = {"tc16_warpgroup"}
"""Sources for sm_90a alone: they use what other architectures, earlier and later ones, do not have."""

_INCLUDE = re.compile(r'^#include "([^"]+)"$', re.MULTILINE)


class MissingSource(Exception):
    """A CUDA source is missing from its folder: the package is incomplete."""


def directories() -> list[Path]:
    """Return the folders that are searched for includes; the first holds the .cu files."""
    here = Path(__file__).parent
    kernels = here.parent.parent
    return (
        [kernels / "cuda", kernels / "csrc" / "shared"]
        if (kernels / "cuda" / "device.cuh").exists()
        else [here]
    )


@cache
def text_of(name: str) -> str:
    """Return a source with its includes in place: the compiler's input and a part of the cache's key."""
    return expanded(f"{name}.cu")


def architecture_of(name: str, device: str) -> str:
    """Return the architecture for which a source is compiled, for a device such as "sm_90"."""
    return f"{device}a" if name in FOR_WARPGROUPS else device


def expanded(file: str) -> str:
    """Return a file with its includes in place, each once. Raise MissingSource."""
    seen: set[str] = set()

    def expand(file: str) -> str:
        if file in seen:
            return ""
        seen.add(file)
        for folder in directories():
            if (folder / file).exists():
                return _INCLUDE.sub(lambda match: expand(match[1]), (folder / file).read_text())
        raise MissingSource(f"{file} is not in {[str(folder) for folder in directories()]}")

    return expand(file)
