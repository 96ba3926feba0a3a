"""Reads an untrusted archive of `torch.export.save`: a ZIP file with the graph as JSON, and each tensor as raw bytes.

    NAME/models/model.json                             graph and signature
    NAME/data/weights/model_weights_config.json        by tensor: file, dtype, sizes, strides
    NAME/data/constants/model_constants_config.json

The schema is that of the module torch._export.serde.schema (8.x). Refused: pickled tensors, objects,
compiled models, compressed members.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from pydantic_core import from_json

from trainer_node.errors import ConfigError

from ..capture.errors import CaptureError, Unsupported
from ..capture.untrusted import FileBudget

MAX_JSON_BYTES = 1 << 28
MAX_MEMBERS = 1 << 16
MAX_NODES = 1 << 18
MAJOR = 8
"""Major version of the schema. Others mean something else by the same names."""
DTYPES = {
    1: torch.uint8,
    2: torch.int8,
    3: torch.int16,
    4: torch.int32,
    5: torch.int64,
    6: torch.float16,
    7: torch.float32,
    8: torch.float64,
    12: torch.bool,
    13: torch.bfloat16,
}
"""By the schema's ScalarType."""
Json = Mapping[str, Any]


@dataclass(frozen=True)
class Stored:
    """A tensor. ``trained``: its `requires_grad`; ``place``: the member that it and those tied to it share."""

    tensor: torch.Tensor = field(repr=False)
    trained: bool
    place: str


@dataclass(frozen=True)
class Archive:
    """A graph, its signature, and its tensors by name; ``ranges``: least and largest value of each open size."""

    graph: Json
    signature: Json
    ranges: Json
    tensors: Mapping[str, Stored] = field(repr=False)


def read(path: Path) -> Archive:
    """Read an archive. Raises CaptureError for a file that is none, and Unsupported, with the remedy."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file, zipfile.ZipFile(file) as archive:
            return _read(archive, path.name, size)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror or error}") from error
    except CaptureError:
        raise
    except RecursionError as error:
        raise CaptureError(f"{path.name} is no exported program: it is nested too deep") from error
    except (zipfile.BadZipFile, KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        reason = f"{type(error).__name__}: {str(error)[:200]}"
        raise CaptureError(f"{path.name} is no program that torch.export.save wrote: {reason}") from error
    except (MemoryError, RuntimeError) as error:
        if "encrypted" in str(error):
            raise CaptureError(f"{path.name} is encrypted; decrypt it, or export the model again") from error
        raise CaptureError(
            f"{path.name} of {size} bytes does not fit into memory: {str(error)[:200]}; use a machine with more"
        ) from error


def _read(archive: zipfile.ZipFile, name: str, size: int) -> Archive:
    members = archive.infolist()
    if len(members) > MAX_MEMBERS:
        raise CaptureError(f"{name} has {len(members)} members; the limit is {MAX_MEMBERS}")
    found: dict[str, zipfile.ZipInfo] = {}
    for member in members:
        if member.compress_type != zipfile.ZIP_STORED or member.file_size > size:
            raise CaptureError(
                f"{name}: member {member.filename[:80]!r} is compressed; torch.export.save does not"
            )
        found[member.filename.partition("/")[2]] = member
    models = [entry for entry in found if entry.startswith("models/") and entry.endswith(".json")]
    if any(entry.startswith("data/aotinductor/") for entry in found):
        raise Unsupported(
            "a compiled model", "save the exported program itself: torch.export.save(program, file)", name
        )
    if len(models) != 1:
        raise CaptureError(
            f"{name} holds {len(models)} exported programs, and one is read; "
            "write it with torch.export.save of PyTorch 2.9 or later"
        )
    model = models[0].removeprefix("models/").removesuffix(".json")
    whole = _json(archive, found[models[0]])
    if whole["schema_version"]["major"] != MAJOR:
        raise Unsupported(
            f"version {str(whole['schema_version'])[:60]} of the format of exported programs",
            f"save it with a PyTorch whose format is {MAJOR}.x (this is {torch.__version__})",
            name,
        )
    module = whole["graph_module"]
    if len(module["graph"]["nodes"]) > MAX_NODES:
        raise CaptureError(f"a program of {len(module['graph']['nodes'])} nodes; the limit is {MAX_NODES}")
    wanted = _wanted(module["signature"])
    places: dict[str, dict[str, Json]] = {}
    for kind in ("weights", "constants"):
        config = found.get(f"data/{kind}/{model}_{kind}_config.json")
        for key, meta in (_json(archive, config)["config"] if config is not None else {}).items():
            if key in wanted:
                places.setdefault(f"data/{kind}/{meta['path_name']}", {})[key] = meta
    budget, tensors = FileBudget(name, size), dict[str, Stored]()
    for place, metas in places.items():
        tensors |= _tensors(archive, found, place, metas, budget)
    return Archive(module["graph"], module["signature"], whole.get("range_constraints") or {}, tensors)


def _wanted(signature: Json) -> set[str]:
    """Return the names of the tensors that the program has as inputs. The file may hold others, which are not read."""
    specs = (item for spec in signature["input_specs"] for item in spec.items())
    return {content[f"{kind}_name"] for kind, content in specs if f"{kind}_name" in content}


def _json(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Any:
    if member.file_size > MAX_JSON_BYTES:
        raise CaptureError(
            f"{member.filename[:80]!r} has {member.file_size} bytes; the limit is {MAX_JSON_BYTES}"
        )
    # NOTE: this parser limits nesting.
    return from_json(archive.read(member))


def _tensors(
    archive: zipfile.ZipFile,
    found: Mapping[str, zipfile.ZipInfo],
    place: str,
    metas: Mapping[str, Json],
    budget: FileBudget,
) -> dict[str, Stored]:
    """Return the tensors of one member, which is their storage and is read once."""
    for name, meta in metas.items():
        if meta["use_pickle"] or meta["tensor_meta"] is None:
            raise Unsupported(
                "a pickled value, which could run code",
                "export the model with plain tensors, on the CPU",
                f"tensor {name[:80]!r}",
            )
    budget.take(found[place].file_size, f"member {place[:80]!r}")
    data = bytearray(archive.read(found[place]))
    same: dict[tuple[Any, ...], torch.Tensor] = {}
    stored = {}
    for name, meta in metas.items():
        where, described = f"tensor {name[:80]!r}", meta["tensor_meta"]
        layout = _layout(described, len(data), where)
        if layout not in same:
            same[layout] = _tensor(data, layout, where, budget)
        trained = bool(described["requires_grad"]) and bool(meta.get("is_param"))
        stored[name] = Stored(same[layout], trained, place)
    return stored


def _layout(described: Json, size: int, where: str) -> tuple[Any, ...]:
    """Return dtype, sizes, strides and offset of a tensor inside `size` bytes. Raises CaptureError, Unsupported."""
    if (dtype := DTYPES.get(described["dtype"])) is None:
        raise Unsupported(
            f"ScalarType {described['dtype']}", "export the model in float32 or bfloat16", where
        )
    sizes, strides = (tuple(_whole(n, where) for n in described[key]) for key in ("sizes", "strides"))
    offset = _whole(described["storage_offset"], where)
    last = offset + sum((n - 1) * stride for n, stride in zip(sizes, strides, strict=True))
    if 0 not in sizes and max(last + 1, math.prod(sizes)) * dtype.itemsize > size:
        raise CaptureError(f"{where} needs {last + 1} elements; its file has {size} bytes")
    return dtype, sizes, strides, offset


def _tensor(data: bytearray, layout: tuple[Any, ...], where: str, budget: FileBudget) -> torch.Tensor:
    dtype, sizes, strides, offset = layout
    if 0 in sizes:
        return torch.empty(sizes, dtype=dtype)
    budget.take(math.prod(sizes) * dtype.itemsize, where)
    flat = torch.frombuffer(data, dtype=dtype, count=len(data) // dtype.itemsize)
    return flat.as_strided(sizes, strides, offset).clone(memory_format=torch.contiguous_format)


def _whole(value: Any, where: str) -> int:
    number = value["as_int"]
    if isinstance(number, bool) or not isinstance(number, int) or number < 0:
        raise CaptureError(f"{where}: {str(number)[:40]} is no size")
    return number
