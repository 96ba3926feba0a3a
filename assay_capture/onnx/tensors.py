"""Tensors of an ONNX file as torch tensors of the three dtypes that programs have, and f64 for scalars.

Integers of all sizes become i64 (ONNX exporters use i32 for axes and counts; nothing wraps at 32 bits here). f64 is for
values that are computed before tracing, such as the root of a size; capture refuses it elsewhere. Data may be in files
next to the model. SAFETY: their names come from the file, so only plain names below the model's own folder are opened,
no links, and every offset and length is compared with the file's real size before anything is read.
"""

from __future__ import annotations

import math
from pathlib import Path, PurePosixPath

import numpy as np
import onnx
import torch

from ..capture.errors import CaptureError, Unsupported
from ..capture.untrusted import FileBudget

MAX_ELEMENTS = 1 << 34
MAX_RANK = 64
"""Most dimensions of an array of numpy."""
_T = onnx.TensorProto
_READ: dict[int, str] = {
    _T.FLOAT: "<f4",
    _T.DOUBLE: "<f8",
    _T.INT64: "<i8",
    _T.INT32: "<i4",
    _T.INT16: "<i2",
    _T.INT8: "i1",
    _T.UINT8: "u1",
    _T.UINT16: "<u2",
    _T.UINT32: "<u4",
    _T.BOOL: "?",
}
_FIELDS: dict[int, str] = {
    _T.FLOAT: "float_data",
    _T.DOUBLE: "double_data",
    _T.INT64: "int64_data",
    _T.UINT32: "uint64_data",
}
_DTYPES: dict[int, torch.dtype] = {_T.FLOAT: torch.float32, _T.DOUBLE: torch.float64, _T.BOOL: torch.bool}
_DTYPES |= {code: torch.int64 for code in _READ if code not in _DTYPES}


def torch_dtype(code: int, where: str) -> torch.dtype:
    """Return the dtype that stands for an ONNX element type. Raises Unsupported for one without a counterpart."""
    if code not in _DTYPES:
        name = _T.DataType.Name(code) if code in _T.DataType.values() else str(code)
        raise Unsupported(f"element type {name}", "export the model in float32", where)
    return _DTYPES[code]


class Tensors:
    """Reads the tensors of one model, of which all count in one budget. `folder` holds external data."""

    def __init__(self, folder: Path, budget: FileBudget) -> None:
        self._folder, self._budget = folder, budget
        self._opened: set[Path] = set()

    def inline(self, tensor: onnx.TensorProto) -> torch.Tensor:
        """Return a tensor whose data is in the model's file. Raises CaptureError or Unsupported."""
        return _to_torch(tensor, None, self)

    def read(self, tensor: onnx.TensorProto) -> torch.Tensor:
        """Return a tensor, in its own memory. Raises CaptureError or Unsupported."""
        return _to_torch(tensor, self._folder, self)

    def opens(self, path: Path) -> None:
        """Count a file that is opened for the first time."""
        if path not in self._opened:
            self._opened.add(path)
            self._budget.add_file(path.stat().st_size)

    def take(self, count: int, where: str) -> None:
        """Count bytes that are about to be read. Raises CaptureError beyond the limit."""
        self._budget.take(count, where)


def _to_torch(tensor: onnx.TensorProto, folder: Path | None, tensors: Tensors) -> torch.Tensor:
    where = f"tensor {tensor.name[:80]!r}"
    dtype = torch_dtype(tensor.data_type, where)
    shape = tuple(tensor.dims)
    count = math.prod(shape)
    # NOTE: zero elements of a huge shape are no tensor either, neither to numpy nor to PyTorch.
    if min(shape, default=1) < 0 or len(shape) > MAX_RANK or math.prod(filter(None, shape)) > MAX_ELEMENTS:
        raise CaptureError(
            f"{where} has shape {list(shape[:8])}, of {len(shape)} dimensions; the limits are {MAX_ELEMENTS} elements "
            f"and {MAX_RANK} dimensions"
        )
    stored = np.dtype(_READ[tensor.data_type])
    if tensor.data_location == _T.EXTERNAL:
        path, offset = _external(tensor, folder, count * stored.itemsize, where)
        tensors.opens(path)
        tensors.take(count * dtype.itemsize, where)
        with path.open("rb") as file:
            file.seek(offset)
            data = file.read(count * stored.itemsize)
    elif tensor.HasField("raw_data"):
        data = tensor.raw_data
    else:
        return _from_field(tensor, shape, dtype, where, tensors)
    if len(data) != count * stored.itemsize:
        raise CaptureError(f"{where} has {len(data)} bytes of data for {list(shape)}; export the model again")
    if tensor.data_location != _T.EXTERNAL:
        tensors.take(count * dtype.itemsize, where)
    if stored == np.bool_ and data and max(data) > 1:
        raise CaptureError(f"{where} has a bool that is neither 0 nor 1; export the model again")
    array = np.frombuffer(data, stored).reshape(shape)
    return torch.from_numpy(array.astype(_NUMPY[dtype]))


_NUMPY = {torch.float32: np.float32, torch.float64: np.float64, torch.int64: np.int64, torch.bool: np.bool_}


def _from_field(
    tensor: onnx.TensorProto, shape: tuple[int, ...], dtype: torch.dtype, where: str, tensors: Tensors
) -> torch.Tensor:
    values = getattr(tensor, _FIELDS.get(tensor.data_type, "int32_data"))
    if tensor.data_type == _T.UINT32:  # NOTE: u32 are kept in fields of u64, which numpy would wrap
        values = list(values)
    if len(values) != math.prod(shape):
        raise CaptureError(f"{where} has {len(values)} values for {list(shape)}; export the model again")
    tensors.take(len(values) * dtype.itemsize, where)
    try:
        return torch.from_numpy(np.array(values, dtype=_NUMPY[dtype]).reshape(shape))
    except OverflowError as error:
        raise CaptureError(
            f"{where} has a value that its type cannot hold; export the model again"
        ) from error


def _external(tensor: onnx.TensorProto, folder: Path | None, size: int, where: str) -> tuple[Path, int]:
    """Return a file in the model's folder, and where in it `size` bytes are. Raises CaptureError if they are not."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    path = _inside(folder, entries.get("location", ""), where)
    try:
        offset, length = int(entries.get("offset", "0")), int(entries.get("length", str(size)))
    except ValueError:
        raise CaptureError(
            f"{where} has an offset or length that is not a number; export the model again"
        ) from None
    real = path.stat().st_size
    if offset < 0 or length != size or offset + length > real:
        raise CaptureError(
            f"{where} names bytes {offset} + {length} of {path.name}, which has {real}; it needs {size}"
        )
    return path, offset


def _inside(folder: Path | None, location: str, where: str) -> Path:
    """Return the file of that name below the folder. Raises CaptureError for a name that could lead elsewhere."""
    name = PurePosixPath(location)
    plain = location and "\\" not in location and "\0" not in location and not name.is_absolute()
    if folder is None or not plain or ".." in name.parts or len(location) > 255:
        raise CaptureError(
            f"{where} keeps its data in {location[:80]!r}; only files in the model's own folder are read"
        )
    root = folder.resolve()
    path = root / Path(*name.parts)
    if not path.is_file() or path.resolve() != path:
        raise CaptureError(
            f"{where} keeps its data in {location[:80]!r}, which is not a plain file next to the model"
        )
    return path
