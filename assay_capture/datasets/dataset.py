"""A data set: named tensors with the same number of rows, and one root that commits to all of them.

    root = tree (tag 13, as for the constants of a program) over the TENSOR hashes, in order

A program takes rows of its constants by an order table, so a tensor of a data set is a constant of the program that
trains on it: same bytes, same hash. The bundle is a folder:

    data.safetensors   the tensors by name
    manifest.json      their order, types and hashes; the root; where they came from
    ...                files that the origin names, such as a tokenizer
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from pydantic_core import from_json

from referee_py.commit import HASH_BYTES, Tag, Tree, canonical, tensor_hash
from referee_py.commit.tensor import Array
from referee_py.errors import HashMismatch, InvalidEncoding, InvalidInput, UnknownVersion
from referee_py.program import TensorType
from trainer_node.storage.artifacts import parse_hash
from trainer_node.storage.tensor_file import save_tensors

from .arrays import MAX_BYTES, check_name, read_safetensors

FORMAT = 1
MAX_MANIFEST_BYTES = 4 << 20
MAX_EXTRA_BYTES = 64 << 20
_EXTRA_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


@dataclass(frozen=True)
class Dataset:
    """`tensors` are f32, i64 or bool, each `[rows, ...]`, in the order of the root. `origin` is for people.

    `extras` are small files kept with the tensors (a tokenizer), by name. Raises InvalidInput.
    """

    tensors: Mapping[str, Array]
    origin: Mapping[str, Any] = field(default_factory=dict)
    extras: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if not self.tensors:
            raise InvalidInput("a data set without tensors; name at least one")
        for name, array in self.tensors.items():
            check_name(name)
            TensorType.of(array)
            _check_values(name, array)
        rows = {name: len(array) if array.ndim else 0 for name, array in self.tensors.items()}
        if len(set(rows.values())) != 1 or not self.rows:
            raise InvalidInput(f"tensors of a data set need as many rows each, and at least one: {rows}")
        for name, data in self.extras.items():
            if not _EXTRA_NAME.fullmatch(name) or len(data) > MAX_EXTRA_BYTES:
                raise InvalidInput(f"{name!r} of {len(data)} bytes cannot be kept with the tensors")

    @property
    def rows(self) -> int:
        first = next(iter(self.tensors.values()))
        return len(first) if first.ndim else 0

    def hashes(self) -> dict[str, bytes]:
        """Return the TENSOR hash of each tensor."""
        return {name: tensor_hash(array) for name, array in self.tensors.items()}

    def root(self) -> bytes:
        """Return the 32 bytes that commit to every tensor and to their order, but not to their names."""
        return Tree(Tag.CONSTANT_TREE, list(self.hashes().values())).root

    # ------------------------------------------------------------------------------------------------ folder

    def write(self, folder: Path) -> Path:
        """Write the bundle; return the folder. Refuses a folder that holds anything but an older bundle."""
        known = {"data.safetensors", "manifest.json", *self.extras}
        if folder.exists() and (foreign := {path.name for path in folder.iterdir()} - known):
            raise InvalidInput(f"{folder} holds {sorted(foreign)[0]!r} already; choose a new folder")
        folder.mkdir(parents=True, exist_ok=True)
        save_tensors(
            {name: canonical(array) for name, array in self.tensors.items()}, folder / "data.safetensors"
        )
        for name, data in self.extras.items():
            (folder / name).write_bytes(data)
        hashes = self.hashes()
        manifest = {
            "format": FORMAT,
            "root": Tree(Tag.CONSTANT_TREE, list(hashes.values())).root.hex(),
            "rows": self.rows,
            "tensors": [
                {"name": name, "type": str(TensorType.of(array)), "hash": hashes[name].hex()}
                for name, array in self.tensors.items()
            ],
            "extras": sorted(self.extras),
            "origin": dict(self.origin),
        }
        (folder / "manifest.json").write_text(json.dumps(manifest, indent=1, ensure_ascii=False) + "\n")
        return folder

    @classmethod
    def read(cls, folder: Path, max_bytes: int = MAX_BYTES) -> Dataset:
        """Read a bundle and check every hash. Raises InvalidInput, InvalidEncoding or HashMismatch."""
        manifest = _manifest(folder)
        names = [tensor["name"] for tensor in manifest["tensors"]]
        tensors = read_safetensors(folder / "data.safetensors", names, max_bytes)
        extras = {name: (folder / name).read_bytes() for name in manifest["extras"]}
        dataset = cls(tensors, manifest["origin"], extras)
        hashes = dataset.hashes()
        for tensor in manifest["tensors"]:
            if hashes[tensor["name"]] != tensor["hash"]:
                raise HashMismatch(
                    f"tensor {tensor['name']} of {folder} has hash {hashes[tensor['name']].hex()}, "
                    f"its manifest says {tensor['hash'].hex()}; build or fetch the data set again"
                )
        if Tree(Tag.CONSTANT_TREE, list(hashes.values())).root != manifest["root"]:
            raise HashMismatch(f"{folder} has another root than its manifest says; build it again")
        return dataset


def is_dataset(folder: Path) -> bool:
    """Return whether the folder holds a bundle, valid or not."""
    return (folder / "manifest.json").is_file()


def _check_values(name: str, array: Array) -> None:
    """Raise InvalidInput for values that are not finite: in training data they are a mistake of its author."""
    if array.dtype == np.float32 and not (finite := np.isfinite(array)).all():
        place = tuple(int(k) for k in np.argwhere(~finite)[0])
        raise InvalidInput(
            f"tensor {name} holds {finite.size - int(finite.sum())} values that are not finite, "
            f"the first at {list(place)}; clean the data first"
        )


def _manifest(folder: Path) -> dict[str, Any]:
    """Return manifest.json with its hashes parsed. SAFETY: names become paths and keys, so they are checked here."""
    path = folder / "manifest.json"
    try:
        if path.stat().st_size > MAX_MANIFEST_BYTES:
            raise InvalidEncoding(f"{path} has more than {MAX_MANIFEST_BYTES} bytes, the limit")
        # SAFETY: this parser limits nesting; json.loads overflows the C stack on a file of brackets.
        found = from_json(path.read_bytes())
        if found["format"] != FORMAT:
            raise UnknownVersion(f"{folder} is of format {found['format']!r}; this build reads {FORMAT}")
        tensors = [
            {"name": check_name(tensor["name"]), "hash": parse_hash(tensor["hash"])}
            for tensor in found["tensors"]
        ]
        extras = [name for name in found["extras"] if _EXTRA_NAME.fullmatch(name)]
        if extras != found["extras"] or not isinstance(found["origin"], dict):
            raise InvalidEncoding(f"{path} names files that cannot be next to it")
        if not tensors or len({tensor["name"] for tensor in tensors}) != len(tensors):
            raise InvalidEncoding(f"{path} names no tensor, or one twice")
        for name in extras:
            if not (folder / name).is_file() or (folder / name).stat().st_size > MAX_EXTRA_BYTES:
                raise InvalidEncoding(f"{folder / name} is missing or above {MAX_EXTRA_BYTES} bytes")
        root = parse_hash(found["root"])
        assert len(root) == HASH_BYTES
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InvalidEncoding(
            f"{folder} is not a data set: {error}; see `assay data build --help`"
        ) from error
    return {"tensors": tensors, "extras": extras, "origin": found["origin"], "root": root}
