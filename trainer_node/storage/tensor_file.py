"""Safetensors files that people keep: results, states, exports."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.numpy import save_file

from referee_py.commit.tensor import Array

from ..errors import DiskFailed


def save_tensors(tensors: Mapping[str, Array], path: Path, metadata: Mapping[str, str] | None = None) -> None:
    """Write a file with these tensors, and its folder: the whole file or nothing. Raises DiskFailed.

    NOTE: the library has an error of its own for what a disk refuses.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        save_file(dict(tensors), path, None if metadata is None else dict(metadata))
    except (SafetensorError, OSError) as error:
        reason = str(error).removeprefix("Error while serializing: ").removeprefix("I/O error: ")
        raise DiskFailed(f"{path} cannot be written: {reason}; make room, or name another place") from error
