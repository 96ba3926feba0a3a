"""Hash of the kernels that computed a replay: the same files and the same arithmetic give the same hash anywhere.

SHA-256 over lines of text: `assay kernels 1`, mode, device, the SHA-256 of librepops.so; on a GPU that of the CUDA
sources; of each library whose sums the mode uses, its version (`torch`, in rounded-f64).
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import metadata
from pathlib import Path

from repops.cuda.sources import SOURCES, text_of
from repops.host.library import LIBRARY

from ..run.modes import libraries_of


@cache
def kernel_digest(mode: int, device: str) -> str:
    """Return 64 hexadecimal digits for an arithmetic mode on "cpu" or "cuda", as they are installed here."""
    lines = ["assay kernels 1", f"mode {mode}", f"device {device}", f"librepops {_library()}"]
    if device == "cuda":
        texts = "".join(text_of(name) for name in SOURCES)
        lines.append(f"cuda {hashlib.sha256(texts.encode()).hexdigest()}")
    lines += [f"{name} {metadata.version(name)}" for name in libraries_of(mode)]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _library() -> str:
    # NOTE: a library that is replaced while we run gives the new file's hash; `make setup` is no part of an audit.
    return hashlib.sha256(Path(LIBRARY._name).read_bytes()).hexdigest()
