"""Arrays from .npz and .safetensors files. Both are untrusted: no pickle, sizes known before memory is allocated."""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import numpy as np
from numpy.lib import format as npy
from safetensors import SafetensorError, safe_open

from referee_py.commit.tensor import Array
from referee_py.errors import InvalidEncoding, InvalidInput

MAX_BYTES = 16 << 30
"""Default limit on the bytes of all tensors of a data set together."""
MAX_TENSORS = 64
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
_EXACT: dict[str, type[np.generic]] = {"f2": np.float32, "f4": np.float32, "b1": np.bool_}
_EXACT |= dict.fromkeys(("u1", "u2", "u4", "i1", "i2", "i4", "i8"), np.int64)


def read_arrays(
    path: Path, names: Sequence[str] = (), *, rounded: bool = False, max_bytes: int = MAX_BYTES
) -> dict[str, Array]:
    """Return the named arrays of a .npz or .safetensors file, in that order; all of them, by name, if none is named.

    Smaller integers become i64 and f16 becomes f32, which is exact; f64 becomes f32 only if `rounded`.
    Raises InvalidInput or InvalidEncoding.
    """
    match path.suffix:
        case ".npz":
            found = _read_npz(path, names, max_bytes)
        case ".safetensors":
            found = read_safetensors(path, names, max_bytes)
        case other:
            raise InvalidInput(f"{path} ends in {other!r}; arrays are read from .npz and .safetensors files")
    return {name: converted(name, array, rounded) for name, array in found.items()}


def converted(name: str, array: Array, rounded: bool) -> Array:
    """Return the array as f32, i64 or bool: C-contiguous, writable, in this machine's byte order."""
    kind = array.dtype.str[1:]
    if kind == "f8" and rounded:
        with np.errstate(over="ignore"):
            return np.require(array, np.float32, ["C", "W"])
    if kind not in _EXACT:
        remedy = "allow rounding with --round" if kind == "f8" else "convert it to float32, int64 or bool"
        raise InvalidInput(f"tensor {name} is {array.dtype}, which has no exact counterpart here; {remedy}")
    return np.require(array, _EXACT[kind], ["C", "W"])


def check_name(name: object) -> str:
    """Return the name of a tensor. Raises InvalidInput unless it is plain."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidInput(
            f"{str(name)[:80]!r} is not a name of a tensor; use letters, digits, '_', '.' and '-'"
        )
    return name


def read_safetensors(path: Path, names: Sequence[str] = (), max_bytes: int = MAX_BYTES) -> dict[str, Array]:
    """Read arrays of a .safetensors file; errors as `read_arrays`. NOTE: the reader itself checks all offsets."""
    try:
        size = path.stat().st_size
        if size > max_bytes:
            raise InvalidInput(f"{path} has {size} bytes; the limit is {max_bytes}")
        with safe_open(path, framework="numpy") as file:
            chosen = _chosen(path, sorted(file.keys()), names)
            return {name: file.get_tensor(name) for name in chosen}
    except (SafetensorError, TypeError, AttributeError, ValueError) as error:
        raise InvalidEncoding(f"{path} is not a safetensors file of plain arrays: {error}") from error


def _chosen(path: Path, found: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return the names of the arrays to read. Raises InvalidInput for one that is missing or is not a valid name."""
    for name in names:
        if name not in found:
            raise InvalidInput(f"{path} has no array {name!r}; it has {', '.join(found[:20]) or 'none'}")
    chosen = [check_name(name) for name in (names or found)]
    if len(chosen) > MAX_TENSORS or len(set(chosen)) != len(chosen):
        raise InvalidInput(f"{len(chosen)} arrays; name up to {MAX_TENSORS} different ones with --names")
    return chosen


def _read_npz(path: Path, names: Sequence[str], max_bytes: int) -> dict[str, Array]:
    """Read arrays of a .npz file. SAFETY: a member's real size is compared with its header before an array is made, and
    zipfile gives no more bytes than the directory declares, so a small file cannot become a large array."""
    with path.open("rb") as file:
        return _read_archive(path, file, names, max_bytes)


def _read_archive(path: Path, file: IO[bytes], names: Sequence[str], max_bytes: int) -> dict[str, Array]:
    try:
        with zipfile.ZipFile(file) as archive:
            members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
            chosen = _chosen(path, sorted(members), names)
            total = sum(members[name].file_size for name in chosen)
            if total > max_bytes:
                raise InvalidInput(f"the arrays of {path} take {total} bytes; the limit is {max_bytes}")
            return {name: _read_member(archive, members[name]) for name in chosen}
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError) as error:
        raise InvalidEncoding(f"{path} is not an .npz file of plain arrays: {error}") from error


def _read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Array:
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{info.filename} is compressed in way {info.compress_type}; numpy uses 0 and 8")
    with archive.open(info) as file:
        version = npy.read_magic(file)
        if version not in ((1, 0), (2, 0)):
            raise ValueError(f"{info.filename} is of .npy format {version}; write format 1.0 or 2.0")
        read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, fortran, dtype = read_header(file)
        if dtype.hasobject:
            raise ValueError(f"{info.filename} holds Python objects, which are never read")
        count = 1
        for dim in shape:
            count *= dim  # NOTE: Python's integers, so that a hostile shape cannot overflow
        if any(dim < 0 for dim in shape) or count * dtype.itemsize != info.file_size - file.tell():
            raise ValueError(
                f"{info.filename} declares {shape} of {dtype}, and holds another number of bytes"
            )
        flat = np.frombuffer(file.read(), dtype)
    return flat.reshape(shape, order="F" if fortran else "C")
