"""A trained state as a folder that `from_pretrained` of `transformers` or `peft` loads. Needs neither, and no torch.

state (slots) ─┐
constants ─────┼─ export.json says which is which ──> model.safetensors, or adapter_model.safetensors
unread ────────┘
config.json, tokenizer.json, ... as they were; README.md says what is known about the result

SAFETY: a bundle may come from anybody. Its files have plain names of a few kinds and known hashes (bundle.py); no file
of them is code or asks for code from elsewhere, none replaces a file that is written here or has others loaded in its
place, and nothing is unpickled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pydantic_core import from_json
from repops.opset import BF16
from repops.tensors import NUMPY_DTYPE
from safetensors.numpy import load

from referee_py.commit.tensor import Array
from referee_py.errors import InvalidEncoding, InvalidInput
from trainer_node.local.bundle import Bundle
from trainer_node.local.provenance import Provenance
from trainer_node.storage.tensor_file import save_tensors

from .card import model_card
from .plain_json import without_code

FORMAT = 1
INDEX, UNREAD = "export.json", "unread.safetensors"
OPTIMIZER_FILE = "optimizer.safetensors"
_FILES = {"model.safetensors": "transformers", "adapter_model.safetensors": "peft"}
_SUFFIXES = {".json", ".jinja", ".model", ".spm", ".txt"}
_MAX_KEY = 512
MAX_COPIES = 4
"""Maximum size of one file, as a multiple of all tensors of the program."""


def export(
    bundle: Bundle, state: Sequence[Array], folder: Path, known: Provenance, *, optimizer_state: bool = False
) -> list[str]:
    """Write the folder; return the names of its files.

    `state` holds the slots in order, as `fetch_result` gives them. Raises InvalidInput if the bundle says nothing about
    an export, or if the folder holds something; InvalidEncoding if what it says does not fit its program.
    """
    check_export(bundle, folder)
    file, tensors = _read_index(bundle.extras[INDEX])
    available = _available(bundle, state)
    weights = {key: _weight(available[entry["from"]], entry.get("dtype")) for key, entry in tensors.items()}
    folder.mkdir(parents=True, exist_ok=True)
    save_tensors(weights, folder / file, {"format": "pt", "program": bundle.terms.hash().hex()})
    written = [file]
    left: list[str] = []
    for name, data in bundle.extras.items():
        if Path(name).suffix in _SUFFIXES and not _is_ours(name, file):
            plain, dropped = without_code(name, data)
            (folder / name).write_bytes(plain)
            written.append(name)
            left += dropped
    if optimizer_state:
        slots = _slots(bundle, state)
        moments = {name: array for name, array in slots.items() if not name.startswith(("param.", "buffer."))}
        save_tensors(moments, folder / OPTIMIZER_FILE, {"program": bundle.terms.hash().hex()})
        written.append(OPTIMIZER_FILE)
    sources = {entry["from"] for entry in tensors.values()}
    unproven = sorted(sources & _unread(bundle.extras.get(UNREAD)).keys() - set(_slots(bundle, state)))
    card = model_card(bundle, known, _FILES[file], optimizer_state, unproven, left)
    (folder / "README.md").write_text(card)
    return [*written, "README.md"]


def check_export(bundle: Bundle, folder: Path) -> None:
    """Raise InvalidInput or InvalidEncoding if `export` would, for any state of the program."""
    if INDEX not in bundle.extras:
        raise InvalidInput(
            f"{bundle.name} is not a model of transformers or peft, or was built by another version; write the state "
            "itself as safetensors, or build the bundle again"
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidInput(f"{folder} holds files already, or is one; choose a new folder")
    available = _available(bundle, bundle.initial)
    total = 0
    for key, entry in _read_index(bundle.extras[INDEX])[1].items():
        if entry["from"] not in available:
            raise InvalidEncoding(
                f"{INDEX} says that {key[:80]!r} is {entry['from'][:80]!r}, which the bundle lacks"
            )
        total += available[entry["from"]].nbytes
    # SAFETY: a small index may name one large tensor a million times; weights that somebody tied are there twice.
    if total > (limit := MAX_COPIES * sum(array.nbytes for array in available.values())):
        raise InvalidEncoding(f"{INDEX} asks for {total} bytes; the limit is {limit}: build the bundle again")


def _read_index(data: bytes) -> tuple[str, dict[str, Mapping[str, Any]]]:
    """Return the file to write, and label and dtype of each of its tensors."""
    try:
        # SAFETY: this parser limits nesting; json.loads overflows the C stack on a file of brackets.
        found = from_json(data)
        file, tensors = found["file"], found["tensors"]
        if found["format"] != FORMAT or file not in _FILES or not isinstance(tensors, dict):
            raise ValueError(f"format {found['format']!r}, file {str(file)[:80]!r}")
        for key, entry in tensors.items():
            if len(key) > _MAX_KEY or not key.isprintable() or not isinstance(entry["from"], str):
                raise ValueError(f"tensor {key[:80]!r}")
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidEncoding(f"{INDEX} of the bundle cannot be read: {error}; build it again") from error
    return file, tensors


def _named(labels: object, arrays: Sequence[Array], what: str) -> dict[str, Array]:
    if not isinstance(labels, list) or len(labels) != len(arrays):
        raise InvalidEncoding(f"the bundle does not name its {len(arrays)} {what}; build it again")
    return dict(zip(map(str, labels), arrays, strict=True))


def _slots(bundle: Bundle, state: Sequence[Array]) -> dict[str, Array]:
    """Return the state by name. Raises InvalidEncoding for one name of two slots, of which one would be lost."""
    named = _named(bundle.labels.get("slots"), state, "slots")
    if len(named) != len(state):
        raise InvalidEncoding(f"{len(named)} different names for {len(state)} slots; build the bundle again")
    return named


def _is_ours(name: str, file: str) -> bool:
    """Return whether a file of the bundle is only for the export, or would have other weights loaded than these."""
    return (
        name in (INDEX, UNREAD)
        or name.endswith(".index.json")
        or (name == "adapter_config.json" and _FILES[file] != "peft")
    )


def _available(bundle: Bundle, state: Sequence[Array]) -> dict[str, Array]:
    """Return what an export can consist of, by name."""
    return {
        **_named(bundle.labels.get("constants"), bundle.constants, "constants"),
        **_unread(bundle.extras.get(UNREAD)),
        **_slots(bundle, state),
    }


def _unread(data: bytes | None) -> dict[str, Array]:
    try:
        return {} if data is None else load(data)
    except Exception as error:
        raise InvalidEncoding(f"{UNREAD} of the bundle cannot be read: {error}; build it again") from error


def _weight(array: Array, dtype: object) -> Array:
    """Return a tensor in the dtype that the model has it in. NOTE: master copies of bf16 weights are f32."""
    wanted = NUMPY_DTYPE[BF16] if dtype == "bf16" else array.dtype
    return np.array(array, wanted, order="C")
