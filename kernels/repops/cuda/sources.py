"""The CUDA sources: where they lie, and each as one self-contained text.

In the source tree they are kernels/cuda/*.cu, and what they share with C is in kernels/csrc; an installed package has
all of them beside this file.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

SOURCES = ("pointwise", "matmul", "conv", "reduce", "select", "layout", "scatter", "sha256")

_INCLUDE = re.compile(r'^#include "([^"]+)"$', re.MULTILINE)


class MissingSource(Exception):
    """A CUDA source is not where it should be: the package is not complete."""


def directories() -> list[Path]:
    """Where includes are looked for; the first holds the .cu files."""
    here = Path(__file__).parent
    kernels = here.parent.parent
    return [kernels / "cuda", kernels / "csrc"] if (kernels / "cuda" / "device.cuh").exists() else [here]


@cache
def text_of(name: str) -> str:
    """A source with its includes in place: what the compiler gets, and what the cache's key is made of."""
    return expanded(f"{name}.cu")


def expanded(file: str) -> str:
    """A file with its includes in place, each once."""
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
